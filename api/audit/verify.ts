import { formatId, type Uuid } from '../../lib/contract/ids.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../db/db.ts'
import { Anchor, closedKey, digestOf, openFolder, readJson } from './anchors.ts'
import { type Day, dayAfter, genesis, type Head, NO_ORG, next } from './seal-plan.ts'
import { listHeads } from './seal-queries.ts'
import {
  findDigest,
  findHash,
  findLinked,
  findUnlinked,
  type LogState,
  type Row,
  readChains,
  readState,
} from './verify-queries.ts'

/** What proves nothing any more. Each names the first place of its chain. */
export type Finding =
  | { what: 'link missing'; day: Day; org: string; number: number }
  | { what: 'entry missing' | 'changed or reordered'; day: Day; org: string; number: number; entry: string }
  | { what: 'end of chain removed' | 'end of chain changed'; day: Day; org: string; number: number }
  | { what: 'entry without link'; day: Day; entry: string }
  | { what: 'differs from anchor' | 'removed since anchor'; day: Day; org: string; number: number; anchor: string }
  | { what: 'anchor missing' | 'anchor changed'; day: Day; anchor: string }
  | { what: 'anchor ahead of the log'; since: string; day: Day; anchor: string }

export interface Report {
  from: Day
  to: Day
  /** Entries whose links were proved. */
  entries: number
  chains: number
  anchors: number
  /** Entries of these days that wait for the sealer. */
  unsealed: number
  /** Links of entries whose day is no longer in the database. */
  elsewhere: number
  /** Restores to an earlier time that the log itself tells of. */
  restores: { entry: string; anchored_at: string }[]
  findings: Finding[]
}

export interface VerifyDeps {
  /** Connected as keepsake_worker. */
  db: Database
  store: Pick<ObjectStore, 'get' | 'list'>
}

/** Proves the chains of these days, the entries of these days, and that both are what the anchors say. */
export async function verify({ db, store }: VerifyDeps, range: { from?: Day; to?: Day }): Promise<Report> {
  const state = await db.read({}, readState)
  const from = range.from ?? state.oldest ?? state.today
  const to = range.to ?? state.today
  const report: Report = {
    from,
    to,
    entries: 0,
    chains: 0,
    anchors: 0,
    unsealed: 0,
    elsewhere: 0,
    restores: state.restores.map(({ entryId, anchoredAt }) => ({
      entry: formatId('audit', entryId),
      anchored_at: anchoredAt,
    })),
    findings: [],
  }
  for (let day = from; day <= to; day = dayAfter(day)) {
    await proveChains(db, day, report)
    await proveEntries(db, day, report)
    await proveAnchors({ db, store }, state, day, report)
  }
  return report
}

const orgOf = (orgId: Uuid) => (orgId === NO_ORG ? 'none' : formatId('organization', orgId))

