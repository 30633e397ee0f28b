import { presentationSeconds } from '../ffmpeg/source.ts'
import { steadyInput } from '../ffmpeg/steady.ts'
import { decoderThreads, encoderThreads, filterThreads } from '../ffmpeg/threads.ts'
import {
  AUDIO_BITRATE,
  AUDIO_NAME,
  AUDIO_RATE,
  decodesOnGpu,
  type EncodePass,
  isSteady,
  type Preset,
} from './encode-pass.ts'
import { filterGraph, soundGraph } from './filter-graph.ts'
import type { Rendition } from './ladder.ts'
import { type PassPart, windowOf } from './pass-window.ts'
import { keyframeExpression, longestGop, type Timeline } from './timeline.ts'

/** Encoding stops this long after the declared end, so that a file that claims 10 s but holds an hour is refused. */
const OVERRUN_SECONDS = 5

/**
 * The arguments of a pass, without those that `runFfmpeg` adds; `input` makes those that open the source. Every process
 * gets the same constant time stamp offset: without it ffmpeg shifts each output by its own reordering delay, and the
 * renditions no longer line up.
 */
export function passArguments(pass: EncodePass, input: (options: string[]) => string[], folder: string): string[] {
  if (pass.copiesVideo) return copyArguments(pass, input, folder)
  const { source, renditions } = pass
  const sound = soundGraph(pass)
  return [
    ...input(inputOptions(pass)),
    ...['-filter_complex_threads', String(filterThreads(pass.cores)), '-filter_complex', filterGraph(pass)],
    ...(sound === undefined ? [] : ['-filter_complex', sound]),
    ...renditions.flatMap((_, i) => ['-map', `[v${i}]`]),
    ...(sound === undefined ? [] : ['-map', '[a0]']),
    ...NO_METADATA,
    ...renditions.flatMap((rendition, i) => videoOptions(pass, rendition, i)),
    ...['-fps_mode', 'passthrough', '-max_muxing_queue_size', '4096'],
    ...(sound === undefined ? [] : SOUND_OPTIONS),
    ...['-t', (presentationSeconds(source) + OVERRUN_SECONDS).toFixed(3)],
    ...(pass.part ? partOptions(pass, pass.part, folder) : hlsOptions(streamsOf(pass), pass.timeline, folder)),
  ]
}

/** No metadata of the upload may reach the outputs: it can hold the place where the uploader lives. */
const NO_METADATA = ['-map_metadata', '-1', '-map_chapters', '-1', '-sn', '-dn']

/** Slices and parameter sets: cameras write places, names and serial numbers into the messages (SEI) between them. */
const PICTURES_ONLY = 'filter_units=pass_types=1-5|7-8'

function copyArguments(pass: EncodePass, input: (options: string[]) => string[], folder: string): string[] {
  const sound = soundGraph(pass)
  const video = pass.renditions.length > 0
  return [
    ...input(['-threads', '1']),
    ...(sound === undefined ? [] : ['-filter_complex', sound]),
    ...(video ? ['-map', `0:${pass.source.video.index}`] : []),
    ...(sound === undefined ? [] : ['-map', '[a0]']),
    ...NO_METADATA,
    // The first says nothing about a stream that is not encoded.
    ...(video ? ['-map_metadata:s:v', '-1', '-c:v', 'copy', '-bsf:v', PICTURES_ONLY] : []),
    ...['-max_muxing_queue_size', '4096'],
    ...(sound === undefined ? [] : SOUND_OPTIONS),
    ...['-t', (presentationSeconds(pass.source) + OVERRUN_SECONDS).toFixed(3)],
    ...hlsOptions(streamsOf(pass), pass.timeline, folder),
  ]
}

/**
 * The same of HEVC: slices and the ends of sequences. `hvc1` has its parameter sets in the initialization alone: a stream
 * that needs other ones later must not decode.
 */
const HEVC_PICTURES_ONLY = 'filter_units=pass_types=0-9|16-21|36-37'

/** The time stamp of the first frame of all other renditions, to whose offset the muxer of MPEG-TS adds its own delay. */
const FIRST_STAMP = 11.4

/**
 * The arguments that cut the HEVC of a source into fragments of MP4, without sound: `<name>_00000.m4s` and so on, and
 * `<name>_init.mp4`. Time stamps are those of the other renditions, and absolute: no list of edits moves them.
 */
