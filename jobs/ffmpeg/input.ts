import { isAbsolute } from 'node:path'
import { AUDIO_CODECS } from '../../lib/contract/audio-codecs.ts'

/**
 * The formats an upload may have. A file called .mp4 may hold a playlist that names local files or internal network
 * addresses, so every ffmpeg call gets a whitelist of demuxers, decoders and protocols.
 */
export const VIDEO_CODECS = ['h264', 'hevc', 'vp8', 'vp9', 'av1', 'mpeg4', 'h263', 'mjpeg', 'prores'] as const

/** Decoders whose names differ from their codec's. ffmpeg opens covers and subtitles too; they are never used. */
const OTHER_DECODERS = [
  'libdav1d',
  'mp3float',
  'libopus',
  'amrnb',
  'amrwb',
  'png',
  'mov_text',
  'subrip',
  'ass',
  'webvtt',
]

const UPLOAD = {
  formats: 'mov,mp4,m4a,3gp,3g2,mj2,matroska,webm',
  codecs: [...VIDEO_CODECS, ...AUDIO_CODECS, ...OTHER_DECODERS].join(','),
}
/** The job's own output, read again for verification. */
const OWN = { formats: 'hls,mpegts', codecs: 'h264,aac' }
const OWN_HEVC = { formats: 'hls,mov,mp4,m4a,3gp,3g2,mj2', codecs: 'hevc' }
/** Sound that the job has decoded. */
const SOUND = { formats: 'nut', codecs: 'pcm_f32le' }
/** A music track: files of sound alone, whose cover pictures ffmpeg opens and nothing uses. */
const MUSIC = {
  formats: `mp3,flac,ogg,wav,w64,aiff,aac,${UPLOAD.formats}`,
  codecs: [...AUDIO_CODECS, ...OTHER_DECODERS, 'mjpeg'].join(','),
}
const ALLOWED = { upload: UPLOAD, own: OWN, ownHevc: OWN_HEVC, sound: SOUND, music: MUSIC }
export type InputKind = keyof typeof ALLOWED

/** The arguments that open one file and nothing else. Input options go between the whitelists and `-i`. */
export function guardedInput(kind: InputKind, path: string, options: readonly string[] = []): string[] {
  if (!isAbsolute(path)) throw new Error('ffmpeg is given absolute paths only')
  const allowed = ALLOWED[kind]
  return [
    '-protocol_whitelist',
    'file',
    '-format_whitelist',
    allowed.formats,
    '-codec_whitelist',
    allowed.codecs,
    ...options,
    '-i',
    `file:${path}`,
  ]
}
