import type { Uuid } from '../../lib/contract/ids.ts'
import { type Day, dayAfter, genesis, type Head, next } from './seal-plan.ts'

/** An entry of an archived day. */
export interface ArchivedEntry {
  id: Uuid
  canonical: Buffer
}
/** By the organization and the number of their links. */
export type ArchivedChains = Map<Uuid, Map<number, ArchivedEntry>>

/** The first place of a chain that does not fit. */
export interface Break {
  what: 'link missing' | 'entry missing' | 'changed or reordered'
  orgId: Uuid
  number: number
  /** Of an archived one. */
  entryId?: Uuid | undefined
}

/** The chains of a day, as they are now. */
export interface Proof {
  ends: Map<Uuid, Head>
  breaks: Break[]
  /** Entries whose links were proved, and how many of those are archived. */
  entries: number
  archived: number
  /** The hashes of the links that anchors name. */
  marks: Marks
}

/** The hash of a link by organization and number; null for one that is not there. */
export type Marks = Map<Uuid, Map<number, Buffer | null>>

export const marksOf = (anchors: Iterable<{ chains: readonly { org: string; count: number }[] }>): Marks => {
  const marks: Marks = new Map()
  for (const { chains } of anchors) {
    for (const { org, count } of chains) {
      const ofChain = marks.get(org) ?? new Map<number, Buffer | null>()
      marks.set(org, ofChain.set(count, null))
    }
  }
  return marks
}

export interface Prover {
  /** Takes the links of a day, by organization and number. `canonical`: what the entry is in the database. */
  prove(org: Buffer, seq: number, hash: Buffer, canonical: Buffer | null): void
  proof: Proof
}

/** What readers get must not depend on where they read it; no link proves these bytes. */
const NOT_THE_SAME = Buffer.alloc(0)
const sameOf = (archived: Buffer, hot: Buffer | null) => (hot && !hot.equals(archived) ? NOT_THE_SAME : archived)

/** Removes from `archived` what it has proved. */
export function proverOf(day: Day, archived: ArchivedChains, marks: Marks): Prover {
  const proof: Proof = { ends: new Map(), breaks: [], entries: 0, archived: 0, marks }
  let key: Buffer = Buffer.alloc(0)
  let at: Head | undefined
  let isBroken = false
  let inArchive: Map<number, ArchivedEntry> | undefined
  let wanted: Map<number, Buffer | null> | undefined

  function begin(org: Buffer): Head {
    key = org
    isBroken = false
    const orgId = uuidOf(org)
    inArchive = archived.get(orgId)
    wanted = marks.get(orgId)
    const head = { orgId, day, count: 0, hash: genesis(orgId, day) }
    proof.ends.set(orgId, head)
    return head
  }

  /** After the first break of a chain the next ones say nothing new. */
  function stop(what: Break['what'], number: number, entryId?: Uuid): void {
    if (!isBroken && at) proof.breaks.push({ what, orgId: at.orgId, number, entryId })
    isBroken = true
  }

  function faultOf(head: Head, o: { seq: number; hash: Buffer; bytes: Buffer | null }): Break['what'] | undefined {
    if (o.seq !== head.count + 1) return 'link missing'
    if (o.bytes === null) return 'entry missing'
    return next(head.hash, o.bytes).equals(o.hash) ? undefined : 'changed or reordered'
  }

  function prove(org: Buffer, seq: number, hash: Buffer, canonical: Buffer | null): void {
    if (!at || !org.equals(key)) at = begin(org)
    const copy = inArchive?.get(seq)
    const bytes = copy ? sameOf(copy.canonical, canonical) : canonical
    const fault = faultOf(at, { seq, hash, bytes })
    if (fault) stop(fault, fault === 'link missing' ? at.count + 1 : seq, copy?.id)
    else proof.entries += 1
    if (copy) {
      inArchive?.delete(seq)
      if (!fault) proof.archived += 1
    }
    at.count = seq
    at.hash = hash
    if (wanted?.has(seq)) wanted.set(seq, hash)
  }
  return { prove, proof }
}

