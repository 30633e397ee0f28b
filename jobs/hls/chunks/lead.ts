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
import { encodeChunk } from './encode-chunk.ts'
import { type Chunk, chunksOf } from './layout.ts'
import { type ChunkPart, openProtocol, planId, type SharedPlan, sharedSource } from './protocol.ts'
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

/**
 * Publishes the plan, so that other pods can begin. Undefined where the video is too short to be shared, or its packets
 * cannot be listed. What an earlier attempt has published with the same plan goes on.
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
  const plan = {
    version: 1 as const,
    sourceKey: sharing.sourceKey,
    sourceBytes: size,
    header: found.header,
    source: sharedSource(source),
    grid: timeline.grid,
    segmentSeconds,
    renditions: [...o.renditions],
    accelerator: o.accelerator,
    preset: o.preset,
    chunks: chunks.map(({ firstSegment, segments }, k) => ({
      firstSegment,
      ...(segments !== undefined && { segments }),
      bytes: found.ranges[k] ?? [0, size],
    })),
  }
  return { ...plan, id: planId(plan) }
}

const partOf = ({ firstSegment, segments }: Chunk) => ({ firstSegment, segments, tag: '' })

async function makeAll(o: LeadOptions, plan: SharedPlan, onProgress: (fraction: number) => void): Promise<Stitched> {
  const { sharing, signal } = o
  const { pollMs, overdueMs } = { ...TIMING, ...sharing.timing }
  const protocol = openProtocol(sharing.store, sharing.prefix, signal)
  const claimedSince = new Map<number, number>()
  let slowestMs = 0
  const isOverdue = (chunk: number) => {
    const since = claimedSince.get(chunk)
    return since !== undefined && performance.now() - since > Math.max(overdueMs, 3 * slowestMs)
  }
  const taker = { protocol, plan, me: ME, start: 0, isOverdue, signal }
  const count = plan.chunks.length
  while (true) {
    const { chunk, states } = await takeChunk(taker)
    for (const claimed of states.claims.keys()) {
      if (!claimedSince.has(claimed)) claimedSince.set(claimed, performance.now())
    }
    onProgress(states.done.size / count)
    if (states.done.size === count) break
    if (chunk === undefined) {
      await sleep(pollMs, undefined, { signal })
      continue
    }
    const startedAt = performance.now()
    await encodeChunk({
      ...{ plan, chunk, protocol, signal, source: o.source, sourcePath: o.sourcePath, by: ME },
      ...{ store: sharing.store, prefix: sharing.prefix, scratch: o.scratch, cores: o.cores, preset: o.preset },
      onProgress: (fraction) => onProgress((states.done.size + fraction) / count),
    })
    slowestMs = Math.max(slowestMs, performance.now() - startedAt)
  }
  return stitchAll(o, plan)
}

/** The seams are checked against what the store holds. What does not fit is made again by the next attempt. */
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
  await protocol.clear(new Set())
  throw new TransientError(EXIT.verificationFailed, 'VerificationFailed', `The chunks do not fit: ${fault}`)
}

async function missingOf({ videos }: Stitched, { store, prefix }: Sharing): Promise<string | undefined> {
  const sizes = new Map<string, number>()
  for await (const { key, size } of store.list(prefix)) sizes.set(key.slice(prefix.length), size)
  const lost = videos.flatMap((v) => v.segments).find(({ uri, bytes }) => sizes.get(uri) !== bytes)
  return lost && `${lost.uri} has ${sizes.get(lost.uri) ?? 0} of ${lost.bytes} bytes`
}
