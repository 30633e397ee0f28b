import * as z from 'zod'
import { AUDIO_CODECS } from '../../lib/contract/audio-codecs.ts'
import { badInput } from '../runtime/failure.ts'
import { chooseFrameRate } from './frame-rate.ts'
import { VIDEO_CODECS } from './input.ts'
import { parseRational, type Rational, rational, toNumber } from './rational.ts'
import { cameraOf, capturedAtOf, locationOf } from './source-tags.ts'

/** What a conversion needs to know about an upload, independent of the container's peculiarities. */
export interface Source {
  container: string
  /** The time stamp at which the presentation begins. */
  startSeconds: number
  video: {
    index: number
    codec: string
    pixelFormat: string
    interlaced: boolean
    /** The matrix of its colours as ffmpeg names it, e.g. `bt709`; null when the file does not say. */
    colorSpace: string | null
    /** Its pictures before they are turned; null where ffmpeg mirrors them, or turns them by no quarter. */
    frame: { width: number; height: number } | null
  }
  /** Of the video, for players that decode it as it is. */
  stream: {
    /** As ffprobe names it, e.g. `High`; null when it does not know. */
    profile: string | null
    /** Ten times the level of H.264: 42 is 4.2. */
    level: number | null
    hasSquarePixels: boolean
    /** It is shown as in a mirror. */
    isMirrored: boolean
    /** From the start of the presentation to its first frame. */
    startSeconds: number
  }
  audio: {
    index: number
    codec: string
    channels: number
    /** From the start of the presentation to its first packet. */
    startSeconds: number
  } | null
  /** As displayed: rotated, with square pixels. */
  width: number
  height: number
  /** Degrees counterclockwise by which a player turns the pictures, from 0 to 359. */
  rotation: number
  /** Seconds from the start of the presentation to the end of the video; null when the container does not say. */
  videoSeconds: number | null
  audioSeconds: number | null
  /** The constant rate to encode at. */
  frameRate: Rational
  /** The average rate of the source. */
  averageFrameRate: number
  variableFrameRate: boolean
  hdr: 'smpte2084' | 'arib-std-b67' | null
  capturedAt: string | null
  camera: { make: string | null; model: string | null }
  location: { latitude: number; longitude: number } | null
}

export const LIMITS = {
  bytes: 10 * 1024 ** 3,
  seconds: 4 * 3600,
  side: 8192,
  pixels: 36_000_000,
  minSide: 16,
  /** Up to this long a video may have as few frames as it likes: a slide show, a still picture with a song. */
  sparseSeconds: 300,
  /** Beyond that: frames per second on average. */
  minFrameRate: 1,
}

const Tags = z.record(z.string(), z.string()).default({})
const Stream = z.object({
  index: z.int().nonnegative(),
  codec_type: z.string().optional(),
  codec_name: z.string().optional(),
  width: z.number().optional(),
  height: z.number().optional(),
  sample_aspect_ratio: z.string().optional(),
  pix_fmt: z.string().optional(),
  profile: z.string().optional(),
  level: z.number().optional(),
  field_order: z.string().optional(),
  r_frame_rate: z.string().optional(),
  avg_frame_rate: z.string().optional(),
  color_transfer: z.string().optional(),
  color_space: z.string().optional(),
  start_time: z.string().optional(),
  duration: z.string().optional(),
  nb_frames: z.string().optional(),
  channels: z.number().optional(),
  sample_rate: z.string().optional(),
  disposition: z.record(z.string(), z.number()).default({}),
  side_data_list: z
    .array(z.object({ rotation: z.number().optional(), displaymatrix: z.string().optional() }))
    .default([]),
  tags: Tags,
})
type Stream = z.infer<typeof Stream>
export const ProbeDocument = z.object({
  streams: z.array(Stream).max(64).default([]),
  format: z.object({ format_name: z.string(), start_time: z.string().optional(), tags: Tags }),
})
export type ProbeDocument = z.infer<typeof ProbeDocument>

