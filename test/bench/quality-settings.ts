import { x264Options } from '../../jobs/hls/args.ts'
import { ladderOf, type Rendition } from '../../jobs/hls/ladder.ts'
import { keyframeExpression, longestGop, timelineOf } from '../../jobs/hls/timeline.ts'
import { CLIP_RATE } from './quality-clips.ts'

/** One way to encode a rendition; what is not said here is the same for all: 8-bit 4:2:0, the rendition's own size. */
export interface Setting {
  name: string
  heights: readonly number[]
  args: (height: number) => string[]
}

export const HEIGHTS = [1080, 720, 360] as const
const ladder = ladderOf({ width: 1920, height: 1080, frameRate: { num: CLIP_RATE, den: 1 } }, ['360p', '720p', '1080p'])
const renditionOf = (height: number): Rendition => {
  const rendition = ladder.find((r) => r.height === height)
  if (!rendition) throw new Error(`the ladder has no rendition of ${height} lines`)
  return rendition
}

/** The product's own, with whatever `change` puts in place of it or behind it. */
export function ours(height: number, change: Readonly<Record<string, string>> = {}): string[] {
  const rendition = renditionOf(height)
  const timeline = timelineOf(ladder, 6)
  const gop = longestGop(timeline, rendition.frameRate)
  const made: Record<string, string> = {}
  const given = [
    ...x264Options({ preset: 'veryfast', cores: 1 }, gop, 0, { lookahead: 40 }),
    ...['-maxrate:v:0', String(rendition.maxrate), '-bufsize:v:0', String(rendition.bufsize)],
    ...['-force_key_frames:v:0', keyframeExpression(timeline, rendition.frameRate), '-g:v:0', String(2 * gop + 2)],
  ]
  for (let i = 0; i < given.length; i += 2) made[given[i] ?? ''] = given[i + 1] ?? ''
  return Object.entries({ ...made, ...change }).flat()
}

/** Bits per pixel that PeerTube allows each resolution on average, which is its maximum over a buffer of two seconds. */
const PEERTUBE_BITS_PER_PIXEL: Record<number, number> = { 1080: 0.1, 720: 0.11, 360: 0.15 }

export function peertube(height: number): string[] {
  const { width } = renditionOf(height)
  const rate = Math.floor(width * height * CLIP_RATE * (PEERTUBE_BITS_PER_PIXEL[height] ?? 0.1))
  return [
    ...['-c:v', 'libx264', '-preset', 'veryfast', '-maxrate', String(rate), '-bufsize', String(2 * rate)],
    ...['-b_strategy', '1', '-bf', '16', '-g', String(2 * CLIP_RATE)],
  ]
}

/** No largest rate, GOPs as x264 has them; the real product makes one rendition of 720 lines. */
export const immich = (): string[] => ['-c:v', 'libx264', '-preset', 'ultrafast', '-crf', '23']

export const SETTINGS: readonly Setting[] = [
  { name: 'ours', heights: HEIGHTS, args: (height) => ours(height) },
  { name: 'PeerTube', heights: HEIGHTS, args: peertube },
  { name: 'Immich', heights: HEIGHTS, args: immich },
  {
    name: 'ours before (crf 23)',
    heights: HEIGHTS,
    args: (height) => ours(height, { '-crf:v:0': '23', '-x264-params:v:0': 'trellis=0:rc-lookahead=10' }),
  },
]
