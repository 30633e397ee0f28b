import { createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { type ObjectStore, StoreError } from '../../../lib/runtime/object-store/object-store.ts'
import type { AuditArchiveRow } from '../../db/schema/audit-archive.ts'
import { entryOf, type StoredEntry } from './line.ts'
import { compareInFile } from './members-plan.ts'

const unpack = promisify(gunzip)

/** The object of an archived day is not what its row says. */
export class FileFault extends Error {
  readonly what: 'archive missing' | 'archive changed'

  constructor(what: FileFault['what'], message: string) {
    super(message)
    this.what = what
  }
}

type Row = Pick<AuditArchiveRow, 'day' | 'objectKey' | 'entries' | 'bytes' | 'sha256' | 'members'>

const changed = ({ objectKey }: Row, why: string) => new FileFault('archive changed', `${objectKey}: ${why}`)

/**
 * Reads the object of an archived day as its readers do, member by member, and throws a `FileFault` at the end at the
 * latest if it is not the one that the row promises: every byte, and every place that a search for a person begins at.
 */
export async function* proveFile(store: Pick<ObjectStore, 'get' | 'head'>, row: Row): AsyncGenerator<StoredEntry[]> {
  const { objectKey: key, bytes, members } = row
  const stored = await store.head(key)
  if (!stored) throw new FileFault('archive missing', key)
  // An empty day has no members, and its object is not empty.
  const starts = members.length === 0 ? [0] : members.map(([, , start]) => start)
  if (stored.size !== bytes || starts[0] !== 0) throw changed(row, 'length')
  const digest = createHash('sha256')
  let entries = 0
  let before: StoredEntry | undefined
  for (const [n, start] of starts.entries()) {
    const end = starts[n + 1] ?? bytes
    if (end <= start) throw changed(row, `member ${n}`)
    const packed = await read(store, key, { start, end: end - 1 })
    digest.update(packed)
    const page = await entriesIn(packed).catch(() => {
      throw changed(row, `member ${n}`)
    })
    checkMember(row, n, page, before)
    before = page.at(-1) ?? before
    entries += page.length
    yield page
  }
  if (entries !== row.entries || digest.digest('hex') !== row.sha256) throw changed(row, 'digest')
}

/** The entries without a person, which are the last ones: reads no member that can have none. For a search, and no proof. */
export async function* readUnnamed(store: Pick<ObjectStore, 'get'>, row: Row): AsyncGenerator<StoredEntry[]> {
  const { members, bytes } = row
  const named = members.findIndex(([actor]) => actor === null)
  // The member before the first one that begins without a person can end without one.
  const first = Math.max(0, (named < 0 ? members.length : named) - 1)
  for (const [n, [, , start]] of members.entries()) {
    if (n < first) continue
    const packed = await read(store, row.objectKey, { start, end: (members[n + 1]?.[2] ?? bytes) - 1 })
    const page = await entriesIn(packed).catch(() => {
      throw changed(row, `member ${n}`)
    })
    yield page.filter(({ actorId }) => actorId === null)
  }
}

function checkMember(row: Row, n: number, page: readonly StoredEntry[], last: StoredEntry | undefined): void {
  const [first] = page
  const [actor, at] = row.members[n] ?? []
  if (first && (first.actorId !== actor || first.occurredAt !== at)) throw changed(row, `member ${n} begins elsewhere`)
  let before = last
  for (const entry of page) {
    const isInOrder = !before || compareInFile(before, entry) < 0
    if (!isInOrder || !entry.occurredAt.startsWith(row.day) || !entry.chain) throw changed(row, `entry ${entry.id}`)
    before = entry
  }
}

async function read(
  store: Pick<ObjectStore, 'get'>,
  key: string,
  range: { start: number; end: number },
): Promise<Buffer> {
  try {
    return await buffer((await store.get(key, range)).body)
  } catch (error) {
    if (error instanceof StoreError && error.code === 'NotFound') throw new FileFault('archive missing', key)
    throw error
  }
}

async function entriesIn(packed: Buffer): Promise<StoredEntry[]> {
  const text = (await unpack(packed)).toString('utf8')
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map(entryOf)
}
