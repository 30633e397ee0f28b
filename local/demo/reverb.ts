import type { Sound } from './instruments.ts'

/** Delays in samples that share no factor, after Schroeder; one more on the right makes the room wide. */
const COMBS = [1687, 1601, 2053, 2251]
const PASSES = [347, 113]
const WIDTH = 37
const DECAY = 0.78
const DIFFUSION = 0.6
const WET = 0.16

/** Puts music into a room. */
export function reverberate({ rate, left, right }: Sound): Sound {
  return { rate, left: inRoom(left, 0), right: inRoom(right, WIDTH) }
}

function inRoom(dry: Float32Array, shift: number): Float32Array {
  let wet = new Float32Array(dry.length)
  for (const delay of COMBS) addComb(wet, dry, delay + shift)
  for (const delay of PASSES) wet = allPass(wet, delay + shift)
  return dry.map((sample, i) => sample + (WET * (wet[i] ?? 0)) / 2)
}

function addComb(out: Float32Array, dry: Float32Array, delay: number): void {
  const line = new Float32Array(delay)
  let dark = 0
  for (let i = 0; i < dry.length; i++) {
    const echo = line[i % delay] ?? 0
    // Walls swallow high tones first.
    dark = echo * 0.7 + dark * 0.3
    line[i % delay] = (dry[i] ?? 0) + dark * DECAY
    out[i] = (out[i] ?? 0) + echo
  }
}

function allPass(input: Float32Array, delay: number): Float32Array<ArrayBuffer> {
  const line = new Float32Array(delay)
  return input.map((sample, i) => {
    const echo = line[i % delay] ?? 0
    line[i % delay] = sample + echo * DIFFUSION
    return echo - sample * DIFFUSION
  }) as Float32Array<ArrayBuffer>
}
