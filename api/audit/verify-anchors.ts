import type { Uuid } from '../../lib/contract/ids.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { ANCHORS, Anchor, type AnchorKey, anchorKeyOf, digestOf, readNamedByContent } from './anchors.ts'
import { type Day, dayAfter } from './seal-plan.ts'
import { compareAnchor, type Fork, type Proof, standingOf } from './verify-plan.ts'
import { orgOf, type Report } from './verify-report.ts'

export interface AnchorsRun {
  store: Pick<ObjectStore, 'get' | 'list'>
  state: { timeline: number; sealed: number }
  restores: readonly Fork[]
  keys: ReadonlyMap<Day, readonly AnchorKey[]>
}

/** By day. */
export async function listAnchors(store: AnchorsRun['store']): Promise<Map<Day, AnchorKey[]>> {
  const keys: AnchorKey[] = []
  for await (const { key } of store.list(ANCHORS)) {
    const named = anchorKeyOf(key)
    if (named) keys.push(named)
  }
  return Map.groupBy(keys, ({ day }) => day)
}

export interface ReadAnchor {
  anchor: Anchor
  key: string
  day: Day
}

export const digestsOf = (anchors: readonly ReadAnchor[]): string[] =>
  anchors
    .filter(({ anchor }) => anchor.closed)
    .map(({ anchor }) => digestOf(anchor.day, anchor.chains, anchor.previous ?? null))

/** A store answers many requests at once. */
const AT_ONCE = 8

export interface AnchorsOfDay {
  /** Those that have to be true, of all timelines, the earliest first. */
  counting: ReadAnchor[]
  /** Of what a restore lost. */
  ended: ReadAnchor[]
  /** Of what the database does not know yet. */
  ahead: ReadAnchor[]
  /** The keys of those that are not what their keys say. */
  changed: { day: Day; key: string }[]
}

export async function readAnchors(o: AnchorsRun, day: Day): Promise<AnchorsOfDay> {
  const ofDay = o.keys.get(day) ?? []
  const sorted: AnchorsOfDay = { counting: [], ended: [], ahead: [], changed: [] }
  for (let n = 0; n < ofDay.length; n += AT_ONCE) {
    await Promise.all(ofDay.slice(n, n + AT_ONCE).map((named) => sort(named)))
  }
  sorted.counting.sort((a, b) => (a.anchor.at < b.anchor.at ? -1 : 1))
  return sorted

  async function sort({ key, timeline, closed }: AnchorKey): Promise<void> {
    const anchor = await readNamedByContent(o.store, key, Anchor)
    if (!anchor || anchor.timeline !== timeline || anchor.day !== day || anchor.closed !== closed) {
      sorted.changed.push({ day, key })
      return
    }
    const standing = standingOf(anchor, { timeline: o.state.timeline, forks: o.restores })
    const isAhead = standing === 'counts' && anchor.sealed > o.state.sealed
    const list = { counts: sorted.counting, ended: sorted.ended, ahead: sorted.ahead }[isAhead ? 'ahead' : standing]
    list.push({ anchor, key, day })
  }
}

export function proveAnchors(
  { day, anchors, proof }: { day: Day; anchors: readonly ReadAnchor[]; proof: Proof },
  report: Report,
): void {
  const named = new Set<Uuid>()
  for (const { anchor, key } of anchors) {
    report.anchors += 1
    // The first anchor that a chain contradicts says the most.
    for (const { orgId, ...fault } of compareAnchor(proof, anchor)) {
      if (named.has(orgId)) continue
      named.add(orgId)
      report.findings.push({ ...fault, day, org: orgOf(orgId), anchor: key })
    }
  }
}

/** A closed day has one anchor, the one that the database noted, and its anchor names that of the day before. */
export function proveClosed(
  run: Pick<AnchorsRun, 'state'> & { digests: ReadonlyMap<Day, string | null>; report: Report },
  o: { day: Day; anchors: readonly ReadAnchor[]; isNeeded: boolean; before: readonly string[] },
): void {
  const { day, anchors, before } = o
  const { findings } = run.report
  const noted = run.digests.get(day)
  const closed = anchors.filter(({ anchor }) => anchor.closed)
  const [first] = closed
  if (!first) {
    const anchor = `${ANCHORS}t${run.state.timeline}/days/${day}/`
    if (noted || o.isNeeded) findings.push({ what: 'anchor missing', day, anchor })
    else if (noted === null) run.report.unanchored += 1
    return
  }
  const own = digestsOf(closed)
  const other = closed.find((_, n) => own[n] !== own[0])
  if (other) findings.push({ what: 'anchors differ', day, anchor: other.key })
  else if (noted && noted !== own[0]) findings.push({ what: 'anchor changed', day, anchor: first.key })
  const fault = previousFault(first.anchor.previous ?? null, before)
  if (fault === 'anchor missing') findings.push({ what: fault, day: dayAfter(day, -1), anchor: first.key })
  else if (fault) findings.push({ what: fault, day, anchor: first.key })
}

function previousFault(previous: string | null, before: readonly string[]) {
  if (before.length === 0) return previous === null ? undefined : 'anchor missing'
  return previous !== null && before.includes(previous) ? undefined : 'anchor changed'
}
