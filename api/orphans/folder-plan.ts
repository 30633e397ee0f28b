import type { Uuid } from '../../lib/contract/ids.ts'
import {
  auditDayKey,
  downloadPrefix,
  highlightPrefix,
  mediaPrefix,
  retentionReportKey,
  stagingPrefix,
  trackKey,
} from '../../lib/contract/object-keys.ts'

export type FolderKind = 'media' | 'staging' | 'highlight' | 'download' | 'track' | 'audit-day' | 'report'

/** What one row governs in the object store: a folder, or a single object. */
export interface Folder {
  kind: FolderKind
  /** The prefix, which ends in a slash; of a single object the key. */
  path: string
  /** What the row is found by: its id; of an audit day the key, of a report the name of the run. */
  row: string
  orgId?: Uuid
  userId?: Uuid
  /** Of an audit day, `YYYY-MM-DD`. */
  day?: string
}

/**
 * Everything that rows govern is below these. Elsewhere are the ledger of erasures and the anchors of the audit log, which
 * outlive the database on purpose.
 */
export const ROOTS = ['audit/days/', 'downloads/', 'org/', 'retention/reports/', 'tracks/'] as const

const ID = '([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})'
const MEDIA = new RegExp(`^(${mediaPrefix(ID, ID)}).`)
const STAGING = new RegExp(`^(${stagingPrefix(ID, ID)}).`)
const HIGHLIGHT = new RegExp(`^(${highlightPrefix(ID, ID)}).`)
const DOWNLOAD = new RegExp(`^(${downloadPrefix(ID, ID)}).`)
const TRACK = new RegExp(`^(${trackKey(ID).replace(/[^/]+$/, '')}).`)
const literally = (pattern: string) => pattern.replaceAll('.', '\\.')
// In the cold tier, too.
const DAY = new RegExp(`^${literally(auditDayKey('(?:cold/)?(\\d{4}-\\d\\d-\\d\\d)', ID))}$`)
const REPORT = new RegExp(`^${literally(retentionReportKey('([a-z0-9.-]{1,63})'))}$`)

const READERS: readonly ((key: string) => Folder | undefined)[] = [
  (key) => ofOrganization('media', MEDIA.exec(key)),
  (key) => ofOrganization('highlight', HIGHLIGHT.exec(key)),
  (key) => ofOrganization('staging', STAGING.exec(key)),
  (key) => {
    const [, path, userId, row] = DOWNLOAD.exec(key) ?? []
    return path && userId && row ? { kind: 'download', path, row, userId } : undefined
  },
  (key) => {
    const [, path, row] = TRACK.exec(key) ?? []
    return path && row ? { kind: 'track', path, row } : undefined
  },
  (key) => {
    const [, day] = DAY.exec(key) ?? []
    return day ? { kind: 'audit-day', path: key, row: key, day } : undefined
  },
  (key) => {
    const [, row] = REPORT.exec(key) ?? []
    return row ? { kind: 'report', path: key, row } : undefined
  },
]

function ofOrganization(kind: FolderKind, match: RegExpExecArray | null): Folder | undefined {
  const [, path, orgId, row] = match ?? []
  return path && orgId && row ? { kind, path, row, orgId } : undefined
}

/** Where an object belongs. Undefined for a key of no known kind: no row says anything about it. Pure. */
export function folderOf(key: string): Folder | undefined {
  for (const read of READERS) {
    const folder = read(key)
    if (folder) return folder
  }
  return undefined
}

/** Whether the folder has more than one object, all of whose keys begin with its path. */
export const isPrefix = ({ path }: Pick<Folder, 'path'>): boolean => path.endsWith('/')
