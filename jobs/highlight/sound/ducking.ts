/** Music in a highlight without any sound of its own, in LUFS. */
export const MUSIC_ALONE_LUFS = -16
/** Music where the items are silent, in a highlight that has sound elsewhere: below speech, which is at -16. */
const MUSIC_BETWEEN_LUFS = -20
/** Music under speech: 14 LU below it. EBU and the accessibility guidelines of the W3C ask for at least 10 and 20 dB. */
const MUSIC_UNDER_LUFS = -30

/** Where the highlight's own sound is at least this loud, music goes all the way down. */
const LOUD_LUFS = -28
/** Where it is quieter than this, music stays up. */
const QUIET_LUFS = -40
export const STEP_SECONDS = 0.1
/** Music comes back this long after the last loud moment, so that it does not pump between sentences. */
const HOLD_STEPS = 12
/** What is measured over 400 ms began that much earlier. */
const ONSET_STEPS = 4
/** Decibels per step. It is down before speech begins, and up again within two seconds. */
const FALL = 2.5
const RISE = 0.6

/**
 * The gain of the music, in decibels below music alone, for each tenth of a second of a highlight with this momentary
 * loudness (LUFS) of its own. Pure.
 */
export function duckingCurve(own: readonly number[]): number[] {
  const hasSound = own.some((m) => m > QUIET_LUFS)
  if (!hasSound) return own.map(() => 0)
  const curve = own.map((_, i) => levelUnder(loudestAround(own, i)) - MUSIC_ALONE_LUFS)
  for (let i = curve.length - 2; i >= 0; i--) curve[i] = Math.min(curve[i] ?? 0, (curve[i + 1] ?? 0) + FALL)
  for (let i = 1; i < curve.length; i++) curve[i] = Math.min(curve[i] ?? 0, (curve[i - 1] ?? 0) + RISE)
  return curve
}

function loudestAround(own: readonly number[], i: number): number {
  let loudest = Number.NEGATIVE_INFINITY
  const end = Math.min(own.length - 1, i + ONSET_STEPS)
  for (let k = Math.max(0, i - HOLD_STEPS); k <= end; k++) loudest = Math.max(loudest, own[k] ?? loudest)
  return loudest
}

function levelUnder(own: number): number {
  const depth = Math.max(0, Math.min(1, (own - QUIET_LUFS) / (LOUD_LUFS - QUIET_LUFS)))
  return MUSIC_BETWEEN_LUFS + depth * (MUSIC_UNDER_LUFS - MUSIC_BETWEEN_LUFS)
}
