import { CHANNELS, fromDecibels, RATE } from './pcm.ts'

/** The highest true peak of a highlight, in dBTP: what EBU R128 leaves for the encoder of AAC, and half a decibel more. */
export const CEILING_DBTP = -1.5

/** Below the ceiling, because an interpolated peak is an estimate. */
const AIM = fromDecibels(CEILING_DBTP - 0.2)
/** The gain falls over 5 ms before a peak, and recovers within about a fifth of a second. */
const LOOK_AHEAD = RATE / 200
const RECOVERY = 1 - Math.exp(-1 / (0.06 * RATE))
/** ITU-R BS.1770: a true peak is the peak of the signal at four times its rate. */
const OVERSAMPLING = 4
const TAPS = 16
/** No interpolated peak of music or speech is more than twice its samples; silence costs nothing. */
const WATCHED = AIM / 2

const PHASES: readonly Float64Array[] = Array.from({ length: OVERSAMPLING - 1 }, (_, k) =>
  sincPhase((k + 1) / OVERSAMPLING),
)

/** A windowed sinc that reads the signal `fraction` of a sample after its middle. */
function sincPhase(fraction: number): Float64Array {
  const taps = Float64Array.from({ length: TAPS }, (_, i) => {
    const x = i - (TAPS / 2 - 1) - fraction
    const sinc = x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x)
    return sinc * Math.cos((Math.PI * x) / (TAPS + 2)) ** 2
  })
  const sum = taps.reduce((a, b) => a + b, 0)
  return taps.map((tap) => tap / sum)
}

export interface Limiter {
  /** Takes interleaved stereo and returns as much of the limited sound as is decided. */
  push: (samples: Float32Array) => Float32Array
  /** The rest. What was returned altogether is as long as what was pushed. */
  end: () => Float32Array
}

/**
 * A look-ahead limiter of true peaks for both channels together, so that the picture of the stereo stays in place. It
 * leaves sound below the ceiling as it is.
 */
export function openLimiter(): Limiter {
  const delay = LOOK_AHEAD - 1 + TAPS / 2
  const peaks = truePeaks()
  const smallest = slidingMinimum(LOOK_AHEAD + 1)
  const smooth = slidingMean(LOOK_AHEAD)
  const delayed = new Float32Array(delay * CHANNELS)
  let at = 0
  let pushed = 0
  let recovering = 1
  const gainAfter = (left: number, right: number): number => {
    const peak = peaks(left, right)
    const needed = smallest(peak > AIM ? AIM / peak : 1)
    recovering = Math.min(needed, recovering + (1 - recovering) * RECOVERY)
    return smooth(recovering)
  }
  const push = (samples: Float32Array): Float32Array => {
    const out = new Float32Array(samples.length)
    let filled = 0
    for (let i = 0; i < samples.length; i += CHANNELS) {
      const left = samples[i] ?? 0
      const right = samples[i + 1] ?? 0
      const gain = gainAfter(left, right)
      if (pushed++ >= delay) {
        out[filled++] = (delayed[at] ?? 0) * gain
        out[filled++] = (delayed[at + 1] ?? 0) * gain
      }
      delayed[at] = left
      delayed[at + 1] = right
      at = (at + CHANNELS) % delayed.length
    }
    return out.subarray(0, filled)
  }
  return { push, end: () => push(new Float32Array(delayed.length)) }
}

/** The greater true peak of both channels about TAPS / 2 samples ago, and between that sample and the next. */
function truePeaks(): (left: number, right: number) => number {
  const lefts = new Float64Array(TAPS * 2)
  const rights = new Float64Array(TAPS * 2)
  let at = 0
  let watching = 0
  return (left, right) => {
    // Kept twice, so that the last TAPS samples always lie together.
    lefts[at] = lefts[at + TAPS] = left
    rights[at] = rights[at + TAPS] = right
    at = (at + 1) % TAPS
    if (Math.abs(left) > WATCHED || Math.abs(right) > WATCHED) watching = TAPS
    if (watching === 0) return 0
    watching -= 1
    return Math.max(peakOf(lefts, at), peakOf(rights, at))
  }
}

function peakOf(samples: Float64Array, from: number): number {
  let peak = Math.abs(samples[from + TAPS / 2 - 1] ?? 0)
  for (const taps of PHASES) {
    let value = 0
    for (let i = 0; i < TAPS; i++) value += (samples[from + i] ?? 0) * (taps[i] ?? 0)
    peak = Math.max(peak, Math.abs(value))
  }
  return peak
}

/** The smallest of the last `length` values, by a queue of those that can still become the smallest. */
function slidingMinimum(length: number): (value: number) => number {
  const values = new Float64Array(length + 1)
  const times = new Float64Array(length + 1)
  let head = 0
  let count = 0
  let now = 0
  const slot = (i: number) => (head + i) % values.length
  return (value) => {
    while (count > 0 && (values[slot(count - 1)] ?? 0) >= value) count -= 1
    values[slot(count)] = value
    times[slot(count)] = now
    count += 1
    if ((times[head] ?? 0) <= now - length) {
      head = slot(1)
      count -= 1
    }
    now += 1
    return values[head] ?? value
  }
}

function slidingMean(length: number): (value: number) => number {
  const values = new Float64Array(length).fill(1)
  let sum = length
  let at = 0
  return (value) => {
    sum += value - (values[at] ?? 0)
    values[at] = value
    at = (at + 1) % length
    return Math.min(1, sum / length)
  }
}
