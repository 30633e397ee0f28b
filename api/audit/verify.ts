import { formatId } from '../../lib/contract/ids.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../db/db.ts'
import { isManifestWhole, listManifests } from './archive/queries.ts'
import { readAccepted } from './restores.ts'
import { type Day, dayAfter } from './seal-plan.ts'
import { listRestores, type Restore } from './seal-queries.ts'
import {
  type AnchorsOfDay,
  type AnchorsRun,
  digestsOf,
  listAnchors,
  proveAnchors,
  proveClosed,
  type ReadAnchor,
  readAnchors,
} from './verify-anchors.ts'
import { actorFindings, openArchives } from './verify-archives.ts'
import {
  type ArchivedChains,
  type Break,
  compareHeads,
  DAYS_KEPT,
  linksAgain,
  marksOf,
  proverOf,
} from './verify-plan.ts'
import {
  findLinked,
  findUnlinked,
  findUnnoted,
  type LogState,
  readChains,
  readClosedDays,
  readState,
} from './verify-queries.ts'
import { type Finding, orgOf, type Report } from './verify-report.ts'

export interface VerifyDeps {
  /** Connected as keepsake_worker. */
  db: Database
  store: Pick<ObjectStore, 'get' | 'head' | 'list'>
}

interface Run extends AnchorsRun, VerifyDeps {
  store: VerifyDeps['store']
  state: LogState
  restores: readonly Restore[]
  closedUntil: Day
  digests: ReadonlyMap<Day, string | null>
  archives: Awaited<ReturnType<typeof openArchives>>
  /** The earliest one. */
  ahead: ReadAnchor | undefined
  report: Report
}

/** Proves the chains of these days, the entries of these days, and that both are what the anchors say. */
export async function verify(deps: VerifyDeps, range: { from?: Day; to?: Day }): Promise<Report> {
  const { db, store } = deps
  // Before the anchors: a day that is closed or anchored meanwhile would be known here and missing there.
  const closed = await db.read({}, (tx) => readClosedDays(tx, range.from ?? '0001-01-01', range.to ?? '9999-12-31'))
  // Before the state: the database has at least the links that these anchors know.
  const keys = await listAnchors(store)
  const { state, restores, manifests } = await db.read({}, async (tx) => ({
    state: await readState(tx),
    restores: await listRestores(tx),
    manifests: await listManifests(tx),
  }))
  // An anchor is all that is left of a day that was removed with its chains.
  const days = [state.today, state.oldest, state.newest, ...keys.keys()].filter((day) => day !== null).sort()
  const from = range.from ?? days[0] ?? state.today
  const to = range.to ?? days.at(-1) ?? state.today
  const report: Report = {
    from,
    to,
    entries: 0,
    archived: 0,
    chains: 0,
    anchors: 0,
    ended: 0,
    unsealed: 0,
    unanchored: 0,
    purged: 0,
    restores: restores.map(({ entryId, anchoredAt }) => ({
      entry: formatId('audit', entryId),
      anchored_at: anchoredAt,
    })),
    findings: [],
  }
  const archives = await openArchives(deps, manifests, { from, to }, report)
  const run: Run = {
    ...deps,
    state,
    restores,
    keys,
    closedUntil: closed.until,
    digests: closed.digests,
    archives,
    ahead: undefined,
    report,
  }
  report.findings.push(...(await proveRestores(run)))
  report.findings.push(...proveManifests(manifests, from, to))
  let before = digestsOf((await readAnchors(run, dayAfter(from, -1))).counting)
  for (let day = from; day <= to; day = dayAfter(day)) before = await proveDay(run, day, before)
  for (const day of await archives.untold()) {
    if (!isEarly(run, day)) report.findings.push({ what: 'purged without entry', day })
  }
  if (run.ahead) {
    const { anchor, key, day } = run.ahead
    report.findings.push({ what: 'anchor ahead of the log', since: anchor.at, day, anchor: key })
  }
  return report
}

async function proveRestores({ store, state, restores }: Run): Promise<Finding[]> {
  const isAccepted = await readAccepted(store)
  const findings = restores
    .filter((restore) => !isAccepted(restore))
    .map(
      (restore): Finding => ({
        what: 'restore not accepted',
        entry: formatId('audit', restore.entryId),
        sealed: restore.sealed,
        anchored: restore.anchoredSealed,
        anchored_at: restore.anchoredAt,
      }),
    )
  const known = new Set([0, ...restores.filter(({ from, timeline }) => from < timeline).map((one) => one.timeline)])
  return known.has(state.timeline) ? findings : [...findings, { what: 'restore unknown', timeline: state.timeline }]
}

