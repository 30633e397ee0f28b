import { CHANNELS, PER_VIDEO_FRAME, RATE } from './pcm.ts'

/** Sample frames. */
export interface Fade {
  length: number
  /** `power` keeps the loudness of two sounds that share a crossfade; `smooth` begins and ends without a click. */
  shape: 'power' | 'smooth'
}

/** At hard cuts, against clicks. */
const DECLICK: Fade = { length: RATE / 200, shape: 'smooth' }

export interface Joins {
  transition: 'cut' | 'crossfade' | 'fade'
  /** Frames that item k and item k + 1 share. */
  overlaps: readonly number[]
  /** With `fade`: frames that a picture takes to appear, and to disappear. */
  fadeFrames: number
}

/** How the sound of item `k`, `count` sample frames long, begins and ends. Pure. */
export function fadesOf(k: number, count: number, joins: Joins): { in: Fade; out: Fade } {
  return { in: fade(joins.overlaps[k - 1] ?? 0, count, joins), out: fade(joins.overlaps[k] ?? 0, count, joins) }
}

function fade(overlap: number, count: number, { transition, fadeFrames }: Joins): Fade {
  const half = Math.floor(count / 2)
  if (overlap > 0) return { length: overlap * PER_VIDEO_FRAME, shape: 'power' }
  if (transition === 'fade') return { length: Math.min(half, fadeFrames * PER_VIDEO_FRAME), shape: 'smooth' }
  return { ...DECLICK, length: Math.min(half, DECLICK.length) }
}

/** The factor at sample frame `at` of a fade-in; a fade-out is read from its end. */
function factorAt({ length, shape }: Fade, at: number): number {
  if (at >= length) return 1
  const sine = Math.sin((Math.PI / 2) * ((at + 0.5) / length))
  return shape === 'power' ? sine : sine * sine
}

/** Fades samples in place: they begin at sample frame `from` of a sound of `count`. */
export function applyFades(
  samples: Float32Array,
  from: number,
  count: number,
  { in: fadeIn, out: fadeOut }: { in: Fade; out: Fade },
): void {
  const end = from + samples.length / CHANNELS
  const touched = (a: number, b: number, factor: (at: number) => number) => {
    for (let at = Math.max(from, a); at < Math.min(end, b); at++) {
      const i = (at - from) * CHANNELS
      samples[i] = (samples[i] ?? 0) * factor(at)
      samples[i + 1] = (samples[i + 1] ?? 0) * factor(at)
    }
  }
  touched(0, fadeIn.length, (at) => factorAt(fadeIn, at))
  touched(count - fadeOut.length, count, (at) => factorAt(fadeOut, count - 1 - at))
}
