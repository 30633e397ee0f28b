import { toText } from '../ffmpeg/rational.ts'
import { presentationSeconds, type Source } from '../ffmpeg/source.ts'
import { steadyFilters } from '../ffmpeg/steady.ts'
import { AUDIO_RATE, decodesOnGpu, type EncodePass, isSteady } from './encode-pass.ts'
import type { Rendition } from './ladder.ts'
import { type PassWindow, windowOf } from './pass-window.ts'

/**
 * The filters of the pictures of one pass. The frame rate is made constant before the split, so that frame n is the same
 * picture in every rendition of every pass.
 */
export function filterGraph(pass: EncodePass): string {
  const { renditions } = pass
  const step = Math.min(...renditions.map((r) => r.step))
  const common = [
    ...timing(pass),
    ...(step > 1 ? [`framestep=${step}`] : []),
    ...toneMap(pass.source.hdr, renditions.at(-1)),
  ]
  const branches = renditions.map((r, i) => `[s${i}]${[...halving(r, step), ...scaling(pass, r)].join(',')}[v${i}]`)
  const split = `split=${renditions.length}${renditions.map((_, i) => `[s${i}]`).join('')}`
  return `[0:${pass.source.video.index}]${[...common, split].join(',')};${branches.join(';')}`
}

function timing(pass: EncodePass): string[] {
  const { source } = pass
  const window = pass.part && windowOf(source, pass.timeline, pass.part)
  // Only what makes the end of the video can tell how long its sound goes on.
  const extra = window?.frames === undefined ? presentationSeconds(source) - source.videoSeconds : 0
  return [
    ...(isSteady(pass) ? steadyFilters(source) : []),
    ...(source.video.interlaced ? ['bwdif=mode=send_frame:deint=interlaced'] : []),
    `fps=${toText(source.frameRate)}:start_time=0`,
    ...(extra > 0 ? [`tpad=stop_mode=clone:stop_duration=${extra.toFixed(3)}`] : []),
    ...(window ? [trim(window), 'setpts=PTS-STARTPTS'] : []),
  ]
}

/** By the number of frames: times would be rounded. */
const trim = ({ preroll, frames }: PassWindow): string =>
  `trim=start_frame=${preroll}${frames === undefined ? '' : `:end_frame=${preroll + frames}`}`

/**
 * Runs once for all renditions, at the size of the largest: tone mapping works in floating point and costs more than
 * encoding. The input colours are explicit, because files often lack one of the three tags.
 */
export function toneMap(hdr: Source['hdr'], size: { width: number; height: number } | undefined): string[] {
  if (!hdr || !size) return []
  return [
    `zscale=w=${size.width}:h=${size.height}:tin=${hdr}:pin=2020:min=2020_ncl:t=linear:npl=203`,
    'format=gbrpf32le',
    'zscale=p=bt709',
    'tonemap=hable:desat=0',
    'zscale=t=bt709:m=bt709:r=tv',
    'format=yuv420p',
  ]
}

const halving = (rendition: Rendition, step: number): string[] =>
  rendition.step > step ? [`framestep=${rendition.step / step}`] : []

const scaling = (pass: EncodePass, { width, height }: Rendition): string[] =>
  decodesOnGpu(pass)
    ? [`scale_cuda=${width}:${height}:interp_algo=bicubic:format=yuv420p`]
    : [`scale=${width}:${height}:flags=bicubic:out_range=tv`, 'setsar=1', 'format=yuv420p']

/**
 * The filters of the sound of a pass; undefined for one without. They are a graph of their own: where sound changes its
 * channels midway, ffmpeg builds the graph that it belongs to anew, and filters of pictures would begin to count again.
 */
export const soundGraph = (pass: Pick<EncodePass, 'source' | 'withAudio'>): string | undefined =>
  pass.withAudio && pass.source.audio ? audio(pass.source, pass.source.audio) : undefined

/** Seconds. Players bear that sound begins this late: it keeps its time. */
const MIN_LATE = 0.05
/** Seconds after the beginning that a container claims, for packets from which nothing can be decoded. */
const MAX_UNDECODED = 5

/**
 * Fills audio that begins late, has gaps or ends early with silence: players stall where audio is missing. Where late
 * sound begins, its first frame is silenced and put at the start, and the gap behind that frame is filled. A graph that
 * ffmpeg builds anew midway has such a first frame too, which keeps its time: `first_pts=0` would fill hours before it,
 * and hold them in memory. Gaps of 50 ms and more are filled; what is off by less is stretched, by 0.4 % at most, which is
 * not heard. Sound at 48 kHz keeps its first such offset: `flags=res`, by which it would be stretched too, doubles the memory
 * that filling a gap takes.
 */
function audio(source: EncodePass['source'], { index, startSeconds }: NonNullable<Source['audio']>): string {
  const end = presentationSeconds(source).toFixed(3)
  const last = (Math.max(0, startSeconds) + MAX_UNDECODED).toFixed(3)
  return [
    `[0:${index}]volume='if(eq(pts,startpts)*between(t,${MIN_LATE},${last}),0,1)':eval=frame`,
    `asetpts='if(eq(N,0)*between(T,${MIN_LATE},${last}),0,PTS)'`,
    `aresample=${AUDIO_RATE}:async=1:max_soft_comp=0.004:min_hard_comp=0.05`,
    ...['apad', `atrim=start=0:end=${end}[a0]`],
  ].join(',')
}
