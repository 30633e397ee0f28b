import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { createGunzip, gzip } from 'node:zlib'
import type { Uuid } from '../../../lib/contract/ids.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import { entryOf, isBehind, latestFirst, lineOf, type Place, placeOf, type StoredEntry } from './line.ts'
import { compareInFile, type Member, membersOf } from './members-plan.ts'

/** Lines of a gzip member: what one ranged request for one person reads at least. */
export const MEMBER_LINES = 2000

export interface WrittenFile {
  bytes: number
  entries: number
  /** Of these, in the chain of a later day. */
  late: number
  sha256: string
  members: Member[]
}

const compress = promisify(gzip)

/**
 * Writes a day's entries as one object: JSON Lines in gzip members, which together are one valid gzip file. Holds one
 * member in memory. `entries` must be sorted as `compareInFile` says, and sealed.
 */
export async function writeDayFile(
  store: ObjectStore,
  key: string,
  day: string,
  entries: AsyncIterable<StoredEntry>,
  signal?: AbortSignal,
): Promise<WrittenFile> {
  const made: WrittenFile = { bytes: 0, entries: 0, late: 0, sha256: '', members: [] }
  const digest = createHash('sha256')

  async function pack(lines: readonly string[]): Promise<Buffer> {
    const packed = await compress(`${lines.join('\n')}\n`)
    digest.update(packed)
    made.bytes += packed.length
    return packed
  }

  async function* packedMembers() {
    let lines: string[] = []
    let before: StoredEntry | undefined
    for await (const entry of entries) {
      const chain = checkEntry(day, before, entry)
      before = entry
      if (lines.length === 0) made.members.push({ actor: entry.actorId, at: entry.occurredAt, offset: made.bytes })
      lines.push(lineOf(entry))
      made.entries += 1
      if (chain.day !== day) made.late += 1
      if (lines.length < MEMBER_LINES) continue
      yield await pack(lines)
      lines = []
    }
    // An empty day is a valid file, too.
    if (lines.length > 0 || made.entries === 0) yield await pack(lines)
  }

  await store.put(key, Readable.from(packedMembers()), {
    contentType: 'application/gzip',
    ...(signal && { signal }),
  })
  made.sha256 = digest.digest('hex')
  return made
}

function checkEntry(day: string, before: StoredEntry | undefined, entry: StoredEntry): { day: string } {
  // Readers look a person up by the first entry of each member: in another order they would miss entries.
  if (before && compareInFile(before, entry) >= 0) throw new Error(`entries of ${day} are not in order`)
  if (!entry.chain) throw new Error(`an entry of ${day} is not sealed`)
  if (!entry.occurredAt.startsWith(day)) throw new Error(`an entry is not of ${day}`)
  return entry.chain
}

export interface DayFile {
  key: string
  bytes: number
  members: readonly Member[]
}

export interface DayWanted {
  /** Of one person only: reads only the members that can have them. */
  actorId?: Uuid | undefined
  /** Entries behind this place. */
  after?: Place | undefined
  limit: number
  accept(entry: StoredEntry): boolean
  signal?: AbortSignal | undefined
}

export interface DayPage {
  /** The latest first. */
  rows: StoredEntry[]
  /** Bytes that were read from the store. */
  bytes: number
  /** There is nothing behind `rows`. */
  isDone: boolean
}

type Reader = Pick<ObjectStore, 'get'>

/** Members that one ranged request reads at most: about 3 MiB. */
const MEMBERS_AT_ONCE = 8

export const readDayFile = (store: Reader, file: DayFile, wanted: DayWanted): Promise<DayPage> =>
  wanted.actorId === undefined ? readWhole(store, file, wanted) : readPerson(store, file, wanted, wanted.actorId)

/** From the person's latest member backward, until the page is full: mostly one request for one member. */
async function readPerson(store: Reader, file: DayFile, wanted: DayWanted, actorId: Uuid): Promise<DayPage> {
  const range = membersOf(file.members, actorId, wanted.after?.at)
  const page: DayPage = { rows: [], bytes: 0, isDone: true }
  if (!range) return page
  for (let last = range.last; last >= range.first; last -= MEMBERS_AT_ONCE) {
    const first = Math.max(range.first, last - MEMBERS_AT_ONCE + 1)
    const start = file.members[first]?.offset ?? 0
    const end = (file.members[last + 1]?.offset ?? file.bytes) - 1
    page.bytes += end - start + 1
    const found = await findPerson(store, { key: file.key, start, end }, wanted, actorId)
    page.rows.push(...found.sort(latestFirst))
    if (page.rows.length > wanted.limit || (page.rows.length === wanted.limit && first > range.first)) {
      return { rows: page.rows.slice(0, wanted.limit), bytes: page.bytes, isDone: false }
    }
  }
  return page
}

async function findPerson(
  store: Reader,
  { key, ...range }: { key: string; start: number; end: number },
  wanted: DayWanted,
  actorId: Uuid,
): Promise<StoredEntry[]> {
  const found: StoredEntry[] = []
  for await (const line of linesOf(store, key, range, wanted.signal)) {
    // Parsing costs more than everything else, and most lines of a member are about others.
    if (!line.includes(actorId)) continue
    const entry = entryOf(line)
    if (entry.actorId === actorId && isWanted(entry, wanted)) found.push(entry)
  }
  return found
}

/** Reads all of it, and keeps the latest: no more than twice `limit` in memory. */
async function readWhole(store: Reader, file: DayFile, wanted: DayWanted): Promise<DayPage> {
  let rows: StoredEntry[] = []
  let isDone = true
  const keepLatest = () => {
    rows.sort(latestFirst)
    if (rows.length <= wanted.limit) return
    isDone = false
    rows = rows.slice(0, wanted.limit)
  }
  for await (const line of linesOf(store, file.key, undefined, wanted.signal)) {
    const entry = entryOf(line)
    if (!isWanted(entry, wanted)) continue
    rows.push(entry)
    if (rows.length >= 2 * wanted.limit + 1000) keepLatest()
  }
  keepLatest()
  return { rows, bytes: file.bytes, isDone }
}

const isWanted = (entry: StoredEntry, { after, accept }: DayWanted) =>
  (after === undefined || isBehind(placeOf(entry), after)) && accept(entry)

async function* linesOf(
  store: Reader,
  key: string,
  range: { start: number; end: number } | undefined,
  signal: AbortSignal | undefined,
): AsyncGenerator<string> {
  const { body } = await store.get(key, range, signal)
  const text = createGunzip()
  // A pipe passes no errors on, and does not close its source when its reader stops.
  body.on('error', (error) => text.destroy(error))
  text.on('close', () => body.destroy())
  body.pipe(text)
  let rest = ''
  text.setEncoding('utf8')
  for await (const chunk of text as AsyncIterable<string>) {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (line !== '') yield line
  }
  if (rest !== '') throw new Error(`${key} ends within a line`)
}
