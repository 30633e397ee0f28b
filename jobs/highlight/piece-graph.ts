import { HIGHLIGHT_FPS } from '../../lib/contract/highlight-length.ts'
import type { ProbedSource } from '../ffmpeg/probe.ts'
import { steadyFilters } from '../ffmpeg/steady.ts'
import { toneMap } from '../hls/filter-graph.ts'
import type { Rendition } from '../hls/ladder.ts'
import { coverOf, type Fill, fillsCanvas, fitInside, type Size } from './fit.ts'
import type { Motion } from './motion.ts'

/** Frames that an item takes to appear from black and to vanish into it. */
export const FADE_FRAMES = 15
/** Containers round durations: so many frames may be missing at the end, where the last picture is then held. */
const HELD_FRAMES = 9
/** A screen recording may end long after its last picture, and a slide show shows each for seconds. */
const HELD_FRAMES_IF_VARIABLE = 2 * HIGHLIGHT_FPS
const SPARSE_RATE = 10

/** The part of an item that a piece shows, in frames of the item. */
export interface Part {
  from: number
  frames: number
  /** Frames of the whole item, to which motion and fades refer. */
  of: number
  /** Appears from black and vanishes into it. */
  fades: boolean
  /** Texts over it; each is an input behind those of all parts, in the order of the parts. */
  texts: readonly { until: number }[]
  picture: { kind: 'still'; motion: Motion | null } | { kind: 'video'; source: ProbedSource; skipped: number }
}

export interface PieceGraph {
  /** One, or two that are crossfaded. */
  parts: readonly Part[]
  /** Smallest first. */
  renditions: readonly Rendition[]
  fill: Fill
}

/** Frames that a text takes to appear, and to vanish. */
const TEXT_FADE_FRAMES = 10

/** The filters of a piece: input k is part k, output `[vk]` is rendition k. Pure. */
export function pieceGraph({ parts, renditions, fill }: PieceGraph): string {
  const canvas = canvasOf(renditions)
  const labels = parts.map((_, k) => `[p${k}]`)
  const each = parts.map((part, k) => {
    const before = parts.slice(0, k).reduce((sum, p) => sum + p.texts.length, parts.length)
    return partChain(part, { input: k, texts: before }, canvas, fill)
  })
  const [{ frames = 0 } = {}] = parts
  const joined =
    parts.length === 2
      ? `${labels.join('')}xfade=transition=fade:duration=${(frames / HIGHLIGHT_FPS).toFixed(6)}:offset=0,`
      : labels[0]
  return [...each, `${joined}${ladder(renditions)}`].join(';')
}

/** Scales each rendition from the next larger one, which reads a fraction of the pixels of the canvas. */
function ladder(renditions: readonly Rendition[]): string {
  const chains = renditions.map(({ width, height }, k) => {
    const sized = k === renditions.length - 1 ? 'format=yuv420p' : `[r${k}]scale=${width}:${height}:flags=bicubic`
    return `${sized},setsar=1${k === 0 ? '' : `,split[v${k}][r${k - 1}];`}`
  })
  return `${chains.toReversed().join('')}[v0]`
}

/** Items are composed once, in the size of the largest rendition. */
export function canvasOf(renditions: readonly Rendition[]): Size {
  const { width = 0, height = 0 } = renditions.at(-1) ?? {}
  return { width, height }
}

/** `input` and `texts` are the numbers of the inputs with the picture and with the first text. */
function partChain(part: Part, { input, texts }: { input: number; texts: number }, canvas: Size, fill: Fill): string {
  const { picture } = part
  const composed =
    picture.kind === 'still' ? stillChain(part, input, picture.motion) : videoChain(part, input, picture, canvas, fill)
  const clock = `setpts=N,settb=1/${HIGHLIGHT_FPS}`
  const overlays = part.texts.map(({ until }, k) => {
    const [text, under] = [`[t${texts + k}]`, `[u${texts + k}]`]
    return `,${clock}${under};${textChain(part, texts + k, until)},${clock}${text};${under}${text}overlay=eof_action=pass`
  })
  return `${composed}${overlays.join('')},${[...fades(part), clock].join(',')}[p${input}]`
}

/** Appears and vanishes by itself; numbered from the beginning of the item, of which the piece may be a part. */
function textChain({ from, frames }: Part, input: number, until: number): string {
  const length = Math.min(TEXT_FADE_FRAMES, Math.floor(until / 2))
  return [
    `[${input}:v]scale=${toBt709('auto')},format=yuva420p`,
    `loop=loop=${until - 1}:size=1:start=0,setpts=N,settb=1/${HIGHLIGHT_FPS}`,
    ...(length > 0 ? [`fade=t=in:s=0:n=${length}:alpha=1`, `fade=t=out:s=${until - length}:n=${length}:alpha=1`] : []),
    `trim=start_frame=${from}:end_frame=${from + frames}`,
  ].join(',')
}

