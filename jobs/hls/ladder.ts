import { type Rational, rational, toNumber } from '../ffmpeg/rational.ts'

export interface Rendition {
  /** Named by the length of its short side, e.g. `720p`. Also the name of its playlist. */
  name: string
  width: number
  height: number
  frameRate: Rational
  /** Takes every n-th frame of the common rate: 1, or 2 where the rate is halved. */
  step: 1 | 2
  /** Bits per second, limited over the buffer of `bufsize` bits (VBV). */
  maxrate: number
  bufsize: number
}

interface Picture {
  width: number
  height: number
  frameRate: Rational
}

/** Above this the rate is halved for the small renditions. Phones sometimes record 30.0x. */
const SMALL_MAX_RATE = 30.5
const MAXRATE_OF: Record<string, number> = { '360p': 900_000, '720p': 3_000_000, '1080p': 6_000_000 }

/**
 * The renditions to make, smallest first: the requested ones that do not exceed the source's short side, or, when all
 * of them do, one of the source's own size. Never enlarges. Pure.
 */
export function ladderOf(source: Picture, wanted: readonly string[]): Rendition[] {
  const short = Math.min(source.width, source.height)
  const sides = [...new Set(wanted.map((name) => Number.parseInt(name, 10)))].filter((s) => s <= short)
  if (sides.length === 0) sides.push(even(short))
  return sides.sort((a, b) => a - b).map((side) => renditionOf(source, side))
}

function renditionOf(source: Picture, side: number): Rendition {
  const [short, long] = [Math.min(source.width, source.height), Math.max(source.width, source.height)]
  const other = Math.max(side, 2 * Math.round((long * side) / short / 2))
  const isPortrait = source.height > source.width
  const halves = side <= 720 && toNumber(source.frameRate) > SMALL_MAX_RATE
  const frameRate = halves ? rational(source.frameRate.num, source.frameRate.den * 2) : source.frameRate
  const maxrate = bitsFor(side, toNumber(frameRate))
  return {
    name: `${side}p`,
    width: isPortrait ? side : other,
    height: isPortrait ? other : side,
    frameRate,
    step: halves ? 2 : 1,
    maxrate,
    bufsize: 2 * maxrate,
  }
}

/** The video of the source as it is, beside the renditions that are made of it. */
export function ownRendition(source: Picture): Rendition {
  const side = Math.min(source.width, source.height)
  const maxrate = bitsFor(side, toNumber(source.frameRate))
  const { width, height, frameRate } = source
  return { name: `${side}p-hevc`, width, height, frameRate, step: 1, maxrate, bufsize: 2 * maxrate }
}

/** Sizes without an entry in the table get bits by their side length; a high frame rate gets 1.5 times as many. */
function bitsFor(side: number, fps: number): number {
  const base = MAXRATE_OF[`${side}p`] ?? Math.max(150_000, Math.round(900_000 * (side / 360) ** 1.6))
  return fps > SMALL_MAX_RATE ? Math.round(base * 1.5) : base
}

const even = (n: number) => n - (n % 2)
