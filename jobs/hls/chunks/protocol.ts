import { hash } from 'node:crypto'
import * as z from 'zod'
import { objectKey } from '../../../crds/run.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import { ObjectTooLarge, readText } from '../../../lib/runtime/object-store/read-text.ts'
import type { ProbedSource } from '../../ffmpeg/probe.ts'
import { PRESETS } from '../encode-pass.ts'

/**
 * What the pods that share a video tell each other, as objects below its output prefix: the plan of the pod that leads, a
 * claim of each chunk that is being made, and a part for each that is done. Every writer's segments have names of their own,
 * so two that make the same chunk do no harm. Pods decode uploads: what one of them has written is checked like an upload.
 */

const folderOf = (prefix: string) => `${prefix}chunks/`
const planKey = (prefix: string) => `${folderOf(prefix)}plan.json`
const chunkPrefix = (prefix: string, id: string) => `${folderOf(prefix)}${id}/`
const claimKey = (prefix: string, id: string, chunk: number) => `${chunkPrefix(prefix, id)}${chunk}.claim.json`
const partKey = (prefix: string, id: string, chunk: number) => `${chunkPrefix(prefix, id)}${chunk}.part.json`

const MAX_CHUNKS = 512
/** A line of a segment has at most 50 bytes, and a video of 4 h 14,400 segments of a second. */
const MAX_PLAYLIST_BYTES = 2 * 1024 * 1024
/** The name of a segment that a chunk's encoder wrote: `720px3f9a2b1c_00012.ts`. */
const OF_CHUNK = /^\d{1,5}px[0-9a-f]{8}_\d{5}\.ts$/
const frame = z.int().min(0).max(10_000_000)
const seconds = z.number().min(0).max(1e6)
const Rate = z.object({ num: z.int().min(1).max(1e9), den: z.int().min(1).max(1e9) })
/** Of the file: from the first byte to before the last one. */
const ByteRange = z.tuple([z.int().min(0), z.int().min(0)])
export type ByteRange = z.infer<typeof ByteRange>

const short = z.string().regex(/^[A-Za-z0-9._-]{0,64}$/)

/** What an encoder has to know of a source; nothing of where and by whom it was taken. */
const SharedSource = z.object({
  container: z.string().max(64),
  startSeconds: z.number(),
  video: z.object({
    index: z.int().min(0).max(1000),
    codec: short,
    pixelFormat: short,
    interlaced: z.boolean(),
    colorSpace: short.nullable(),
    frame: z.object({ width: z.int().min(1).max(16_384), height: z.int().min(1).max(16_384) }).nullable(),
  }),
  width: z.int().min(1).max(16_384),
  height: z.int().min(1).max(16_384),
  rotation: z.int().min(-360).max(360),
  videoSeconds: seconds,
  audioSeconds: seconds.nullable(),
  frameRate: Rate,
  averageFrameRate: z.number().min(0).max(1e6),
  variableFrameRate: z.boolean(),
  hdr: z.enum(['smpte2084', 'arib-std-b67']).nullable(),
})

const SharedRendition = z.object({
  name: z.string().regex(/^\d{1,5}p$/),
  width: z.int().min(2).max(16_384),
  height: z.int().min(2).max(16_384),
  frameRate: Rate,
  step: z.union([z.literal(1), z.literal(2)]),
  maxrate: z.int().min(1).max(1e9),
  bufsize: z.int().min(1).max(2e9),
})

/** The work that is shared. Its id changes with everything that parts depend on. */
export const SharedPlan = z.object({
  /** A pod of another version takes the plan for missing: it waits until the video is converted, or makes its own. */
  version: z.literal(4),
  id: z.string().regex(/^[0-9a-f]{16}$/),
  sourceKey: objectKey(),
  sourceBytes: z.int().min(1),
  /** What every reader needs of the file: its index. */
  header: z.array(ByteRange).max(8),
  source: SharedSource,
  /** Of the video, so that all renditions are cut alike. */
  grid: Rate,
  segmentSeconds: z.int().min(1).max(20),
  /** All, smallest first. */
  renditions: z.array(SharedRendition).min(2).max(3),
  accelerator: z.enum(['gpu', 'cpu']),
  preset: z.enum(PRESETS),
  /** Of the encoder and all its settings: chunks of another one would not look alike. */
  encoder: z.string().regex(/^[0-9a-f]{16}$/),
  chunks: z
    .array(
      z.object({
        firstSegment: frame,
        segments: z.int().min(1).max(10_000).optional(),
        /** It holds all renditions; else all but the smallest, which the first pass makes there. */
        isFull: z.boolean(),
        /** What an encoder of this chunk reads besides the header. */
        bytes: ByteRange,
      }),
    )
    .min(2)
    .max(MAX_CHUNKS),
})
export type SharedPlan = z.infer<typeof SharedPlan>

/** The lead makes everything: no other pod can help. */
const Alone = z.object({ version: z.literal(1), isShared: z.literal(false) })
const PlanFile = z.union([SharedPlan, Alone])

const Claim = z.object({ by: z.string().max(64) })

/** One chunk, encoded, verified and uploaded. */
export const ChunkPart = z.object({
  version: z.literal(1),
  by: z.string().max(64),
  /** Seconds of wall that it took. */
  seconds: z.number().min(0),
  damaged: z.int().min(0),
  endedEarly: z.boolean(),
  renditions: z
    .array(
      z.object({
        name: z.string().max(32),
        codec: z.string().regex(/^avc1\.[0-9a-f]{6}$/),
        frames: frame,
        /** The time stamp of the first frame. */
        first: seconds,
        segments: z
          .array(z.object({ uri: z.string().regex(OF_CHUNK), seconds, bytes: z.int().min(1) }))
          .min(1)
          .max(10_000),
      }),
    )
    .min(1)
    .max(3),
})
export type ChunkPart = z.infer<typeof ChunkPart>

