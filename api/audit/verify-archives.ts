import { formatId, type Uuid } from '../../lib/contract/ids.ts'
import { eitherTier } from '../../lib/runtime/object-store/either-tier.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../db/db.ts'
import type { AuditArchiveRow } from '../db/schema/audit-archive.ts'
import type { StoredEntry } from './archive/line.ts'
import { FileFault, proveFile, readUnnamed } from './archive/prove-file.ts'
import { findArchive, PURGE_OPERATION } from './archive/queries.ts'
import { type Day, dayAfter, NO_ORG } from './seal-plan.ts'
import { type ArchivedChains, DAYS_KEPT, untoldPurges } from './verify-plan.ts'
import { canonicalOf, findUnnotedOf, listPurgeEntries, type PurgeEntry, type Unnoted } from './verify-queries.ts'

export type ArchiveFinding =
  | { what: FileFault['what']; day: Day; object: string }
  | { what: 'entry archived twice'; day: Day; entry: string }
  | ActorFinding

/** A day has sealed entries of people whom readers of one person's actions do not look for there. Names one of them. */
export interface ActorFinding {
  what: 'actor missing'
  day: Day
  actors: number
  actor: string
}

/** One of a day, whatever it lacks: a report does not grow with the people of a log. */
export const actorFindings = (day: Day, { people, first }: Unnoted): ActorFinding[] =>
  first === null ? [] : [{ what: 'actor missing', day, actors: people, actor: formatId('user', first) }]

/** What it says of a day that was purged, if it is about one. */
function purgeOf({ actorId, resourceType, details }: StoredEntry): PurgeEntry | undefined {
  if (actorId !== null || resourceType !== 'audit_log') return undefined
  const { operation, day, manifest_sha256: manifest } = details
  if (operation !== PURGE_OPERATION || typeof day !== 'string' || typeof manifest !== 'string') return undefined
  return { day, manifest }
}

interface Archives {
  has(day: Day): boolean
  /** Its object is gone for good: nothing is left to prove but that it was the day of its manifest and its anchor. */
  isPurged(day: Day): boolean
  /**
   * Proves the object of a day, where it is by now, and returns the archived entries of the day's chains, which the caller may
   * change. Days in order.
   */
  take(day: Day): Promise<ArchivedChains>
  /** Whether the day was archived since it was taken; then take it again. */
  hasLeft(day: Day): Promise<boolean>
  /** Call it when a day is proved. */
  forget(day: Day): void
  /** Call it at the end: the purged days of which no entry tells. Looks in the days behind the range, too. */
  untold(): Promise<Day[]>
}

/**
 * The archived days of a range of the log. Keeps the entries of a day in memory, because its chains have another order
 * than its object, and those that were late until the day whose chain took them.
 */
