import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { hotKeyOf } from '../../lib/contract/cold-key.ts'
import { HIGHLIGHT_FPS } from '../../lib/contract/highlight-length.ts'
import { EXIT } from '../../lib/contract/job-result.ts'
import { type Complaints, FfmpegFailed, runFfmpeg } from '../ffmpeg/ffmpeg.ts'
import { guardedInput } from '../ffmpeg/input.ts'
import type { ProbedSource } from '../ffmpeg/probe.ts'
import { toNumber } from '../ffmpeg/rational.ts'
import { steadyInput } from '../ffmpeg/steady.ts'
import { decoderThreads, filterThreads } from '../ffmpeg/threads.ts'
import { x264Options } from '../hls/args.ts'
import type { Preset } from '../hls/encode-pass.ts'
import type { Rendition } from '../hls/ladder.ts'
import { explainDecoding, limitFor, refuseMissingToneMap } from '../hls/run-encode-pass.ts'
import { badInput, TransientError } from '../runtime/failure.ts'
import { captionsOf, drawText } from './captions.ts'
import type { DamageTally } from './damage.ts'
import type { Fill } from './fit.ts'
import { blaming, itemOf, mayBeTheirs } from './item-failed.ts'
import { faultOf } from './join.ts'
import { motionOf } from './motion.ts'
import { canvasOf, type Part, pieceGraph } from './piece-graph.ts'
import { KEYFRAME_FRAMES, type Piece } from './plan.ts'
import type { Sources } from './sources.ts'
import { drawStill } from './still.ts'
import { digestOf, type Subject, withSource } from './subject.ts'

export interface PieceTools {
  sources: Sources
  scratch: string
  renditions: readonly Rendition[]
  look: Look
  cores: number
  preset: Preset
  /** As `ffmpegVersion` gives it. */
  encoder: string
  damage: DamageTally
  signal: AbortSignal
}

/** What the options of a highlight make of its items. */
export interface Look {
  transition: 'cut' | 'crossfade' | 'fade'
  fill: Fill
  kenBurns: boolean
  /** Over the first item; null when it is not shown. */
  title: string | null
}

/** Change it when the same arguments begin to make another picture: pieces of other versions are not used again. */
const ENCODER_VERSION = 7

/** What a piece of 1.6 s or more may spend beyond `maxrate`, as a share of what `maxrate` allows in its time. */
const EXCESS = 0.25
/** Room for the first keyframe of a shorter piece: 0.4 s of `maxrate`. */
const LEAST_BUFFER = 0.2
/** x264's default. */
const MAX_BUFFER = 0.9

/**
 * The share of the decoder's buffer (`vbv-init`) that is full when a piece begins, and which the piece may spend on top of
 * `maxrate`. The piece before it has used the buffer too: with x264's default, short clips that are hard to encode take
 * twice the bitrate of their rendition when they are joined. Pure.
 */
export function bufferAtStart(frames: number, { maxrate, bufsize }: Pick<Rendition, 'maxrate' | 'bufsize'>): number {
  const share = (EXCESS * maxrate * frames) / HIGHLIGHT_FPS / bufsize
  return Math.min(MAX_BUFFER, Math.max(LEAST_BUFFER, share))
}

/** The digest of everything that a piece of one item depends on, so that equal digests mean equal pictures. */
export function clipDigest(
  subject: Subject,
  piece: Pick<Piece, 'item' | 'from' | 'frames'>,
  { renditions, look, preset, encoder }: PieceTools,
): string {
  const { etag, item, frames: of, picture } = subject
  const sizes = renditions.map((r) => [r.name, r.width, r.height, r.maxrate, r.bufsize])
  const moves = picture.kind === 'still' && look.kenBurns
  const whole = moves || look.transition === 'fade' ? of : null
  const cut = [picture.kind, piece.from, piece.frames, whole, moves, look.transition === 'fade', look.fill]
  const texts = textsOf(subject, piece, { look })
  return digestOf([ENCODER_VERSION, encoder, hotKeyOf(item.sourceKey), etag, cut, texts, sizes, preset])
}

/** The texts that are drawn into a piece of one item. */
export const textsOf = (
  subject: Subject,
  { item, from }: Pick<Piece, 'item' | 'from'>,
  { look }: Pick<PieceTools, 'look'>,
) => captionsOf(subject, from, titleOver(item, look))

const titleOver = (item: number, { title }: Look) => (item === 0 ? title : null)

export const pieceFile = (folder: string, { name }: Rendition) => join(folder, `${name}.ts`)

/**
 * Encodes a piece in all renditions, each to a file in `folder`, and returns how many damaged frames were decoded. Throws
 * ItemFailed when the source of an item turns out to be broken. A TransientError names the item too, unless a crossfade
 * fails that each of its items survives alone.
 */