/** Turns ffprobe's document into a Source, or refuses it with a reason that the uploader is shown. Pure. */
export function toSource(document: ProbeDocument): Source {
  const video = pickVideo(document.streams)
  const audio = pickAudio(document.streams)
  const origin = seconds(document.format.start_time) ?? 0
  const interlaced = ['tt', 'bb', 'tb', 'bt'].includes(video.field_order ?? '')
  const { rate, variable, average } = chooseFrameRate({
    base: video.r_frame_rate,
    average: video.avg_frame_rate,
    interlaced,
  })
  const tags = { ...document.format.tags, ...video.tags }
  const source: Source = {
    container: document.format.format_name.slice(0, 64),
    startSeconds: origin,
    video: {
      index: video.index,
      codec: video.codec_name ?? '',
      pixelFormat: video.pix_fmt ?? '',
      interlaced,
      colorSpace: video.color_space ?? null,
      frame: frameOf(video),
    },
    stream: {
      profile: video.profile ?? null,
      level: video.level ?? null,
      isMirrored: isMirrored(video),
      hasSquarePixels: toNumber(parseRational(video.sample_aspect_ratio) ?? rational(1)) === 1,
      startSeconds: startOf(video, origin),
    },
    audio: audio && {
      index: audio.index,
      codec: audio.codec_name ?? '',
      channels: audio.channels ?? 2,
      startSeconds: startOf(audio, origin),
    },
    ...displaySize(video),
    rotation: rotationOf(video),
    videoSeconds: endOf(video, origin),
    audioSeconds: audio ? endOf(audio, origin) : null,
    frameRate: rate,
    averageFrameRate: average,
    variableFrameRate: variable,
    hdr: video.color_transfer === 'smpte2084' || video.color_transfer === 'arib-std-b67' ? video.color_transfer : null,
    capturedAt: capturedAtOf(tags),
    camera: cameraOf(tags),
    location: locationOf(tags),
  }
  refuseAbsurd(source)
  return source
}

/** The first video stream that is not a cover picture, which ffmpeg also lists as video. */
function pickVideo(streams: readonly Stream[]): Stream {
  const isPicture = (s: Stream) => ['attached_pic', 'still_image', 'timed_thumbnails'].some((d) => s.disposition[d])
  const video = streams.find((s) => s.codec_type === 'video' && !isPicture(s))
  if (!video) throw badInput('NoVideoStream', 'The file holds no video')
  if (!(VIDEO_CODECS as readonly string[]).includes(video.codec_name ?? '')) {
    throw badInput('UnsupportedCodec', `Video in ${video.codec_name ?? 'an unknown format'} is not supported`)
  }
  if (!video.width || !video.height) throw badInput('CorruptInput', 'The video cannot be decoded')
  return video
}

/**
 * The first audio track that can be decoded: newer phones add a second track in a format that few decoders support.
 * Screen recorders leave empty tracks, which count as no audio; where the container does not tell, `probe` leaves them out.
 */
function pickAudio(streams: readonly Stream[]): Stream | null {
  const tracks = streams.filter(
    (s) => s.codec_type === 'audio' && Boolean(s.channels) && Number(s.sample_rate) > 0 && s.nb_frames !== '0',
  )
  const known = tracks.find((s) => (AUDIO_CODECS as readonly string[]).includes(s.codec_name ?? ''))
  if (!known && tracks[0]) {
    throw badInput('UnsupportedCodec', `Sound in ${tracks[0].codec_name ?? 'an unknown format'} is not supported`)
  }
  return known ?? null
}

/** Of the text of a display matrix: three rows, each behind its number and a colon. Its determinant is negative. */
function isMirror(matrix: string | undefined): boolean {
  const [[a = 1, b = 0] = [], [c = 0, d = 1] = []] = [...(matrix ?? '').matchAll(/:((?:\s+-?\d+){3})/g)].map(
    ([, row = '']) => row.trim().split(/\s+/).map(Number),
  )
  return a * d - b * c < 0
}

