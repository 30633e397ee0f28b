/** Sound in the making: two channels that instruments add to. */
export interface Sound {
  rate: number
  left: Float32Array
  right: Float32Array
}

interface PlayedNote {
  /** The first sample. */
  start: number
  seconds: number
  /** Hertz. */
  frequency: number
  volume: number
  pan: number
}

export type Voice = (sound: Sound, note: PlayedNote) => void

/** Adds a wave to both channels; `wave` gives its value at a time in seconds. */
function add(sound: Sound, { start, volume, pan }: PlayedNote, seconds: number, wave: (t: number) => number): void {
  const angle = ((pan + 1) * Math.PI) / 4
  const left = volume * Math.cos(angle)
  const right = volume * Math.sin(angle)
  const end = Math.min(sound.left.length, start + Math.ceil(seconds * sound.rate))
  for (let i = start; i < end; i++) {
    const value = wave((i - start) / sound.rate)
    sound.left[i] = (sound.left[i] ?? 0) + left * value
    sound.right[i] = (sound.right[i] ?? 0) + right * value
  }
}

const attack = (t: number, seconds: number): number => Math.min(1, t / seconds)

/** A string: high partials fade first. */
export const pluck: Voice = (sound, note) => {
  const w = 2 * Math.PI * note.frequency
  add(sound, note, 1.8, (t) => {
    const body = Math.sin(w * t) * Math.exp(-2.6 * t) + 0.5 * Math.sin(2 * w * t) * Math.exp(-4.5 * t)
    return attack(t, 0.003) * (body + 0.25 * Math.sin(3 * w * t) * Math.exp(-8 * t))
  })
}

/** Two voices beside each other that beat slowly, as a section of strings does. */
export const pad: Voice = (sound, note) => {
  const w = 2 * Math.PI * note.frequency
  const release = 0.9
  add(sound, note, note.seconds + release, (t) => {
    const level = attack(t, 0.7) * Math.min(1, (note.seconds + release - t) / release)
    return level * (soft(w * 1.0015 * t) + soft(w * 0.9985 * t))
  })
}

/** sin(x) + 0.3 sin(2x) + 0.1 sin(3x), at a third of the cost. */
function soft(x: number): number {
  const sine = Math.sin(x)
  return sine * (1 + 0.6 * Math.cos(x) + 0.1 * (3 - 4 * sine * sine))
}

export const bass: Voice = (sound, note) => {
  const w = 2 * Math.PI * note.frequency
  add(sound, note, note.seconds + 0.2, (t) => {
    const level = attack(t, 0.01) * Math.exp(-0.9 * t) * Math.min(1, (note.seconds + 0.2 - t) / 0.2)
    return level * (Math.sin(w * t) + 0.45 * Math.sin(2 * w * t) + 0.15 * Math.sin(3 * w * t))
  })
}

/** Frequency modulation whose depth fades: bright when struck, then almost a pure tone. */
export const bell: Voice = (sound, note) => {
  const w = 2 * Math.PI * note.frequency
  add(sound, note, 3, (t) => {
    const modulation = 1.1 * Math.exp(-5 * t) * Math.sin(3 * w * t)
    return attack(t, 0.004) * Math.exp(-1.7 * t) * Math.sin(w * t + modulation)
  })
}