export async function openArchives(
  deps: { db: Database; store: Pick<ObjectStore, 'get' | 'head'> },
  rows: readonly AuditArchiveRow[],
  { from, to }: { from: Day; to: Day },
  report: { findings: { what: string }[] },
): Promise<Archives> {
  const { db, store } = deps
  const byDay = new Map(rows.map((row) => [row.day, row]))
  const isPurged = (day: Day) => byDay.get(day)?.tier === 'purged'
  const isProved = (day: Day) => day >= from && day <= to
  const kept = new Map<Day, ArchivedChains>()
  /** Purged days of which an entry tells: no more than there are days, whatever the log has. */
  const told = new Set<Day>()
  const find = (finding: ArchiveFinding) => void report.findings.push(finding)

  function keep(day: Day, { id, orgId, chain }: StoredEntry, canonical: Buffer | undefined): void {
    if (!chain || !canonical || chain.day < from) return
    const chains = kept.get(chain.day) ?? new Map()
    kept.set(chain.day, chains)
    const org: Uuid = orgId ?? NO_ORG
    const entries = chains.get(org) ?? new Map()
    chains.set(org, entries)
    if (entries.has(chain.seq)) find({ what: 'entry archived twice', day, entry: formatId('audit', id) })
    entries.set(chain.seq, { id, canonical })
  }

  /** A verify takes hours, and days move to other tiers meanwhile: looks again where this one is. */
  async function look(day: Day): Promise<AuditArchiveRow | undefined> {
    const row = await db.read({}, (tx) => findArchive(tx, day))
    if (row) byDay.set(day, row)
    return row
  }

  /** What its object has, up to the place where it is not what its row says. */
  async function proved(row: AuditArchiveRow) {
    const entries: [StoredEntry, Buffer | undefined][] = []
    try {
      for await (const page of proveFile(eitherTier(store), row)) {
        const canonical = await db.read({}, (tx) => canonicalOf(tx, page))
        for (const entry of page) entries.push([entry, canonical.get(entry.id)])
      }
      return { entries, fault: undefined }
    } catch (error) {
      if (!(error instanceof FileFault)) throw error
      return { entries, fault: error }
    }
  }

  function note(purge: PurgeEntry | undefined): void {
    if (purge && byDay.get(purge.day)?.manifestSha256 === purge.manifest) told.add(purge.day)
  }

  /** At the beginning and at the end: days leave the database meanwhile, and others are purged. */
  const noteHot = async () => (await db.read({}, listPurgeEntries)).forEach(note)

  async function proveActors(day: Day, entries: readonly [StoredEntry, unknown][]): Promise<void> {
    const people = new Set(entries.flatMap(([{ actorId }]) => (actorId === null ? [] : [actorId])))
    if (people.size === 0) return
    for (const finding of actorFindings(day, await db.read({}, (tx) => findUnnotedOf(tx, day, people)))) find(finding)
  }

  function untoldDays(): Day[] {
    const purged = [...byDay.keys()].filter(isPurged)
    return untoldPurges(purged, told).filter(isProved)
  }

  /** A day that was purged since the beginning may excuse earlier ones; the entry about it is still in the database. */
  async function search(day: Day): Promise<void> {
    const wasPurged = isPurged(day)
    const row = await look(day)
    if (row && row.tier !== 'purged') await searchIn(row)
    else if (row && !wasPurged) await noteHot()
  }

  /** Reads what an entry about a purge can be in. */
  async function noteArchived(row: AuditArchiveRow): Promise<void> {
    for await (const page of readUnnamed(eitherTier(store), row)) for (const entry of page) note(purgeOf(entry))
  }

  async function searchIn(row: AuditArchiveRow): Promise<void> {
    try {
      await noteArchived(row)
    } catch (error) {
      if (!(error instanceof FileFault)) throw error
      const moved = await look(row.day)
      if (moved?.tier === 'purged') return noteHot()
      if (moved && moved.objectKey !== row.objectKey) return searchIn(moved)
      find({ what: error.what, day: row.day, object: row.objectKey })
    }
  }

  /**
   * Searches the days behind the range, the latest first: they tell of the latest purges, which excuse days of a year before.
   * The entry about a day is more than a year younger than the day.
   */
  async function searchBehind(): Promise<void> {
    let untold = untoldDays()
    const behind = [...byDay.keys()].filter((day) => day > to)
    for (const day of behind.sort().reverse()) {
      const [first] = untold
      if (!first || day <= dayAfter(first, DAYS_KEPT)) break
      const known = told.size
      await search(day)
      if (told.size > known) untold = untoldDays()
    }
  }

  async function read(row: AuditArchiveRow): Promise<void> {
    const { entries, fault } = await proved(row)
    if (fault?.what === 'archive missing') {
      const moved = await look(row.day)
      if (moved?.tier === 'purged') return
      if (moved && moved.objectKey !== row.objectKey) return read(moved)
    }
    for (const [entry, canonical] of entries) {
      keep(row.day, entry, canonical)
      note(purgeOf(entry))
    }
    if (fault) find({ what: fault.what, day: row.day, object: row.objectKey })
    else if (row.day >= from) await proveActors(row.day, entries)
  }

  if (rows.some(({ day }) => isPurged(day) && isProved(day))) await noteHot()
  for (const row of rows) if (row.day < from && row.late > 0 && row.tier !== 'purged') await read(row)
  return {
    has: (day) => byDay.has(day),
    isPurged,
    async take(day) {
      const row = (await look(day)) ?? byDay.get(day)
      if (row && row.tier !== 'purged') await read(row)
      const chains = kept.get(day) ?? new Map()
      return new Map([...chains].map(([org, entries]) => [org, new Map(entries)]))
    },
    hasLeft: async (day) => !byDay.has(day) && (await look(day)) !== undefined,
    forget: (day) => void kept.delete(day),
    async untold() {
      if (untoldDays().length > 0) await noteHot()
      await searchBehind()
      return untoldDays()
    },
  }
}
