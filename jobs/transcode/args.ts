import {
  AUDIO_BITRATE,
  AUDIO_NAME,
  AUDIO_RATE,
  decodesOnGpu,
  type EncodePass,
  presentationSeconds,
} from './encode-pass.ts'
import { filterGraph } from './filter-graph.ts'
import type { Rendition } from './ladder.ts'
import { keyframeExpression, longestGop } from './timeline.ts'

/** More than any honest file needs: what claims 10 s and holds an hour is found out instead of encoded. */
const OVERRUN_SECONDS = 5

/**
 * All arguments of a pass but those of the input and of the door. Every process gets the same constant time stamp
 * offset: without one ffmpeg shifts each output by its own reordering delay, and renditions no longer line up.
 */
export function passArguments(pass: EncodePass, input: (options: string[]) => string[], folder: string): string[] {
  const { source, renditions, withAudio } = pass
  return [
    ...input(inputOptions(pass)),
    ...['-filter_complex_threads', String(pass.threads), '-filter_complex', filterGraph(pass)],
    ...renditions.flatMap((_, i) => ['-map', `[v${i}]`]),
    ...(withAudio ? ['-map', '[a0]'] : []),
    // Nothing of the upload's metadata may reach the outputs: it holds where people live.
    ...['-map_metadata', '-1', '-map_chapters', '-1', '-sn', '-dn'],
    ...renditions.flatMap((rendition, i) => videoOptions(pass, rendition, i)),
    ...['-fps_mode', 'passthrough', '-max_muxing_queue_size', '4096'],
    ...(withAudio ? ['-c:a', 'aac', '-b:a', String(AUDIO_BITRATE), '-ac', '2', '-ar', String(AUDIO_RATE)] : []),
    ...['-t', (presentationSeconds(source) + OVERRUN_SECONDS).toFixed(3), '-output_ts_offset', '10'],
    ...hlsOptions(pass, folder),
  ]
}

const inputOptions = (pass: EncodePass): string[] =>
  decodesOnGpu(pass)
    ? ['-hwaccel', 'cuda', '-hwaccel_output_format', 'cuda', '-threads', '1']
    : ['-threads', String(pass.threads)]

function videoOptions(pass: EncodePass, rendition: Rendition, i: number): string[] {
  const gop = longestGop(pass.timeline, rendition.frameRate)
  return [
    ...(pass.accelerator === 'gpu' ? nvencOptions(i) : x264Options(pass, gop, i)),
    ...[`-maxrate:v:${i}`, String(rendition.maxrate), `-bufsize:v:${i}`, String(rendition.bufsize)],
    ...[`-force_key_frames:v:${i}`, keyframeExpression(pass.timeline, rendition.frameRate)],
    // Longer than the longest GOP, so that only the forced keyframes exist.
    ...[`-g:v:${i}`, String(2 * gop + 2)],
  ]
}

function x264Options({ preset, threads, renditions }: EncodePass, gop: number, i: number): string[] {
  // The encoders of a ladder run beside each other; on few cores more threads each cost 7 % CPU and 24 % memory.
  const own = threads <= renditions.length ? 1 : threads
  return [
    ...[`-c:v:${i}`, 'libx264', `-preset:v:${i}`, preset, `-profile:v:${i}`, 'high', `-crf:v:${i}`, '23'],
    // Scene cuts get I frames that are no keyframes.
    ...[`-threads:v:${i}`, String(own), `-keyint_min:v:${i}`, String(gop + 1)],
  ]
}

const nvencOptions = (i: number): string[] => [
  ...[`-c:v:${i}`, 'h264_nvenc', `-preset:v:${i}`, 'p4', `-tune:v:${i}`, 'hq', `-profile:v:${i}`, 'high'],
  ...[`-rc:v:${i}`, 'vbr', `-cq:v:${i}`, '23', `-b:v:${i}`, '0'],
  ...[`-forced-idr:v:${i}`, '1', `-no-scenecut:v:${i}`, '1'],
]

function hlsOptions({ renditions, withAudio, timeline }: EncodePass, folder: string): string[] {
  const streams = renditions.map((r, i) => `v:${i},name:${r.name}`)
  if (withAudio) streams.push(`a:0,name:${AUDIO_NAME}`)
  return [
    ...['-f', 'hls', '-hls_time', String(timeline.segmentSeconds), '-hls_playlist_type', 'event'],
    // Files appear under their names when they are complete: the publisher reads along.
    ...['-hls_flags', 'independent_segments+temp_file', '-var_stream_map', streams.join(' ')],
    ...['-hls_segment_filename', `${folder}/%v_%05d.ts`, `${folder}/%v.m3u8`],
  ]
}
