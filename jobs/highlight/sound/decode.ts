import { rm, stat } from 'node:fs/promises'
import { FfmpegFailed, runFfmpeg } from '../../ffmpeg/ffmpeg.ts'
import { guardedInput, type InputKind } from '../../ffmpeg/input.ts'
import { explainDecoding } from '../../hls/run-encode-pass.ts'
import type { PermanentError } from '../../runtime/failure.ts'
import { ToolCrashed } from '../../runtime/tool-process.ts'
import type { Loudness } from './levelling.ts'
import { measuring, readLoudness } from './measure.ts'
import { CHANNELS, RATE } from './pcm.ts'

export interface DecodeRun {
  kind: InputKind
  path: string
  /** A stream of ffmpeg, such as `0:1` or `0:a:0`. */
  stream: string
  /** Seconds from the start of the presentation. */
  startSec: number
  /** The most sample frames to decode. */
  count: number
  /** Takes raw 32-bit floats. */
  out: string
  signal: AbortSignal
  /** The error that blames the file. */
  refusal: (cause: Error) => PermanentError
}

/** Decoders of AAC and Opus need the packets before the first one that is heard. */
const PRE_ROLL_SECONDS = 1
/** Reading goes on this far beyond the end: packets of sound may lie behind the picture that they belong to. */
const OVERRUN_SECONDS = 2
const LIMIT_MS = 600_000
const FLOAT_BYTES = 4
/** Sample frames that the meter looks at together. */
const STEP = RATE / 10
/** The file is in a format that is not permitted, is no such file at all, or holds no sound. */
const UNSUITABLE = /not on whitelist|file:.*: Invalid argument|matches no streams/

/**
 * Decodes a part of one stream to stereo at 48 kHz and measures it. Sample 0 is at `startSec` of the presentation even
 * when the stream begins later; the file ends where the sound does. Throws the refusal when the file cannot be decoded, and
 * a TransientError when ffmpeg fails for another reason.
 */
export async function decode({
  kind,
  path,
  stream,
  startSec,
  count,
  out,
  signal,
  refusal,
}: DecodeRun): Promise<Loudness> {
  const seekTo = Math.max(0, startSec - PRE_ROLL_SECONDS)
  const seconds = startSec - seekTo + count / RATE + OVERRUN_SECONDS
  const seek = seekTo > 0 ? ['-ss', seekTo.toFixed(6)] : []
  const first = Math.round((startSec - seekTo) * RATE)
  const [report, steady] = [`${out}.loudness`, `${out}.nut`]
  const part = guardedInput(kind, path, ['-threads', '1', ...seek, '-t', seconds.toFixed(6)])
  const run = { first, count, out, report, signal }
  try {
    const loudness = await fill({ ...run, args: [...part, '-map', stream] })
    if (!(await hasBegunAnew(out, loudness))) return loudness
    await steadySound([...part, '-map', stream], steady, signal)
    // Without `-copyts` ffmpeg moves sound that begins late to the start of the file.
    return await fill({ ...run, args: ['-copyts', ...guardedInput('sound', steady)] })
  } catch (error) {
    throw explain(error, refusal)
  } finally {
    await rm(report, { force: true })
    await rm(steady, { force: true })
  }
}

const ONLY_SOUND = ['-vn', '-sn', '-dn', '-filter_threads', '1']
const STEREO = 'aformat=sample_fmts=flt:channel_layouts=stereo'

interface Filling extends Pick<DecodeRun, 'count' | 'out' | 'signal'> {
  /** Open the input and map its sound. */
  args: readonly string[]
  /** The sample frame of the input that becomes the first one. */
  first: number
  report: string
}

async function fill({ args, first, count, out, report, signal }: Filling): Promise<Loudness> {
  const filters = [
    // Fills gaps of 50 ms and more, where clicks cannot be avoided. Follows a clock that runs too fast or slow by
    // resampling 0.4 % at most, which is not heard. At 48 kHz ffmpeg has no resampler unless `flags=res` asks for it: made
    // midway, it would begin with silence again.
    `aresample=${RATE}:async=1:max_soft_comp=0.004:min_hard_comp=0.05:flags=res:first_pts=0`,
    `atrim=start_sample=${first}:end_sample=${first + count}`,
    'asetpts=PTS-STARTPTS',
    STEREO,
    measuring(report),
  ]
  const to = ['-af', filters.join(','), '-c:a', 'pcm_f32le', '-f', 'f32le', out]
  await runFfmpeg({ args: [...args, ...ONLY_SOUND, ...to], signal, limitMs: LIMIT_MS })
  return readLoudness(report)
}

/**
 * Whether the sound has changed its channels midway. ffmpeg then builds the filters anew: they begin again at 0, behind
 * what they have put out before, and with a new report. Steps are compared because the report does not have the length of
 * the last, shorter one. A change in the first tenth of a second may be missed: the sound is then late by less than that.
 */
const hasBegunAnew = async (out: string, { momentary }: Loudness): Promise<boolean> =>
  (await stat(out)).size / (CHANNELS * FLOAT_BYTES) >= (momentary.length + 1) * STEP

/** Decodes the sound to one format, as it is: with its times and its gaps. */
async function steadySound(args: readonly string[], out: string, signal: AbortSignal): Promise<void> {
  const filters = `aresample=${RATE},${STEREO},atrim=start=0`
  const to = ['-af', filters, '-c:a', 'pcm_f32le', '-f', 'nut', out]
  await runFfmpeg({ args: [...args, ...ONLY_SOUND, ...to], signal, limitMs: LIMIT_MS })
}

function explain(error: unknown, refusal: DecodeRun['refusal']): unknown {
  if (error instanceof ToolCrashed && error.isFault) return refusal(error)
  if (!(error instanceof FfmpegFailed)) return error
  return UNSUITABLE.test(error.complaints.tail) ? refusal(error) : explainDecoding(error, refusal)
}
