import type { ProbedSource } from '../ffmpeg/probe.ts'
import { presentationSeconds } from '../ffmpeg/source.ts'
import type { Rendition } from './ladder.ts'
import type { PassPart } from './pass-window.ts'
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
  cores: number
  preset: Preset
  /** Its rendition, if it has one, is the video stream of the source as it is; see `copied-top.ts`. */
  copiesVideo?: boolean
  /** Makes these segments only. */
  part?: PassPart
}

export const AUDIO_NAME = 'audio'
export const AUDIO_BITRATE = 128_000
export const AUDIO_RATE = 48_000

/** The number of frames that this rendition should have, as the source declares. */
export const promisedFrames = (source: ProbedSource, { frameRate }: Rendition): number =>
  Math.round((presentationSeconds(source) * frameRate.num) / frameRate.den)

/**
 * Decoding on the GPU pays only where no filter needs the frames in main memory. GPU frames are never rotated. Beside a
 * copied rendition the decoder has to say what is damaged, as that of the CPU does.
 */
export const decodesOnGpu = ({ accelerator, source, timeline }: EncodePass): boolean =>
  accelerator === 'gpu' &&
  timeline.starts === undefined &&
  (source.video.codec === 'h264' || source.video.codec === 'hevc') &&
  source.video.pixelFormat === 'yuv420p' &&
  source.rotation === 0 &&
  source.hdr === null &&
  !source.video.interlaced

/**
 * Whether frames of other sizes are fitted into the picture. Scaling on the GPU takes no other size. Beside a copied
 * rendition the pass fails instead: a stream that changes its size midway does not serve as a rendition.
 */
export const isSteady = (pass: EncodePass): boolean => !decodesOnGpu(pass) && pass.timeline.starts === undefined

/** The names of the playlists of a pass. The first ones are those that players wait for while they grow. */
export const streamNames = ({ renditions, withAudio }: Pick<EncodePass, 'renditions' | 'withAudio'>): string[] => [
  ...(withAudio ? [AUDIO_NAME] : []),
  ...renditions.map((r) => r.name),
]