/** What a chunk holds. */
export const renditionsOf = ({ renditions, chunks }: Pick<SharedPlan, 'renditions' | 'chunks'>, chunk: number) =>
  chunks[chunk]?.isFull ? renditions : renditions.slice(1)

/** What is known of the chunks of a plan. */
export interface ChunkStates {
  /** Who claims each. */
  claims: ReadonlyMap<number, string>
  done: ReadonlySet<number>
}

export const planId = (plan: Omit<SharedPlan, 'id'>): string => hash('sha256', JSON.stringify(plan)).slice(0, 16)

/** Nothing that names a person or a place leaves the pod, not even for other pods. */
export const sharedSource = (source: ProbedSource): SharedPlan['source'] => SharedSource.parse(source)

/** The source again, with what no encoder reads. */
export const probedSource = (source: SharedPlan['source']): ProbedSource => ({
  ...source,
  audio: null,
  stream: { profile: null, level: null, hasSquarePixels: true, isMirrored: false, startSeconds: 0 },
  ...{ capturedAt: null, camera: { make: null, model: null }, location: null },
})

/** A part of two minutes has 10 KiB, a plan of four hours 60. */
const MAX_BYTES = 512 * 1024

/** Reads and writes these objects. What cannot be read counts as missing. */
export function openProtocol(store: ObjectStore, prefix: string, signal: AbortSignal) {
  async function read<S extends z.ZodType>(key: string, schema: S): Promise<z.output<S> | undefined> {
    if (!(await store.head(key))) return undefined
    try {
      return schema.safeParse(JSON.parse(await readText(store, key, { maxBytes: MAX_BYTES, signal }))).data
    } catch (error) {
      if (error instanceof SyntaxError || error instanceof ObjectTooLarge) return undefined
      throw error
    }
  }
  async function write(key: string, value: object): Promise<void> {
    const text = JSON.stringify(value)
    await store.put(key, text, { contentType: 'application/json', size: Buffer.byteLength(text), signal })
  }
  const claimant = async (id: string, chunk: number) => (await read(claimKey(prefix, id, chunk), Claim))?.by
  return {
    /** `alone`: there is nothing to help with. Undefined while nothing is known. */
    async readPlan(): Promise<SharedPlan | 'alone' | undefined> {
      const plan = await read(planKey(prefix), PlanFile)
      return plan && ('isShared' in plan ? 'alone' : plan)
    },
    /** Helpers that come wait for the next plan; those that are at work go on. */
    forgetPlan: () => store.delete(planKey(prefix)),
    writePlan: (plan: SharedPlan) => write(planKey(prefix), SharedPlan.parse(plan)),
    writeAlone: () => write(planKey(prefix), { version: 1, isShared: false } satisfies z.infer<typeof Alone>),
    readPart: (id: string, chunk: number) => read(partKey(prefix, id, chunk), ChunkPart),
    writePart: (id: string, chunk: number, part: ChunkPart) => write(partKey(prefix, id, chunk), part),
    claim: (id: string, chunk: number, by: string) => write(claimKey(prefix, id, chunk), { by }),
    claimant,
    /** The chunks that have a part. */
    doneOf: async ({ id, chunks }: Pick<SharedPlan, 'id' | 'chunks'>): Promise<Set<number>> =>
      (await listStates(store, chunkPrefix(prefix, id), chunks.length)).done,
    /** What all have done so far. Claims that are known already are not read again. */
    async states({ id, chunks }: Pick<SharedPlan, 'id' | 'chunks'>, known?: ChunkStates): Promise<ChunkStates> {
      const states = await listStates(store, chunkPrefix(prefix, id), chunks.length)
      const claims = new Map<number, string>()
      for (const chunk of states.claimed) {
        const by = states.done.has(chunk) ? '' : (known?.claims.get(chunk) ?? (await claimant(id, chunk)) ?? '')
        claims.set(chunk, by)
      }
      return { claims, done: states.done }
    },
    /** Removes what only the pods needed. Segments stay: another attempt may have committed them. */
    forget: () => store.deletePrefix(folderOf(prefix)),
    /** The same, and segments that neither `kept` nor any playlist in the store names. */
    async clear(kept: ReadonlySet<string>): Promise<void> {
      await store.deletePrefix(folderOf(prefix))
      const names: string[] = []
      for await (const { key } of store.list(prefix)) names.push(key.slice(prefix.length))
      const named = new Set(kept)
      for (const playlist of names.filter((name) => name.endsWith('.m3u8'))) {
        const text = await readText(store, prefix + playlist, { maxBytes: MAX_PLAYLIST_BYTES, signal })
        for (const line of text.split('\n')) named.add(line)
      }
      for (const name of names) if (OF_CHUNK.test(name) && !named.has(name)) await store.delete(prefix + name)
    },
  }
}
export type Protocol = ReturnType<typeof openProtocol>

/** The chunks that are claimed, and those that are done. Another pod may write any name. */
async function listStates(store: ObjectStore, below: string, count: number) {
  const [claimed, done] = [new Set<number>(), new Set<number>()]
  for await (const { key } of store.list(below)) {
    const [, chunk, kind] = /^(\d{1,4})\.(claim|part)\.json$/.exec(key.slice(below.length)) ?? []
    if (chunk !== undefined && Number(chunk) < count) (kind === 'part' ? done : claimed).add(Number(chunk))
  }
  return { claimed, done }
}