export const hevcArguments = (
  source: EncodePass['source'],
  { rendition: { name }, segmentSeconds }: { rendition: Rendition; segmentSeconds: number },
  input: (options: string[]) => string[],
  folder: string,
): string[] => [
  ...[...input(['-threads', '1']), '-map', `0:${source.video.index}`, ...NO_METADATA, '-map_metadata:s:v', '-1'],
  ...['-c:v', 'copy', '-tag:v', 'hvc1', '-bsf:v', HEVC_PICTURES_ONLY],
  ...['-t', (presentationSeconds(source) + OVERRUN_SECONDS).toFixed(3)],
  ...['-output_ts_offset', String(FIRST_STAMP), '-f', 'hls', '-hls_time', String(segmentSeconds)],
  ...['-hls_playlist_type', 'event', '-hls_flags', 'independent_segments+temp_file', '-hls_segment_type', 'fmp4'],
  ...['-hls_segment_options', 'movflags=+frag_discont:use_editlist=0:avoid_negative_ts=disabled'],
  ...['-hls_fmp4_init_filename', `${name}_init.mp4`],
  ...['-hls_segment_filename', `${folder}/${name}_%05d.m4s`, `${folder}/${name}.m3u8`],
]

export const AUDIO_OPTIONS = ['-c:a', 'aac', '-b:a', String(AUDIO_BITRATE), '-ac', '2', '-ar', String(AUDIO_RATE)]

/** A graph of sound that ffmpeg builds anew near the beginning begins with silence that has been encoded already. */
const ONLY_FORWARD = "noise=drop='if(gt(n,0)*lte(pts,ld(0)),1,st(0,pts)*0)'"
const SOUND_OPTIONS = [...AUDIO_OPTIONS, '-bsf:a', ONLY_FORWARD]

function inputOptions(pass: EncodePass): string[] {
  const window = pass.part ? windowOptions(pass, pass.part) : []
  if (decodesOnGpu(pass)) return ['-hwaccel', 'cuda', '-hwaccel_output_format', 'cuda', '-threads', '1', ...window]
  // Beside a copy every damaged frame counts. Of several threads, those of ffmpeg 5.1 tell of one in five.
  const threads = ['-threads', String(pass.timeline.starts ? 1 : decoderThreads(pass.cores, pass.source))]
  return [...threads, ...(isSteady(pass) ? steadyInput(pass.source) : []), ...window]
}

function windowOptions({ source, timeline }: EncodePass, part: PassPart): string[] {
  const { seekSeconds, readSeconds } = windowOf(source, timeline, part)
  return [
    ...(seekSeconds > 0 ? ['-ss', seekSeconds.toFixed(6)] : []),
    ...(readSeconds === undefined ? [] : ['-t', readSeconds.toFixed(6)]),
  ]
}

function videoOptions(pass: EncodePass, rendition: Rendition, i: number): string[] {
  const gop = longestGop(pass.timeline, rendition.frameRate)
  return [
    ...(pass.accelerator === 'gpu' ? nvencOptions(i) : x264Options(pass, gop, i, { lookahead: LOOKAHEAD })),
    ...[`-maxrate:v:${i}`, String(rendition.maxrate), `-bufsize:v:${i}`, String(rendition.bufsize)],
    ...[
      `-force_key_frames:v:${i}`,
      keyframeExpression(pass.timeline, rendition.frameRate, pass.part?.firstSegment ?? 0),
    ],
    // Longer than the longest GOP, so that the encoder adds no keyframes to the forced ones.
    ...[`-g:v:${i}`, String(2 * gop + 2)],
  ]
}

interface X264Tuning {
  /** Frames that the encoder looks ahead, all of which it holds; unset: as many as its preset. */
  lookahead?: number
  /** `key=value`, for x264 itself. */
  params?: readonly string[]
}

/**
 * The encoder of stream `i` of an output; `gop` is the largest number of frames between two forced keyframes. No other
 * option of that output may be `-x264-params`: ffmpeg takes the last one, and forgets those before.
 */
