import { CEILING_DBTP } from './limiter.ts'

/** The loudness of every item with sound, in LUFS. */
export const TARGET_LUFS = -16

/** What EBU R128 says about a piece of sound. Silence is -Infinity. */
export interface Loudness {
  /** Gated, over the whole piece, in LUFS. */
  integrated: number
  /** Momentary loudness (400 ms) at the end of every tenth of a second, in LUFS. */
  momentary: readonly number[]
  /** In dBTP. */
  truePeak: number
}

/** Quieter than this, a recording is raised with care: it may be nothing but the hiss of its microphone. */
const SURELY_MEANT_LUFS = -30
/** Quieter than this, nothing is raised. */
const SURELY_NOISE_LUFS = -50
/** Noise between words may become this loud. */
const NOISE_LUFS = -42
/** Sound that stands out this far above its background is meant to be heard. */
const STANDS_OUT_DB = 8
const MAX_GAIN_DB = 24
/** More would flatten what a peak is part of. */
const MAX_LIMITING_DB = 10
/** The background is what is exceeded for 90 % of the time. */
const BACKGROUND_SHARE = 0.1

/**
 * The gain, in decibels, that brings a piece to the target: one factor for all of it, so that what was quiet within it
 * stays quiet. Loud pieces always come down. Quiet ones come up as far as that does not turn noise into the loudest part
 * of the highlight. Pure.
 */
export function gainFor(loudness: Loudness): number {
  const { integrated, truePeak } = loudness
  const wanted = TARGET_LUFS - integrated
  if (!Number.isFinite(wanted)) return 0
  const limited = CEILING_DBTP + MAX_LIMITING_DB - truePeak
  return Math.min(wanted > 0 ? raise(loudness, wanted) : wanted, Math.max(0, limited))
}

function raise(loudness: Loudness, wanted: number): number {
  const { integrated } = loudness
  if (integrated >= SURELY_MEANT_LUFS) return wanted
  if (integrated <= SURELY_NOISE_LUFS) return 0
  const share = (integrated - SURELY_NOISE_LUFS) / (SURELY_MEANT_LUFS - SURELY_NOISE_LUFS)
  const careful = (TARGET_LUFS - SURELY_MEANT_LUFS) * share
  const background = backgroundOf(loudness.momentary)
  if (integrated - background < STANDS_OUT_DB) return careful
  return Math.max(careful, Math.min(wanted, MAX_GAIN_DB, NOISE_LUFS - background))
}

function backgroundOf(momentary: readonly number[]): number {
  const sorted = [...momentary].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length * BACKGROUND_SHARE)] ?? Number.NEGATIVE_INFINITY
}