const isMirrored = (video: Stream) => video.side_data_list.some(({ displaymatrix }) => isMirror(displaymatrix))
const frameOf = (video: Stream) =>
  rotationOf(video) % 90 === 0 && !isMirrored(video) ? { width: video.width ?? 0, height: video.height ?? 0 } : null

const rotationOf = (video: Stream) => {
  const rotation = video.side_data_list.find((s) => s.rotation !== undefined)?.rotation ?? 0
  return ((Math.round(rotation) % 360) + 360) % 360
}

function displaySize(video: Stream): { width: number; height: number } {
  const aspect = parseRational(video.sample_aspect_ratio)
  const stretch = aspect ? toNumber(aspect) : 1
  // Only ever enlarges: a narrow pixel makes the picture taller instead of less wide, so that no pixel is lost.
  const wide = Math.round((video.width ?? 0) * Math.max(1, stretch))
  const high = Math.round((video.height ?? 0) * Math.max(1, 1 / stretch))
  return rotationOf(video) % 180 === 90 ? { width: high, height: wide } : { width: wide, height: high }
}

const seconds = (text: string | undefined): number | null => {
  const value = Number(text)
  return text !== undefined && Number.isFinite(value) ? value : null
}

const startOf = (stream: Stream, origin: number): number => (seconds(stream.start_time) ?? origin) - origin

/** Matroska has a track's duration in a tag, `00:00:04.000000000`; the container's duration is its longest track's. */
function endOf(stream: Stream, origin: number): number | null {
  const [, h, m, s] = /^(\d+):(\d+):(\d+(?:\.\d+)?)$/.exec(stream.tags['DURATION'] ?? '') ?? []
  const tagged = h === undefined ? null : Number(h) * 3600 + Number(m) * 60 + Number(s)
  const own = seconds(stream.duration)
  if (own !== null && own > 0) return startOf(stream, origin) + own
  return tagged !== null && tagged > 0 ? tagged - origin : null
}

function refuseAbsurd({ width, height, videoSeconds, audioSeconds }: Source): void {
  const limit = (message: string) => badInput('LimitExceeded', message)
  if (Math.max(width, height) > LIMITS.side || width * height > LIMITS.pixels) {
    throw limit(`The picture is ${width} x ${height}; at most ${LIMITS.side} a side is supported`)
  }
  if (Math.min(width, height) < LIMITS.minSide) {
    throw limit(`The picture is ${width} x ${height}; at least ${LIMITS.minSide} a side is needed`)
  }
  refuseTooLong(Math.max(videoSeconds ?? 0, audioSeconds ?? 0))
}

/**
 * The encoder repeats frames to fill the gaps of a source. Two frames four hours apart would cost as much as a movie, so a
 * long video must have a frame per second on average. Screen recordings with long still passages pass: they are short, or
 * something moves (a clock, a cursor).
 */
export function refuseSparse(frames: number, seconds: number): void {
  if (seconds <= LIMITS.sparseSeconds || frames >= LIMITS.minFrameRate * seconds) return
  const minutes = Math.round(seconds / 60)
  const message =
    `The video has ${frames} frames in ${minutes} minutes; longer than ${LIMITS.sparseSeconds / 60} minutes it needs at ` +
    `least ${LIMITS.minFrameRate} frame per second on average. Export it with a fixed frame rate and upload it again`
  throw badInput('LimitExceeded', message)
}

/** Refuses more than four hours. */
export function refuseTooLong(duration: number): void {
  if (duration > LIMITS.seconds) throw badInput('LimitExceeded', 'The video is longer than 4 hours')
}

/** The playing time: the video's duration, or the audio's when it is longer (the last frame is then held). */
export function presentationSeconds({
  videoSeconds,
  audioSeconds,
}: {
  videoSeconds: number
  audioSeconds: number | null
}): number {
  return audioSeconds !== null && audioSeconds > videoSeconds + 0.5 ? audioSeconds : videoSeconds
}