function uuidOf(bytes: Buffer): Uuid {
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

/** A break of a chain, before the entry that it concerns is looked up. */
interface Break {
  what: 'link missing' | 'not there' | 'changed or reordered'
  orgId: Uuid
  number: number
}

async function proveChains(db: Database, day: Day, report: Report): Promise<void> {
  const heads = new Map((await db.read({}, (tx) => listHeads(tx, day, day))).map((head) => [head.orgId, head]))
  const ends = new Map<Uuid, Head>()
  const breaks: Break[] = []
  let key: Buffer = Buffer.alloc(0)
  let at: Head | undefined
  const prove = ([org, number, hash, canonical]: Row) => {
    if (!at || !org.equals(key)) {
      key = org
      const orgId = uuidOf(org)
      at = { orgId, day, count: 0, hash: genesis(orgId, day) }
      ends.set(orgId, at)
    }
    const seq = Number(number.readBigInt64BE())
    if (seq !== at.count + 1) breaks.push({ what: 'link missing', orgId: at.orgId, number: at.count + 1 })
    else if (canonical === null) breaks.push({ what: 'not there', orgId: at.orgId, number: seq })
    else if (!next(at.hash, canonical).equals(hash)) {
      breaks.push({ what: 'changed or reordered', orgId: at.orgId, number: seq })
    }
    at.count = seq
    at.hash = hash
    report.entries += 1
  }
  await readChains(db, day, (rows) => {
    for (const row of rows) prove(row)
  })
  report.chains += ends.size
  await nameBreaks(db, day, breaks, report)
  proveEnds(day, heads, ends, report)
}

async function nameBreaks(db: Database, day: Day, breaks: readonly Break[], report: Report): Promise<void> {
  const broken = new Set<Uuid>()
  for (const { what, orgId, number } of breaks) {
    const found = await db.read({}, (tx) => findLinked(tx, day, orgId, number))
    // An entry of the evening before may be in this chain, and its day in another tier: its link stands for it.
    if (what === 'not there' && found && !found.hasDay) {
      report.elsewhere += 1
      continue
    }
    // After the first break of a chain the next ones say nothing new.
    if (broken.has(orgId)) continue
    broken.add(orgId)
    const place = { day, org: orgOf(orgId), number }
    if (what === 'link missing' || !found) report.findings.push({ what: 'link missing', ...place })
    else {
      const entry = formatId('audit', found.entryId)
      report.findings.push({ what: what === 'not there' ? 'entry missing' : what, ...place, entry })
    }
  }
}

function proveEnds(day: Day, heads: ReadonlyMap<Uuid, Head>, ends: ReadonlyMap<Uuid, Head>, report: Report): void {
  for (const orgId of new Set([...heads.keys(), ...ends.keys()])) {
    const [head, end] = [heads.get(orgId), ends.get(orgId)]
    const place = { day, org: orgOf(orgId) }
    // Links that were made after the heads were read are no finding.
    if (head && (end?.count ?? 0) < head.count) {
      report.findings.push({ what: 'end of chain removed', ...place, number: (end?.count ?? 0) + 1 })
    } else if (head && end && end.count === head.count && !end.hash.equals(head.hash)) {
      report.findings.push({ what: 'end of chain changed', ...place, number: head.count })
    }
  }
}

async function proveEntries(db: Database, day: Day, report: Report): Promise<void> {
  const { waiting, forged } = await db.read({}, (tx) => findUnlinked(tx, day))
  report.unsealed += waiting
  for (const id of forged) report.findings.push({ what: 'entry without link', day, entry: formatId('audit', id) })
}

async function proveAnchors({ db, store }: VerifyDeps, state: LogState, day: Day, report: Report): Promise<void> {
  const anchors = await readAnchors(store, state, day)
  for (const { anchor, key } of anchors) {
    const restore = state.restores.find((one) => one.timeline === anchor.timeline + 1)
    // The log tells of the restore itself; the anchors of the timeline that it ended prove what the restored database knew.
    if (restore && anchor.sealed > restore.sealed) continue
    report.anchors += 1
    await proveAnchor(db, state, { anchor, key, day }, report)
  }
  const digest = await db.read({}, (tx) => findDigest(tx, day))
  if (digest === undefined) return
  const closed = anchors.filter(({ anchor }) => anchor.closed)
  const digests = closed.map(({ anchor }) => digestOf(day, anchor.chains, anchor.previous ?? null))
  if (digests.includes(digest)) return
  const [{ key } = { key: closedKey(state.timeline, day) }] = closed
  report.findings.push({ what: closed.length > 0 ? 'anchor changed' : 'anchor missing', day, anchor: key })
}

/** Of all timelines. */
async function readAnchors(store: VerifyDeps['store'], state: LogState, day: Day) {
  const found: { anchor: Anchor; key: string }[] = []
  for (let timeline = 0; timeline <= state.timeline; timeline++) {
    const keys = [closedKey(timeline, day)]
    for await (const { key } of store.list(openFolder(timeline, day))) keys.push(key)
    for (const key of keys) {
      const anchor = await readJson(store, key, Anchor)
      if (anchor) found.push({ anchor, key })
    }
  }
  return found
}

async function proveAnchor(
  db: Database,
  state: LogState,
  { anchor, key, day }: { anchor: Anchor; key: string; day: Day },
  report: Report,
): Promise<void> {
  const { sealed } = anchor.sealed > state.sealed ? await db.read({}, readState) : state
  if (anchor.sealed > sealed) {
    report.findings.push({ what: 'anchor ahead of the log', since: anchor.at, day, anchor: key })
    return
  }
  for (const { org, count, hash } of anchor.chains) {
    const found = await db.read({}, (tx) => findHash(tx, day, org, count))
    if (found?.toString('hex') === hash) continue
    const what = found ? 'differs from anchor' : 'removed since anchor'
    report.findings.push({ what, day, org: orgOf(org), number: count, anchor: key })
  }
  // A chain that the anchor of a closed day does not know was added to it later.
  if (!anchor.closed || anchor.timeline !== state.timeline) return
  const known = new Map(anchor.chains.map(({ org, count }) => [org, count]))
  for (const { orgId, count } of await db.read({}, (tx) => listHeads(tx, day, day))) {
    if (known.get(orgId) === count || (known.get(orgId) ?? 0) > count) continue
    const number = (known.get(orgId) ?? 0) + 1
    report.findings.push({ what: 'differs from anchor', day, org: orgOf(orgId), number, anchor: key })
  }
}
