import { type Rational, rational, toNumber } from './rational.ts'

export interface Rendition {
  /** By the length of its short side, e.g. `720p`. Also the name of its playlist. */
  name: string
  width: number
  height: number
  frameRate: Rational
  /** Every how many frames of the common rate one is taken: 1, or 2 where the rate is halved. */
  step: 1 | 2
  /** Bits per second that the encoder may not pass for longer than its buffer lasts. */
  maxrate: number
  bufsize: number
}

interface Picture {
  width: number
  height: number
  frameRate: Rational
}

/** Above this a rate is halved for the small renditions; phones write 30.0x now and then. */
const SMALL_MAX_RATE = 30.5
const MAXRATE_OF: Record<string, number> = { '360p': 900_000, '720p': 3_000_000, '1080p': 6_000_000 }

/**
 * Which renditions to make, smallest first: those wanted that are not above the source's short side, and if none is
 * left one of the source's own size. Never enlarges. Pure.
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

/** A size of its own gets bits in proportion to its area, a high frame rate half as many again. */
function bitsFor(side: number, fps: number): number {
  const base = MAXRATE_OF[`${side}p`] ?? Math.max(150_000, Math.round(900_000 * (side / 360) ** 1.6))
  return fps > SMALL_MAX_RATE ? Math.round(base * 1.5) : base
}

const even = (n: number) => n - (n % 2)
