import { setTimeout as sleep } from 'node:timers/promises'
import { EXIT } from '../../../lib/contract/job-result.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import { TransientError } from '../../runtime/failure.ts'
import type { VerifiedVideo } from '../verify.ts'
import { type Cut, isFirstPassEnough } from './cut.ts'
import { type ChunkRun, encodeChunk } from './encode-chunk.ts'
import { type Joining, joinUntil } from './join.ts'
import { planOf } from './prepare.ts'
import { type ChunkPart, type ChunkStates, openProtocol, type Protocol, type SharedPlan } from './protocol.ts'
import { CALM, type LeadOptions, type Sharing, TIMING } from './sharing.ts'
import { nextChunk, type Stitched, stitch } from './stitch.ts'
import { takeChunk } from './take.ts'

export interface Lead {
  chunks: number
  /** Whether the first pass may end, of whose rendition so many segments are published. Asks the store now and then. */
  isEnough(covered: number): Promise<boolean>
  /** So many segments of a first pass that was stopped count; the last chunk is always made by itself. */
  mostBegun: number
  /**
   * Makes what no other pod makes, waits for the rest and joins all. `begun`: what a first pass has made of the smallest
   * rendition that was stopped; `onJoined` is given that with what chunks have added, whenever it grows.
   */
  make(making: Making): Promise<Stitched>
}

export interface Making {
  onProgress: (fraction: number) => void
  /** Undefined: the first pass has made all of the smallest rendition. */
  begun?: Joining['begun'] | undefined
  onJoined?: Joining['onJoined']
}

const ME = 'lead'

/** At the beginning of an attempt: what an earlier one has planned, or that it could not share, need not be true any more. */
export const leadAnew = ({ store, prefix }: Sharing, signal: AbortSignal): Promise<void> =>
  openProtocol(store, prefix, signal).forgetPlan()

/** Other pods end: this one makes everything. */
export const leadAlone = ({ store, prefix }: Sharing, signal: AbortSignal): Promise<void> =>
  openProtocol(store, prefix, signal).writeAlone()

/**
 * Publishes the plan, so that other pods can begin. Undefined where the file cannot be read in parts. What an earlier
 * attempt has published with the same plan goes on.
 */
export async function openLead(options: LeadOptions, cut: Cut): Promise<Lead | undefined> {
  const { sharing, signal, log } = options
  const plan = await planOf(options, cut)
  if (!plan) return undefined
  const protocol = openProtocol(sharing.store, sharing.prefix, signal)
  await protocol.writePlan(plan)
  failpoint('chunk.planned')
  const { chunks, fullFrom } = cut
  log.info({ chunks: chunks.length, fullFrom, pods: sharing.pods }, 'shared')
  const timing = { ...TIMING, ...sharing.timing }
  const clock = openClaimClock(plan, protocol, timing)
  return {
    chunks: chunks.length,
    isEnough: openEnough(cut, { plan, protocol, clock, pollMs: timing.pollMs }),
    mostBegun: chunks.at(-1)?.firstSegment ?? 0,
    make: (making) => makeJoined({ ...options, clock }, plan, making),
  }
}

interface Enough {
  plan: SharedPlan
  protocol: Protocol
  clock: ClaimClock
  pollMs: number
}

function openEnough(cut: Cut, { plan, protocol, clock, pollMs }: Enough) {
  let askedAt = Number.NEGATIVE_INFINITY
  let states: ChunkStates | undefined
  return async (covered: number): Promise<boolean> => {
    const from = cut.chunks[cut.fullFrom]?.firstSegment
    if (from === undefined || performance.now() - askedAt < CALM * pollMs) return false
    askedAt = performance.now()
    states = await protocol.states(plan, states)
    await clock.look(states)
    // A claim outlives the pod that wrote it, and an earlier attempt.
    const claims = new Map([...states.claims].filter(([chunk]) => !clock.isOverdue(chunk)))
    return covered >= from && isFirstPassEnough(cut, { ...states, claims }, ME, covered)
  }
}

/** Players get what is done of the smallest rendition while the rest is made. */
async function makeJoined(
  o: LeadOptions & { clock: ClaimClock },
  plan: SharedPlan,
  { begun, onProgress, onJoined }: Making,
): Promise<Stitched> {
  const [stop, ended] = [new AbortController(), new AbortController()]
  const signal = AbortSignal.any([o.signal, stop.signal])
  const joining = begun && onJoined ? joinUntil(ended.signal, { ...o, signal }, plan, { begun, onJoined }) : undefined
  const watched = joining?.catch((error: unknown) => {
    stop.abort(error)
    throw error
  })
  watched?.catch(() => {}) // awaited below
  try {
    const start = begun ? nextChunk(plan, begun) : 0
    await makeAll({ ...o, signal }, plan, { start, onProgress })
  } finally {
    ended.abort()
    await watched
  }
  return stitchAll(o, plan, begun)
}

