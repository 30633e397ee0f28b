import { parseRational, type Rational, rational, toNumber } from './rational.ts'

/** Rates that players and encoders support. A variable rate becomes one of them. */
const STANDARD: readonly Rational[] = [
  rational(10),
  rational(12),
  rational(15),
  rational(20),
  rational(24000, 1001),
  rational(24),
  rational(25),
  rational(30000, 1001),
  rational(30),
  rational(48),
  rational(50),
  rational(60000, 1001),
  rational(60),
]
const MAX = 60
const MIN = 10
/** How many frames per frame of the source a rate above the average may cost. */
const MAX_REPEATED = 2.5

export interface FrameRate {
  /** The constant rate to encode at: at most 60, at least 10 frames per second. */
  rate: Rational
  variable: boolean
  /** The average rate of the source. */
  average: number
}

/**
 * Chooses a constant rate from ffprobe's values: `base` is the lowest rate that can represent every time stamp,
 * `average` is frames over duration. They differ by more than 2 % when frames are spaced unevenly. The tolerance covers
 * phones, which stretch the last frame of a constant rate.
 */
export function chooseFrameRate(input: { base: unknown; average: unknown; interlaced: boolean }): FrameRate {
  const average = parseRational(input.average)
  const base = parseRational(input.base) ?? average
  if (!base || !average) return { rate: rational(30), variable: true, average: 30 }
  const as = (rate: Rational, variable: boolean): FrameRate => ({ rate, variable, average: toNumber(average) })
  // The base of interlaced video counts fields.
  if (input.interlaced) return as(bounded(snap(average)), false)
  const ratio = toNumber(base) / toNumber(average)
  if (Math.abs(ratio - 1) <= 0.02) return as(bounded(snap(base)), false)
  const isPlausible = ratio > 1 && ratio <= MAX_REPEATED && toNumber(base) <= MAX
  return as(isPlausible ? bounded(snap(base)) : standardAtLeast(toNumber(average)), true)
}

interface ChosenRate {
  frameRate: Rational
  averageFrameRate: number
  variableFrameRate: boolean
}

/**
 * The rate for a source whose frames were counted: what was chosen from the file's own claim, or less when it claims
 * far more frames per second than it has.
 */
export function measuredRate(claimed: ChosenRate, measured: number): ChosenRate {
  const { frameRate, averageFrameRate, variableFrameRate } = claimed
  if (toNumber(frameRate) <= MAX_REPEATED * Math.max(MIN, measured)) {
    return { frameRate, averageFrameRate, variableFrameRate }
  }
  return { frameRate: standardAtLeast(measured), averageFrameRate: measured, variableFrameRate: true }
}

/** Replaces an unusual fraction (2997/100, 1790000/59667) by the standard rate that it approximates, or the nearest. */
function snap(rate: Rational): Rational {
  const value = toNumber(rate)
  const meant = STANDARD.find((s) => Math.abs(toNumber(s) / value - 1) < 0.0002)
  if (meant) return meant
  return rate.den <= 1001 || value > MAX ? rate : standardAtLeast(value)
}

/** Divides high rates by an integer (240 → 60). Raises rates below 10 by repeating frames, which costs no bits. */
function bounded(rate: Rational): Rational {
  const value = toNumber(rate)
  if (value < MIN) return rational(MIN)
  const divisor = Math.ceil(value / (MAX + 0.01))
  return rational(rate.num, rate.den * divisor)
}

const standardAtLeast = (value: number): Rational =>
  value >= MAX ? rational(MAX) : (STANDARD.find((s) => toNumber(s) >= value * 0.98) ?? rational(MAX))