/** Makes the links of chains that have left the database, for `prove`. */
export function* linksAgain(day: Day, archived: ArchivedChains): Generator<[org: Buffer, seq: number, hash: Buffer]> {
  for (const orgId of [...archived.keys()].sort()) {
    const org = Buffer.from(orgId.replaceAll('-', ''), 'hex')
    let hash = genesis(orgId, day)
    const entries = archived.get(orgId) ?? new Map<number, ArchivedEntry>()
    for (const seq of [...entries.keys()].sort((a, b) => a - b)) {
      hash = next(hash, entries.get(seq)?.canonical ?? Buffer.alloc(0))
      yield [org, seq, hash]
    }
  }
}

function uuidOf(bytes: Buffer): Uuid {
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

/** Where the chains of a day do not end as their heads say. */
export type EndFault = {
  what: 'end of chain removed' | 'end of chain changed' | 'link behind the end of its chain'
  orgId: Uuid
  number: number
}

export function compareHeads(ends: ReadonlyMap<Uuid, Head>, heads: readonly Head[]): EndFault[] {
  const faults: EndFault[] = []
  const headOf = new Map(heads.map((head) => [head.orgId, head]))
  for (const orgId of new Set([...headOf.keys(), ...ends.keys()])) {
    const [head, end] = [headOf.get(orgId), ends.get(orgId)]
    const [known, count] = [head?.count ?? 0, end?.count ?? 0]
    if (count < known) faults.push({ what: 'end of chain removed', orgId, number: count + 1 })
    else if (count > known) faults.push({ what: 'link behind the end of its chain', orgId, number: known + 1 })
    else if (head && end && !end.hash.equals(head.hash)) {
      faults.push({ what: 'end of chain changed', orgId, number: known })
    }
  }
  return faults
}

/** Whatever a policy says, the log keeps a day for so long. */
export const DAYS_KEPT = 365

/**
 * The purged days of which the log does not tell, and should. `told`: those of which it has the entry. The entry was written
 * when its day was at least a year old: it may be gone only if a day that is so much later was rightly purged, too.
 */
export function untoldPurges(purged: Iterable<Day>, told: ReadonlySet<Day>): Day[] {
  let latest: Day | undefined
  const untold: Day[] = []
  for (const day of [...purged].sort().reverse()) {
    const mayBeGone = latest !== undefined && dayAfter(day, DAYS_KEPT) <= latest
    if (told.has(day) || mayBeGone) latest ??= day
    else untold.push(day)
  }
  return untold.reverse()
}

export interface AnchorFault {
  what: 'differs from anchor' | 'removed since anchor'
  orgId: Uuid
  number: number
}

/** Where the chains of a day are not what an anchor says; those of a closed day have no more links than it says either. */
export function compareAnchor(
  { ends, marks }: Pick<Proof, 'ends' | 'marks'>,
  { chains, closed }: { chains: readonly { org: string; count: number; hash: string }[]; closed: boolean },
): AnchorFault[] {
  const faults: AnchorFault[] = []
  for (const { org: orgId, count: number, hash } of chains) {
    const found = marks.get(orgId)?.get(number)
    if (!found) faults.push({ what: 'removed since anchor', orgId, number })
    else if (found.toString('hex') !== hash) faults.push({ what: 'differs from anchor', orgId, number })
  }
  if (!closed) return faults
  const known = new Map(chains.map(({ org, count }) => [org, count]))
  for (const { orgId, count } of ends.values()) {
    const before = known.get(orgId) ?? 0
    if (count > before) faults.push({ what: 'differs from anchor', orgId, number: before + 1 })
  }
  return faults
}

/** A restore to an earlier time: `timeline` goes on from what `from` was with `sealed` links. */
export interface Fork {
  timeline: number
  from: number
  sealed: number
}

/**
 * Whether an anchor is of the past of the present timeline, and has to be true: `ended` for one of what a restore lost.
 * `ahead`: of a timeline that the database does not know.
 */
export function standingOf(
  anchor: { timeline: number; sealed: number },
  now: { timeline: number; forks: readonly Fork[] },
): 'counts' | 'ended' | 'ahead' {
  if (anchor.timeline > now.timeline) return 'ahead'
  let bound = Number.POSITIVE_INFINITY
  let at = now.timeline
  while (at > anchor.timeline) {
    const fork = now.forks.find(({ timeline }) => timeline === at)
    // Nothing says that this timeline did not go on from the anchor's.
    if (!fork || fork.from >= at) return 'counts'
    bound = Math.min(bound, fork.sealed)
    at = fork.from
  }
  return at === anchor.timeline && anchor.sealed <= bound ? 'counts' : 'ended'
}