/** In frames of the piece, which may be a part of the item only. */
function fades({ from, frames, of, fades }: Part): string[] {
  if (!fades) return []
  const length = Math.min(FADE_FRAMES, Math.floor(of / 2))
  if (length === 0 || from > 0 || frames < of) return []
  return [`fade=t=in:s=0:n=${length}`, `fade=t=out:s=${of - length}:n=${length}`]
}

const toBt709 = (from: string) => `in_color_matrix=${from}:out_color_matrix=bt709:out_range=tv`

/** The input is one frame, which has the size of the canvas. */
function stillChain({ from, frames, of }: Part, k: number, motion: Motion | null): string {
  const repeated = [
    `[${k}:v]scale=${toBt709('auto')}`,
    'setsar=1,format=yuv420p',
    `loop=loop=${frames - 1}:size=1:start=0`,
    'setpts=N',
  ]
  return [...repeated, ...(motion ? [moved(motion, from, of)] : [])].join(',')
}

/**
 * Enlarges a window that moves: `perspective` reads between pixels, so the move is smooth, where `zoompan` and `crop`
 * jump from pixel to pixel.
 */
function moved({ begin, end }: Motion, from: number, of: number): string {
  const done = `((on+${from})/${Math.max(1, of - 1)})`
  const along = (a: number, b: number, scale: string) => `'${scale}*(${a.toFixed(5)}+(${(b - a).toFixed(5)})*${done})'`
  const [left, right] = [along(begin.left, end.left, 'W'), along(begin.right, end.right, 'W')]
  const [top, bottom] = [along(begin.top, end.top, 'H'), along(begin.bottom, end.bottom, 'H')]
  const corners = `x0=${left}:y0=${top}:x1=${right}:y1=${top}:x2=${left}:y2=${bottom}:x3=${right}:y3=${bottom}`
  return `perspective=${corners}:interpolation=linear:eval=frame`
}

type VideoPicture = Extract<Part['picture'], { kind: 'video' }>

function videoChain({ from, frames }: Part, k: number, picture: VideoPicture, canvas: Size, fill: Fill): string {
  const { source, skipped } = picture
  const first = from - skipped
  const timed = [
    ...steadyFilters(source),
    ...(source.video.interlaced ? ['bwdif=mode=send_frame:deint=interlaced'] : []),
    `fps=${HIGHLIGHT_FPS}:start_time=0`,
    `tpad=stop_mode=clone:stop=${heldFrames(source, first + frames)}`,
    `trim=start_frame=${first}:end_frame=${first + frames}`,
    'setpts=PTS-STARTPTS',
  ]
  const size = fillsCanvas(source, canvas) ? canvas : fitInside(source, canvas)
  const sized = source.hdr
    ? toneMap(source.hdr, size)
    : [`scale=${size.width}:${size.height}:flags=bicubic:${toBt709(matrixOf(source))}`]
  const shown = `[${k}:${source.video.index}]${[...timed, ...sized, 'setsar=1', 'format=yuv420p'].join(',')}`
  return size === canvas ? shown : surrounded(shown, k, fitInside(source, canvas), canvas, fill)
}

function heldFrames({ averageFrameRate, variableFrameRate }: ProbedSource, all: number): number {
  if (averageFrameRate < SPARSE_RATE) return all
  return variableFrameRate ? HELD_FRAMES_IF_VARIABLE : HELD_FRAMES
}

/** Files often name no matrix; then the size tells, as in players. */
function matrixOf({ video, width, height }: ProbedSource): string {
  if (video.colorSpace === 'bt709') return 'bt709'
  if (video.colorSpace?.startsWith('bt2020')) return 'bt2020'
  if (video.colorSpace === 'smpte170m' || video.colorSpace === 'bt470bg') return 'bt601'
  return Math.min(width, height) >= 720 ? 'bt709' : 'bt601'
}

const BLUR_SCALE = 16

function surrounded(shown: string, k: number, box: Size & { x: number; y: number }, canvas: Size, fill: Fill): string {
  const { width, height } = canvas
  if (fill === 'black') return `${shown},pad=${width}:${height}:${box.x}:${box.y}:black`
  const small = { width: even(width / BLUR_SCALE), height: even(height / BLUR_SCALE) }
  const cover = coverOf(box, small)
  const back = [
    `[b${k}]scale=${cover.width}:${cover.height}:flags=area`,
    `crop=${small.width}:${small.height}`,
    // A box as large as the picture is refused, which matters only for the tiniest highlights.
    `boxblur=${Math.min(3, Math.floor(Math.min(small.width, small.height) / 8))}:2`,
    `lutyuv=y='16+(val-16)*0.7'`,
    `scale=${width}:${height}:flags=bicubic,setsar=1[back${k}]`,
  ]
  return `${shown},split[f${k}][b${k}];${back.join(',')};[back${k}][f${k}]overlay=${box.x}:${box.y}`
}

const even = (n: number) => Math.max(8, 2 * Math.round(n / 2))