/** Each names the one before. */
function proveManifests(manifests: Awaited<ReturnType<typeof listManifests>>, from: Day, to: Day): Finding[] {
  const changed = manifests.filter((row, n) => {
    const before = manifests[n - 1]
    return !isManifestWhole(row) || (before && before.manifestSha256 !== row.previousSha256)
  })
  return changed
    .filter(({ day }) => day >= from && day <= to)
    .map(({ day }): Finding => ({ what: 'manifest changed', day }))
}

async function proveChains({ db, archives, report }: Run, day: Day, anchors: readonly ReadAnchor[]) {
  for (;;) {
    const archived = await archives.take(day)
    const { prove, proof } = proverOf(day, archived, marksOf(anchors.map(({ anchor }) => anchor)))
    if (archives.isPurged(day)) return { archived, proof, heads: [], hasLeft: true }
    let links = 0
    const heads = await readChains(db, day, (rows) => {
      links += rows.length
      for (const [org, number, hash, canonical] of rows) prove(org, Number(number.readBigInt64BE()), hash, canonical)
    })
    // Those of an archived day were compared with its object.
    const unnoted = archives.has(day) ? [] : actorFindings(day, await db.read({}, (tx) => findUnnoted(tx, day)))
    // Its entries may have left the database between these looks.
    if (await archives.hasLeft(day)) continue
    archives.forget(day)
    report.findings.push(...unnoted)
    // What has left the database with its links has to give the same chains again.
    const hasLeft = links === 0 && heads.length === 0 && archives.has(day)
    if (hasLeft) for (const [org, seq, hash] of linksAgain(day, archived)) prove(org, seq, hash, null)
    return { archived, proof, heads, hasLeft }
  }
}

/** Returns the digests of the day's anchors, which the next day's name. */
async function proveDay(run: Run, day: Day, before: readonly string[]): Promise<string[]> {
  const { db, report } = run
  const { counting: anchors, ...others } = await readAnchors(run, day)
  noteOthers(run, others)
  const { archived, proof, heads, hasLeft } = await proveChains(run, day, anchors)
  if (run.archives.isPurged(day)) {
    provePurged(run, { day, anchors, before })
    return digestsOf(anchors)
  }
  report.entries += proof.entries
  report.archived += proof.archived
  report.chains += proof.ends.size
  await nameBreaks(db, day, proof.breaks, report)
  if (!hasLeft) {
    for (const { orgId, ...fault } of compareHeads(proof.ends, heads)) {
      report.findings.push({ ...fault, day, org: orgOf(orgId) })
    }
  }
  nameLeftovers(day, archived, report)
  await proveEntries(db, day, report)
  proveAnchors({ day, anchors, proof }, report)
  const isClosed = day <= run.closedUntil && !run.digests.has(day) && proof.ends.size > 0
  proveClosed(run, { day, anchors, isNeeded: isClosed || run.archives.has(day), before })
  return digestsOf(anchors)
}

/** No policy purges a day of the last year: one that says so hides what it had. */
const isEarly = ({ state }: Run, day: Day) => day > dayAfter(state.retentionDay, -DAYS_KEPT)

function provePurged(run: Run, o: { day: Day; anchors: readonly ReadAnchor[]; before: readonly string[] }): void {
  run.report.purged += 1
  run.report.anchors += o.anchors.length
  if (isEarly(run, o.day)) run.report.findings.push({ what: 'purged early', day: o.day })
  proveClosed(run, { ...o, isNeeded: true })
}

async function nameBreaks(db: Database, day: Day, breaks: readonly Break[], report: Report): Promise<void> {
  if (breaks.length === 0) return
  const linked = await db.read({}, (tx) => findLinked(tx, day, breaks))
  for (const { what, orgId, number, entryId } of breaks) {
    const found = entryId ?? linked.get(`${orgId} ${number}`)
    const place = { day, org: orgOf(orgId), number }
    if (what === 'link missing' || !found) report.findings.push({ what: 'link missing', ...place })
    else report.findings.push({ what, ...place, entry: formatId('audit', found) })
  }
}

/** Archived entries whose chain has no such link: one of each chain. */
function nameLeftovers(day: Day, archived: ArchivedChains, report: Report): void {
  for (const entries of archived.values()) {
    const [first] = entries.values()
    if (first) report.findings.push({ what: 'entry without link', day, entry: formatId('audit', first.id) })
  }
}

async function proveEntries(db: Database, day: Day, report: Report): Promise<void> {
  const { waiting, forged } = await db.read({}, (tx) => findUnlinked(tx, day))
  report.unsealed += waiting
  for (const id of forged) report.findings.push({ what: 'entry without link', day, entry: formatId('audit', id) })
}

function noteOthers(run: Run, { ended, ahead, changed }: Omit<AnchorsOfDay, 'counting'>): void {
  run.report.ended += ended.length
  for (const { day, key } of changed) run.report.findings.push({ what: 'anchor changed', day, anchor: key })
  for (const one of ahead) if (!run.ahead || one.anchor.at < run.ahead.anchor.at) run.ahead = one
}