export async function renderPiece(
  tools: PieceTools,
  subjects: readonly Subject[],
  piece: Piece,
  folder: string,
): Promise<number> {
  const [one, two] = [subjects[piece.item], subjects[piece.item + 1]]
  if (!one) throw new Error(`There is no item ${piece.item}`)
  const shown = { subject: one, from: piece.from, title: titleOver(piece.item, tools.look) }
  if (piece.kind === 'clip') return blaming(one.item, () => encode(tools, [shown], piece.frames, folder))
  if (!two) throw new Error(`Nothing follows item ${piece.item}`)
  const next = { subject: two, from: 0, title: null }
  // ffmpeg does not say in which of the two it found damage, or which made it fail: alone, the broken one fails and is
  // then named.
  const alone = `${folder}.alone`
  const eachAlone = async (parts: readonly Shown[]) => {
    try {
      for (const part of parts) await blaming(part.subject.item, () => encode(tools, [part], piece.frames, alone))
    } finally {
      await rm(alone, { recursive: true, force: true })
    }
  }
  try {
    const damaged = await encode(tools, [shown, next], piece.frames, folder)
    // A photo was decoded when it was examined, and has no damaged frames.
    if (damaged > 0) await eachAlone([shown, next].filter(({ subject }) => subject.picture.kind === 'video'))
    return damaged
  } catch (error) {
    if (itemOf(error) !== undefined || !mayBeTheirs(error)) throw error
    await eachAlone([shown, next])
    // Neither fails alone. A crash or a timeout blames neither; of two sources that are damaged, the first is named.
    if (error instanceof TransientError) throw error
    return blaming(one.item, () => Promise.reject(error))
  }
}

interface Shown {
  subject: Subject
  /** In frames of the item. */
  from: number
  title: string | null
}

async function encode(tools: PieceTools, shown: readonly Shown[], frames: number, folder: string): Promise<number> {
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  const drawn = await drawTexts(tools, shown, folder)
  const parts = shown.map((s, k) => partOf(s, frames, tools.look, drawn[k] ?? []))
  for (const { picture } of parts) if (picture.kind === 'video') await refuseMissingToneMap(picture.source)
  let damaged = 0
  await withInputs(tools, shown, parts, folder, async (inputs) => {
    const texts = drawn.flat().flatMap(({ path }) => ownInput('png_pipe', [], path))
    const report = await runFfmpeg({
      args: [...inputs, ...texts, ...outputArguments(tools, parts, folder)],
      signal: tools.signal,
      limitMs: limitFor(((parts[0]?.from ?? 0) + frames) / HIGHLIGHT_FPS),
    }).catch((error: unknown) => {
      throw error instanceof FfmpegFailed ? explainDecoding(error) : error
    })
    damaged = report.damaged
    const [only, part] = [shown[0], parts[0]]
    if (shown.length === 1 && only && part) judgeDamage(tools, only.subject, part, damaged)
    await check(tools, parts, report, folder)
  })
  return damaged
}

interface Drawn {
  path: string
  until: number
}

function drawTexts({ renditions }: PieceTools, shown: readonly Shown[], folder: string): Promise<Drawn[][]> {
  const canvas = canvasOf(renditions)
  return Promise.all(
    shown.map(async ({ subject, from, title }, k) => {
      const drawn: Drawn[] = []
      for (const caption of captionsOf(subject, from, title)) {
        const path = join(folder, `${caption.kind}-${k}.png`)
        if (await drawText(caption, canvas, path)) drawn.push({ path, until: caption.until })
      }
      return drawn
    }),
  )
}

/** Calls `work` with the arguments that open the pictures of all parts; their sources stay on disk until it ends. */
async function withInputs(
  tools: PieceTools,
  shown: readonly Shown[],
  parts: readonly Part[],
  folder: string,
  work: (inputs: string[]) => Promise<void>,
): Promise<void> {
  const k = shown.length - 1
  const [subject, part] = [shown[k]?.subject, parts[k]]
  if (!subject || !part) return work([])
  const rest = (own: string[]) =>
    withInputs(tools, shown.slice(0, k), parts.slice(0, k), folder, (inputs) => work([...inputs, ...own]))
  if (subject.picture.kind === 'still') {
    return rest(await stillInput(tools, subject.picture.still, join(folder, `part-${k}.rgb`)))
  }
  return withSource(tools.sources, subject.item, ({ path }) => rest(videoInput(part, path, tools.cores)))
}

/** A file that this job made. */
const ownInput = (format: string, options: readonly string[], path: string): string[] => [
  ...['-protocol_whitelist', 'file', '-f', format, ...options, '-i', `file:${path}`],
]

async function stillInput({ renditions, look }: PieceTools, still: Parameters<typeof drawStill>[0], path: string) {
  const canvas = canvasOf(renditions)
  await drawStill(still, canvas, look.fill, path)
  const size = ['-video_size', `${canvas.width}x${canvas.height}`]
  return ownInput('rawvideo', ['-pixel_format', 'rgb24', ...size, '-framerate', String(HIGHLIGHT_FPS)], path)
}

/** What is read beyond the end of the part, because time stamps vary. */
const SLACK_SECONDS = 2