interface MakeAll extends Pick<Making, 'onProgress'> {
  /** The chunk that players need first. */
  start: number
}

async function makeAll(
  o: LeadOptions & { clock: ClaimClock },
  plan: SharedPlan,
  { start, onProgress }: MakeAll,
): Promise<void> {
  const { sharing, signal, clock } = o
  const timing = { ...TIMING, ...sharing.timing }
  const protocol = openProtocol(sharing.store, sharing.prefix, signal)
  const taker = { protocol, plan, me: ME, start, isOverdue: clock.isOverdue, signal }
  const count = plan.chunks.length
  while (true) {
    const { chunk, states, isTakenOver } = await takeChunk(taker)
    await clock.look(states)
    onProgress(states.done.size / count)
    if (states.done.size === count) break
    if (chunk === undefined) {
      await sleep(timing.pollMs, undefined, { signal })
      continue
    }
    const run: ChunkRun = {
      ...{ plan, chunk, protocol, signal, source: o.source, sourcePath: o.sourcePath, by: ME },
      ...{ store: sharing.store, prefix: sharing.prefix, scratch: o.scratch, cores: o.cores },
      onProgress: (fraction) => onProgress((states.done.size + fraction) / count),
    }
    await (isTakenOver ? encodeUnlessDone(run, timing.pollMs) : encodeChunk(run))
  }
}

type ClaimClock = ReturnType<typeof openClaimClock>

/** Since when each chunk is claimed, and how long one may take. */
function openClaimClock(plan: SharedPlan, protocol: Protocol, { overdueMs, unknownMs }: typeof TIMING) {
  const claimed = new Map<number, { by: string; since: number }>()
  const looked = new Set<number>()
  let slowestMs = 0
  return {
    isOverdue(chunk: number): boolean {
      const since = claimed.get(chunk)?.since
      // A part is what another pod says.
      const mostMs = slowestMs > 0 ? Math.min(Math.max(overdueMs, 3 * slowestMs), 6 * unknownMs) : unknownMs
      return since !== undefined && performance.now() - since > mostMs
    },
    async look({ claims, done }: ChunkStates): Promise<void> {
      for (const [chunk, by] of claims) {
        if (claimed.get(chunk)?.by !== by) claimed.set(chunk, { by, since: performance.now() })
      }
      for (const chunk of [...done].filter((one) => !looked.has(one))) {
        looked.add(chunk)
        slowestMs = Math.max(slowestMs, 1000 * ((await protocol.readPart(plan.id, chunk))?.seconds ?? 0))
      }
    },
  }
}

/** The pod that was late may still write the part. */
async function encodeUnlessDone(run: ChunkRun, pollMs: number): Promise<void> {
  const stop = new AbortController()
  const ended = new AbortController()
  const watching = (async () => {
    while (!ended.signal.aborted) {
      await sleep(CALM * pollMs, undefined, { signal: ended.signal }).catch(() => {})
      if (!ended.signal.aborted && (await run.protocol.readPart(run.plan.id, run.chunk))) stop.abort()
    }
  })().catch(() => {}) // the store is away: the encoder goes on
  try {
    await encodeChunk({ ...run, signal: AbortSignal.any([run.signal, stop.signal]) })
  } catch (error) {
    if (run.signal.aborted || !stop.signal.aborted) throw error
  } finally {
    ended.abort()
    await watching
  }
}

/** The seams are checked against what the store holds. */
async function stitchAll({ sharing, signal }: LeadOptions, plan: SharedPlan, begun?: VerifiedVideo): Promise<Stitched> {
  const protocol = openProtocol(sharing.store, sharing.prefix, signal)
  const parts: ChunkPart[] = []
  for (const chunk of plan.chunks.keys()) {
    const part = await protocol.readPart(plan.id, chunk)
    if (part) parts.push(part)
  }
  const stitched = parts.length === plan.chunks.length ? stitch(plan, parts, begun) : 'a part cannot be read'
  const fault = typeof stitched === 'string' ? stitched : await missingOf(stitched, sharing)
  if (typeof stitched !== 'string' && fault === undefined) return stitched
  await protocol.forget()
  throw new TransientError(EXIT.verificationFailed, 'VerificationFailed', `The chunks do not fit: ${fault}`)
}

async function missingOf({ videos }: Stitched, { store, prefix }: Sharing): Promise<string | undefined> {
  const sizes = new Map<string, number>()
  for await (const { key, size } of store.list(prefix)) sizes.set(key.slice(prefix.length), size)
  const lost = videos.flatMap((v) => v.segments).find(({ uri, bytes }) => sizes.get(uri) !== bytes)
  return lost && `${lost.uri} has ${sizes.get(lost.uri) ?? 0} of ${lost.bytes} bytes`
}