export const x264Options = (
  { preset, cores }: { preset: Preset; cores: number },
  gop: number,
  i: number,
  tuning: X264Tuning = {},
): string[] => [
  ...[`-c:v:${i}`, 'libx264', `-preset:v:${i}`, preset, `-profile:v:${i}`, 'high'],
  ...qualityOptions(preset, i, tuning),
  // ffmpeg waits for an encoder of one thread before it goes on to the next one.
  ...[`-threads:v:${i}`, String(encoderThreads(cores))],
  // With this minimum, x264 codes scene cuts as I frames that are not keyframes.
  ...[`-keyint_min:v:${i}`, String(gop + 1)],
]

const LOOKAHEAD = 40

/** The preset that is used, tuned: at the bits of its own settings, the pictures are closer to the source (docs/adr/0067). */
function qualityOptions(preset: Preset, i: number, { lookahead, params = [] }: X264Tuning): string[] {
  const isTuned = preset === 'veryfast'
  const ahead = lookahead === undefined ? [] : [`rc-lookahead=${lookahead}`]
  const all = [...(isTuned ? ['trellis=1', 'qcomp=0.7', ...ahead] : []), ...params]
  return [`-crf:v:${i}`, isTuned ? '24.6' : '23', ...(all.length === 0 ? [] : [`-x264-params:v:${i}`, all.join(':')])]
}

const nvencOptions = (i: number): string[] => [
  ...[`-c:v:${i}`, 'h264_nvenc', `-preset:v:${i}`, 'p4', `-tune:v:${i}`, 'hq', `-profile:v:${i}`, 'high'],
  ...[`-rc:v:${i}`, 'vbr', `-cq:v:${i}`, '23', `-b:v:${i}`, '0'],
  ...[`-forced-idr:v:${i}`, '1', `-no-scenecut:v:${i}`, '1'],
]

const streamsOf = ({ renditions, withAudio }: EncodePass): string[] => [
  ...renditions.map((r, i) => `v:${i},name:${r.name}`),
  ...(withAudio ? [AUDIO_STREAM] : []),
]
export const AUDIO_STREAM = `a:0,name:${AUDIO_NAME}`

/**
 * The same for a part: its segments are numbered and stamped as in the whole video. Its own beginning may be rounded up by
 * a frame and its segments may not, so the muxer looks for the next keyframe a little earlier; there is none in between.
 */
function partOptions(pass: EncodePass, part: PassPart, folder: string): string[] {
  const { source, timeline } = pass
  const { num, den } = timeline.grid
  return [
    ...['-output_ts_offset', (STAMP_OFFSET + windowOf(source, timeline, part).startSeconds).toFixed(6)],
    ...['-f', 'hls', '-hls_time', (timeline.segmentSeconds - (1.5 * den) / num).toFixed(6)],
    ...['-hls_playlist_type', 'event', '-start_number', String(part.firstSegment)],
    ...['-hls_flags', 'independent_segments+temp_file', '-var_stream_map', streamsOf(pass).join(' ')],
    // Its packets are numbered anew, which decoders would take for a loss.
    ...['-hls_segment_options', 'mpegts_flags=initial_discontinuity'],
    ...['-hls_segment_filename', `${folder}/%v${part.tag}_%05d.ts`, `${folder}/%v.m3u8`],
  ]
}

/** Seconds; see `passArguments`. */
export const STAMP_OFFSET = 10

/**
 * Cuts the streams into segments and lists them: `<name>_00000.ts` and so on, and `<name>.m3u8`. Segments that begin at
 * the keyframes of a copied stream have names of their own, `<name>c_00000.ts`: an attempt may copy where another has
 * encoded, and players keep segments that they have by their names.
 */
export const hlsOptions = (
  streams: readonly string[],
  { segmentSeconds, starts }: Pick<Timeline, 'segmentSeconds' | 'starts'>,
  folder: string,
): string[] => [
  ...[
    '-output_ts_offset',
    String(STAMP_OFFSET),
    '-f',
    'hls',
    '-hls_time',
    String(segmentSeconds),
    '-hls_playlist_type',
    'event',
  ],
  // With temp_file a segment gets its final name only when it is complete, because the publisher reads the folder
  // while ffmpeg writes to it.
  ...['-hls_flags', 'independent_segments+temp_file', '-var_stream_map', streams.join(' ')],
  ...['-hls_segment_filename', `${folder}/%v${starts ? 'c' : ''}_%05d.ts`, `${folder}/%v.m3u8`],
]
