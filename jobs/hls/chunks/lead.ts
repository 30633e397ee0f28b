import { stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { EXIT } from '../../../lib/contract/job-result.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import type { ProbedSource } from '../../ffmpeg/probe.ts'
import { toNumber } from '../../ffmpeg/rational.ts'
import { presentationSeconds } from '../../ffmpeg/source.ts'
import { TransientError } from '../../runtime/failure.ts'
import type { Preset } from '../encode-pass.ts'
import type { Rendition } from '../ladder.ts'
import { windowOf } from '../pass-window.ts'
import { timelineOf } from '../timeline.ts'
import { scanRanges } from './byte-ranges.ts'
import { type ChunkRun, encodeChunk, encoderOf } from './encode-chunk.ts'
import { type Chunk, chunksOf } from './layout.ts'
import {
  type ChunkPart,
  type ChunkStates,
  openProtocol,
  type Protocol,
  planId,
  type SharedPlan,
  sharedSource,
} from './protocol.ts'
import { type Stitched, stitch } from './stitch.ts'
import { takeChunk } from './take.ts'

/** What other pods may help with, and where they find it. */
export interface Sharing {
  /** All, the one that leads included. */
  pods: number
  store: ObjectStore
  sourceKey: string
  prefix: string
  timing?: Partial<typeof TIMING>
}

const TIMING = {
  pollMs: 1000,
  /** A chunk that another pod claims is taken over after this, or after three times what the slowest one took. */
  overdueMs: 60_000,
  /** The same while no chunk is done. */
  unknownMs: 600_000,
}

export interface LeadOptions {
  sharing: Sharing
  source: ProbedSource
  sourcePath: string
  /** All renditions, smallest first. */
  ladder: readonly Rendition[]
  /** Those that are shared. */
  renditions: readonly Rendition[]
  segmentSeconds: number
  accelerator: 'gpu' | 'cpu'
  preset: Preset
  cores: number
  scratch: string
  signal: AbortSignal
  log: Log
}

export interface Lead {
  chunks: number
  /** Makes what no other pod makes, waits for the rest and joins all. */
  make(onProgress: (fraction: number) => void): Promise<Stitched>
}

const ME = 'lead'

/** At the beginning of an attempt: what an earlier one has planned, or that it could not share, need not be true any more. */
export const leadAnew = ({ store, prefix }: Sharing, signal: AbortSignal): Promise<void> =>
  openProtocol(store, prefix, signal).forgetPlan()

/** Other pods end: this one makes everything. */
export const leadAlone = ({ store, prefix }: Sharing, signal: AbortSignal): Promise<void> =>
  openProtocol(store, prefix, signal).writeAlone()

/**
 * Publishes the plan, so that other pods can begin. Undefined where the video is too short to be shared, or cannot be cut.
 * What an earlier attempt has published with the same plan goes on.
 */
export async function openLead(options: LeadOptions): Promise<Lead | undefined> {
  const { sharing, signal, log } = options
  const plan = await planOf(options)
  if (!plan) return undefined
  const protocol = openProtocol(sharing.store, sharing.prefix, signal)
  await protocol.writePlan(plan)
  failpoint('chunk.planned')
  log.info({ chunks: plan.chunks.length, pods: sharing.pods }, 'shared')
  return { chunks: plan.chunks.length, make: (onProgress) => makeAll(options, plan, onProgress) }
}

async function planOf(o: LeadOptions): Promise<SharedPlan | undefined> {
  const { source, ladder, segmentSeconds, sharing } = o
  if (!canBeCut(source)) return undefined
  const timeline = timelineOf(ladder, segmentSeconds)
  const frames = Math.round(presentationSeconds(source) * toNumber(timeline.grid))
  const chunks = chunksOf(timeline, frames, sharing.pods)
  if (chunks.length === 0) return undefined
  const { size } = await stat(o.sourcePath)
  const times = chunks.map((chunk) => {
    const { seekSeconds, readSeconds } = windowOf(source, timeline, partOf(chunk))
    return { from: seekSeconds, to: readSeconds === undefined ? undefined : seekSeconds + readSeconds }
  })
  const found = await scanRanges(o.sourcePath, { source, times, fileBytes: size, signal: o.signal })
  if (!found) return undefined
  const shared = { grid: timeline.grid, segmentSeconds, renditions: [...o.renditions], accelerator: o.accelerator }
  const pass = { ...shared, preset: o.preset }
  const plan = {
    version: 1 as const,
    ...{ sourceKey: sharing.sourceKey, sourceBytes: size, header: found.header, source: sharedSource(source) },
    ...{ ...pass, encoder: await encoderOf(pass, source, o.signal) },
    chunks: chunks.map(({ firstSegment, segments }, k) => ({
      firstSegment,
      ...(segments !== undefined && { segments }),
      bytes: found.ranges[k] ?? [0, size],
    })),
  }
  return { ...plan, id: planId(plan) }
}

const partOf = ({ firstSegment, segments }: Chunk) => ({ firstSegment, segments, tag: '' })

/** Where pictures are shown longer than they last, a chunk may have none of its own to show. */
const canBeCut = (source: ProbedSource): boolean =>
  presentationSeconds(source) <= source.videoSeconds + 1 && source.stream.startSeconds <= 1

async function makeAll(o: LeadOptions, plan: SharedPlan, onProgress: (fraction: number) => void): Promise<Stitched> {
  const { sharing, signal } = o
  const timing = { ...TIMING, ...sharing.timing }
  const protocol = openProtocol(sharing.store, sharing.prefix, signal)
  const clock = openClaimClock(plan, protocol, timing)
  const taker = { protocol, plan, me: ME, start: 0, isOverdue: clock.isOverdue, signal }
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
  return stitchAll(o, plan)
}

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
      await sleep(5 * pollMs, undefined, { signal: ended.signal }).catch(() => {})
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
async function stitchAll({ sharing, signal }: LeadOptions, plan: SharedPlan): Promise<Stitched> {
  const protocol = openProtocol(sharing.store, sharing.prefix, signal)
  const parts: ChunkPart[] = []
  for (const chunk of plan.chunks.keys()) {
    const part = await protocol.readPart(plan.id, chunk)
    if (part) parts.push(part)
  }
  const stitched = parts.length === plan.chunks.length ? stitch(plan, parts) : 'a part cannot be read'
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
