import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import * as z from 'zod'
import { AUDIO_CODECS } from '../../../lib/contract/audio-codecs.ts'
import { Problem } from '../../../lib/contract/problem.ts'

/** ffprobe's names of the containers that browsers play. */
const TYPES: Record<string, string> = {
  mp3: 'audio/mpeg',
  'mov,mp4,m4a,3gp,3g2,mj2': 'audio/mp4',
  ogg: 'audio/ogg',
  flac: 'audio/flac',
  wav: 'audio/wav',
}
const MAX_SECONDS = 3600

const Probed = z.object({
  format: z.object({ format_name: z.string(), duration: z.coerce.number() }),
  streams: z.array(z.object({ codec_type: z.string(), codec_name: z.string().optional() })),
})

export interface Audio {
  mimeType: string
  durationSec: number
}

/** What kind of audio a file is. Throws Problem unless browsers play it and jobs decode it, of a second to an hour. */
export async function probeAudio(path: string): Promise<Audio> {
  const { format, streams } = await runFfprobe(path)
  const mimeType = Object.hasOwn(TYPES, format.format_name) ? TYPES[format.format_name] : undefined
  // Highlights play the first one.
  const sound = streams.find((stream) => stream.codec_type === 'audio')
  if (!mimeType || !sound) throw refusal('is no MP3, M4A, Ogg, FLAC or WAV file')
  if (!(AUDIO_CODECS as readonly string[]).includes(sound.codec_name ?? '')) {
    throw refusal(`has sound in ${sound.codec_name ?? 'an unknown format'}, which highlights cannot use`)
  }
  if (!(format.duration >= 1 && format.duration <= MAX_SECONDS)) {
    throw refusal('must be between a second and an hour long')
  }
  return { mimeType, durationSec: format.duration }
}

const refusal = (issue: string, cause?: unknown) =>
  new Problem('UNSUPPORTED_MEDIA', `The file ${issue}`, cause === undefined ? {} : { cause })

async function runFfprobe(path: string): Promise<z.output<typeof Probed>> {
  const entries = 'format=format_name,duration:stream=codec_type,codec_name'
  // The prefix: a path that looks like an option or an address is a file all the same.
  const args = ['-v', 'error', '-protocol_whitelist', 'file', '-show_entries', entries, '-of', 'json', `file:${path}`]
  try {
    const { stdout } = await promisify(execFile)('ffprobe', args, { timeout: 30_000, maxBuffer: 2 ** 20 })
    return Probed.parse(JSON.parse(stdout))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw error
    throw refusal('is no audio file that ffprobe understands', error)
  }
}
