import type { Rendition } from './ladder.ts'
import type { ProbedSource } from './probe.ts'
import type { Timeline } from './timeline.ts'

export const PRESETS = ['ultrafast', 'superfast', 'veryfast', 'faster', 'fast', 'medium'] as const
export type Preset = (typeof PRESETS)[number]

/** One run of ffmpeg: some renditions of one source, with or without its sound. */
export interface EncodePass {
  source: ProbedSource
  renditions: readonly Rendition[]
  withAudio: boolean
  timeline: Timeline
  accelerator: 'gpu' | 'cpu'
  threads: number
  preset: Preset
}

export const AUDIO_NAME = 'audio'
export const AUDIO_BITRATE = 128_000
export const AUDIO_RATE = 48_000

/** How long the whole plays: the picture's length, or the sound's when that goes on for longer (the last frame stays). */
export function presentationSeconds({ videoSeconds, audioSeconds }: ProbedSource): number {
  return audioSeconds !== null && audioSeconds > videoSeconds + 0.5 ? audioSeconds : videoSeconds
}

/** How many frames of this rendition the source promises. */
export const promisedFrames = (source: ProbedSource, { frameRate }: Rendition): number =>
  Math.round((presentationSeconds(source) * frameRate.num) / frameRate.den)

/** Decoding on the GPU pays only where nothing else needs the frames in ordinary memory; its frames are never rotated. */
export const decodesOnGpu = ({ accelerator, source }: EncodePass): boolean =>
  accelerator === 'gpu' &&
  (source.video.codec === 'h264' || source.video.codec === 'hevc') &&
  source.video.pixelFormat === 'yuv420p' &&
  source.rotation === 0 &&
  source.hdr === null &&
  !source.video.interlaced

/** The streams of a pass by the names of their playlists. */
export const streamNames = ({ renditions, withAudio }: EncodePass): string[] => [
  ...renditions.map((r) => r.name),
  ...(withAudio ? [AUDIO_NAME] : []),
]
