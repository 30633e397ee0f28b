import { join } from 'node:path'
import { bass, bell, pad, pluck, type Sound, type Voice } from './instruments.ts'
import { reverberate } from './reverb.ts'
import { encode, removeDrafts, sampleFile } from './sample-file.ts'

/** Nothing here sounds above 10 kHz, and half the samples take half the time. */
const RATE = 24_000
/** Behind the last bar, for what still rings. */
const TAIL_SECONDS = 3

interface Piece {
  file: string
  title: string
  beatsPerMinute: number
  /** Each for a bar of four beats, in MIDI notes; the first is the bass. */
  bars: number[][]
  play: (bar: number[], index: number, beat: number) => Note[]
}

interface Note {
  /** Beats from the start of the bar. */
  at: number
  midi: number
  /** In beats. */
  length: number
  volume: number
  /** -1 is left. */
  pan: number
  voice: Voice
}

export interface SampleTrack {
  path: string
  title: string
  license: string
  attribution: string
}

const C = [36, 60, 64, 67, 72]
const G = [43, 59, 62, 67, 71]
const AM = [45, 60, 64, 69, 72]
const F = [41, 60, 65, 69, 72]
const EM = [40, 59, 64, 67, 71]
const DM = [38, 62, 65, 69, 74]

const PIECES: Piece[] = [
  {
    file: 'morning-walk.m4a',
    title: 'Morning walk',
    beatsPerMinute: 100,
    bars: [C, G, AM, F, C, G, F, G, AM, EM, F, C, F, G, C, C],
    play: (bar, index) => [
      ...arpeggio(bar, index === 15 ? 1 : 8),
      { at: 0, midi: bar[0] ?? 0, length: 2, volume: 0.3, pan: 0, voice: bass },
      ...(index === 15 ? [] : [{ at: 2.5, midi: bar[0] ?? 0, length: 1.5, volume: 0.2, pan: 0, voice: bass }]),
      ...(index < 4 ? [] : chord(bar, 0.045)),
      ...(index < 8 ? [] : melody(bar, index)),
    ],
  },
  {
    file: 'evening-lights.m4a',
    title: 'Evening lights',
    beatsPerMinute: 72,
    bars: [AM, F, C, G, AM, F, DM, EM, F, G, AM, AM],
    play: (bar, index) => [
      ...chord(bar, 0.075),
      { at: 0, midi: bar[0] ?? 0, length: 4, volume: 0.24, pan: 0, voice: bass },
      ...(index === 0 ? [] : bells(bar, index)),
    ],
  },
]

export const SAMPLE_TITLES = PIECES.map(({ title }) => title)

/** Up and down the chord in quavers. */
function arpeggio(bar: readonly number[], notes: number): Note[] {
  const order = [1, 2, 3, 4, 3, 2, 3, 2]
  return order.slice(0, notes).map((k, i) => ({
    at: i / 2,
    midi: bar[k] ?? 0,
    length: 2,
    volume: i % 4 === 0 ? 0.2 : 0.14,
    pan: 0.35 * Math.sin(i),
    voice: pluck,
  }))
}

const chord = (bar: readonly number[], volume: number): Note[] =>
  bar.slice(1, 4).map((midi, i) => ({ at: 0, midi, length: 4, volume, pan: (i - 1) * 0.6, voice: pad }))

/** Notes of the chord an octave higher, in a rhythm that answers itself every second bar. */
function melody(bar: readonly number[], index: number): Note[] {
  if (index === 15) return [{ at: 0, midi: 84, length: 4, volume: 0.12, pan: 0.2, voice: bell }]
  const steps =
    index % 2 === 0
      ? ([
          [0, 3],
          [1.5, 4],
          [2, 3],
        ] as const)
      : ([
          [0, 2],
          [1, 3],
          [3, 2],
        ] as const)
  return steps.map(([at, k]) => ({ at, midi: (bar[k] ?? 0) + 12, length: 2, volume: 0.1, pan: 0.2, voice: bell }))
}

function bells(bar: readonly number[], index: number): Note[] {
  const steps =
    index % 2 === 0
      ? ([
          [0, 4],
          [1, 2],
          [2, 3],
          [3.5, 1],
        ] as const)
      : ([
          [0.5, 3],
          [2, 4],
          [3, 2],
        ] as const)
  return steps.map(([at, k], i) => ({
    at,
    midi: (bar[k] ?? 0) + 12,
    length: 4,
    volume: 0.11,
    pan: i % 2 === 0 ? -0.4 : 0.4,
    voice: bell,
  }))
}

/**
 * Makes two pieces of music of about 40 s below `folder`, unless they exist, until `signal` is aborted. They are computed
 * here, note by note, so that they belong to the project and may be used in any highlight.
 */
export async function sampleTracks(
  folder: string,
  signal: AbortSignal,
  performed: (index: number) => Float32Array | Promise<Float32Array> = perform,
): Promise<SampleTrack[]> {
  await removeDrafts(folder)
  const tracks: SampleTrack[] = []
  for (const [index, { file, title }] of PIECES.entries()) {
    signal.throwIfAborted()
    const path = await sampleFile(join(folder, file), async (draft) => {
      const sound = await performed(index)
      const args = [
        ...['-nostdin', '-v', 'error', '-y', '-f', 'f32le', '-ar', String(RATE), '-ac', '2', '-i', 'pipe:0'],
        ...[
          '-c:a',
          'aac',
          '-b:a',
          '160k',
          '-metadata',
          `title=${title}`,
          '-movflags',
          '+faststart',
          '-f',
          'ipod',
          draft,
        ],
      ]
      await encode(signal, ['ffmpeg', ...args], new Uint8Array(sound.buffer))
    })
    tracks.push({ path, title, license: 'CC0-1.0', attribution: 'Computed by Keepsake for its demo' })
  }
  return tracks
}

/** The piece with this index as interleaved stereo. */
export function perform(index: number): Float32Array {
  const piece = PIECES[index]
  if (!piece) throw new Error(`There is no piece ${index}`)
  const { beatsPerMinute, bars, play } = piece
  const beat = 60 / beatsPerMinute
  const seconds = bars.length * 4 * beat + TAIL_SECONDS
  const length = Math.ceil(seconds * RATE)
  const sound: Sound = { rate: RATE, left: new Float32Array(length), right: new Float32Array(length) }
  for (const [index, bar] of bars.entries()) {
    for (const note of play(bar, index, beat)) {
      const start = Math.round((index * 4 + note.at) * beat * RATE)
      note.voice(sound, { ...note, start, seconds: note.length * beat, frequency: 440 * 2 ** ((note.midi - 69) / 12) })
    }
  }
  return finish(reverberate(sound))
}

/** Interleaves, with peaks at -1.5 dB, and lets the last second fade. */
function finish({ left, right }: Sound): Float32Array {
  const peak = [left, right].flatMap((side) => side.reduce((most, s) => Math.max(most, Math.abs(s)), 0))
  const factor = 0.84 / Math.max(...peak)
  const out = new Float32Array(left.length * 2)
  for (let i = 0; i < left.length; i++) {
    const fade = Math.min(1, (left.length - i) / RATE)
    out[2 * i] = (left[i] ?? 0) * factor * fade
    out[2 * i + 1] = (right[i] ?? 0) * factor * fade
  }
  return out
}