function videoInput({ from, frames, picture }: Part, path: string, cores: number): string[] {
  const [skipped, threads, steady] =
    picture.kind === 'video'
      ? [picture.skipped, decoderThreads(cores, picture.source), steadyInput(picture.source)]
      : [0, 1, []]
  const seconds = (from - skipped + frames) / HIGHLIGHT_FPS + SLACK_SECONDS
  const seek = skipped > 0 ? ['-ss', (skipped / HIGHLIGHT_FPS).toFixed(6)] : []
  return guardedInput('upload', path, ['-threads', String(threads), ...steady, ...seek, '-t', seconds.toFixed(3)])
}

/** Decoding starts at least this much earlier: the filters find the first frame by counting from here. */
const PREROLL_SECONDS = 1

function partOf({ subject, from }: Shown, frames: number, look: Look, texts: Part['texts']): Part {
  const part = { from, frames, of: subject.frames, fades: look.transition === 'fade', texts }
  if (subject.picture.kind === 'still') {
    return { ...part, picture: { kind: 'still', motion: look.kenBurns ? motionOf(digestOf(subject.etag)) : null } }
  }
  const { source } = subject.picture
  // Whole seconds are whole ticks of every time base. Rounded to a tick, frames of 24 or 29.97 a second would fall on
  // other frames of the highlight than in the piece before, and one would be seen twice or not at all.
  const skippedSeconds = maySeek(source) ? Math.max(0, Math.floor(from / HIGHLIGHT_FPS) - PREROLL_SECONDS) : 0
  const skipped = skippedSeconds * HIGHLIGHT_FPS
  return { ...part, picture: { kind: 'video', source, skipped } }
}

/** After a gap of more than the preroll, the picture that is still shown would not be decoded. */
const maySeek = (source: ProbedSource) => !source.variableFrameRate && source.averageFrameRate > 5

/** The arguments of a piece behind its inputs: how its parts become a file of each rendition in `folder`. Pure. */
export function outputArguments(
  { renditions, look, preset, cores }: Pick<PieceTools, 'renditions' | 'look' | 'preset' | 'cores'>,
  parts: readonly Part[],
  folder: string,
): string[] {
  const [{ frames = 0 } = {}] = parts
  return [
    ...['-filter_complex_threads', String(filterThreads(cores))],
    ...['-filter_complex', pieceGraph({ parts, renditions, fill: look.fill })],
    ...renditions.flatMap((rendition, k) => [
      ...['-map', `[v${k}]`, '-map_metadata', '-1', '-fps_mode', 'passthrough', '-frames:v', String(frames)],
      // The same parameter sets whatever the pictures are, so that pieces can be joined by copy.
      ...x264Options({ preset, cores }, KEYFRAME_FRAMES, 0, {
        params: ['stitchable=1', `vbv-init=${bufferAtStart(frames, rendition).toFixed(3)}`],
      }),
      ...['-pix_fmt', 'yuv420p', '-color_range', 'tv'],
      ...['-colorspace', 'bt709', '-color_primaries', 'bt709', '-color_trc', 'bt709'],
      ...['-maxrate:v', String(rendition.maxrate), '-bufsize:v', String(rendition.bufsize)],
      ...['-force_key_frames', `expr:gte(n,n_forced*${KEYFRAME_FRAMES})`, '-g', String(2 * KEYFRAME_FRAMES + 2)],
      ...['-max_muxing_queue_size', '4096', '-f', 'mpegts', pieceFile(folder, rendition)],
    ]),
  ]
}

/** The share of damaged frames of an item that viewers do not notice, and the number that they do not notice in any. */
const TOLERABLE_SHARE = 0.01
const TOLERABLE_FRAMES = 2

/** Throws when the parts of the item that were decoded so far have more damage together than viewers overlook. */
function judgeDamage({ damage }: PieceTools, { item, frames: of }: Subject, part: Part, damaged: number): void {
  const { from, frames, picture } = part
  if (picture.kind === 'still') return
  const total = damage.note(item.id, { from, frames, decodedFrom: picture.skipped }, damaged)
  const decoded = (of / HIGHLIGHT_FPS) * toNumber(picture.source.frameRate)
  if (total <= Math.max(TOLERABLE_FRAMES, TOLERABLE_SHARE * decoded)) return
  throw badInput('CorruptInput', `${total} frames are damaged`)
}

/** ffmpeg exits 0 on half a file, so what it made and what it said are looked at. */
async function check(
  { renditions }: PieceTools,
  parts: readonly Part[],
  { tail }: Complaints,
  folder: string,
): Promise<void> {
  const [{ frames = 0 } = {}] = parts
  for (const rendition of renditions) {
    const fault = await faultOf(pieceFile(folder, rendition), frames)
    if (fault === undefined) continue
    if (parts.some((p) => p.picture.kind === 'video') && /missing|time stamp|no such file/i.test(fault)) {
      throw badInput('Truncated', `The video ends before its container says: ${fault}`)
    }
    throw new TransientError(
      EXIT.verificationFailed,
      'VerificationFailed',
      `${rendition.name}: ${fault}. ${tail.slice(-200)}`,
    )
  }
}
