import { formatId, type Uuid } from '../../lib/contract/ids.ts'
import { type Day, NO_ORG } from './seal-plan.ts'
import type { ArchiveFinding } from './verify-archives.ts'
import type { EndFault } from './verify-plan.ts'

/** What proves nothing any more. Each names the first place of its chain. */
export type Finding =
  | { what: 'link missing' | EndFault['what']; day: Day; org: string; number: number }
  | { what: 'entry missing' | 'changed or reordered'; day: Day; org: string; number: number; entry: string }
  | { what: 'entry without link'; day: Day; entry: string }
  | { what: 'differs from anchor' | 'removed since anchor'; day: Day; org: string; number: number; anchor: string }
  | { what: 'anchor missing' | 'anchor changed' | 'anchors differ'; day: Day; anchor: string }
  | { what: 'anchor ahead of the log'; since: string; day: Day; anchor: string }
  | { what: 'restore not accepted'; entry: string; sealed: number; anchored: number; anchored_at: string }
  | { what: 'restore unknown'; timeline: number }
  | { what: 'manifest changed' | 'purged early' | 'purged without entry'; day: Day }
  | ArchiveFinding

export interface Report {
  from: Day
  to: Day
  /** Entries whose links were proved. */
  entries: number
  /** Of these, the ones that are read from the object store. */
  archived: number
  chains: number
  anchors: number
  /** Anchors of what was lost in a restore. */
  ended: number
  /** Entries of these days that wait for the sealer. */
  unsealed: number
  /** Closed days of which the object store has no anchor yet. */
  unanchored: number
  /** Days that were purged after the time that a policy keeps them. */
  purged: number
  /** Restores to an earlier time that the log itself tells of. */
  restores: { entry: string; anchored_at: string }[]
  findings: Finding[]
}

export const orgOf = (orgId: Uuid) => (orgId === NO_ORG ? 'none' : formatId('organization', orgId))
