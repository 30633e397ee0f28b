import { promisify } from 'node:util'
import fluent from 'fluent-ffmpeg'
import { EXIT } from '../lib/contract/job-result.ts'
import { TransientError } from './failure.ts'
import { runTool } from './ffmpeg-process.ts'

/**
 * The one door to ffmpeg. fluent-ffmpeg is archived and splits option strings on spaces, so it only answers what this
 * machine's ffmpeg is able to do. Everything that touches an upload goes through argument arrays and `spawn`.
 */
export interface Capabilities {
  encoders: ReadonlySet<string>
  filters: ReadonlySet<string>
}

let known: Promise<Capabilities> | undefined

/** What this machine's ffmpeg was built with. Says nothing about its hardware. */
export function capabilities(): Promise<Capabilities> {
  known ??= Promise.all([
    promisify<fluent.Encoders>((done) => fluent.getAvailableEncoders(done))(),
    promisify<fluent.Filters>((done) => fluent.getAvailableFilters(done))(),
  ]).then(
    ([encoders, filters]) => ({ encoders: new Set(Object.keys(encoders)), filters: new Set(Object.keys(filters)) }),
    (error: unknown) => {
      known = undefined
      throw new TransientError(EXIT.transient, 'ToolMissing', 'ffmpeg cannot be run on this machine', { cause: error })
    },
  )
  return known
}

/** A single allocation above this is an attack: the largest picture allowed needs 424 MB in the widest format used. */
const MAX_ALLOC = String(512 * 1024 * 1024)
const TAIL_LINES = 30

export interface FfmpegProgress {
  /** Seconds of output so far; null until the first frame. */
  seconds: number | null
  frames: number
}

/** What ffmpeg complained about though it ended well: it exits 0 on corrupt and truncated input. */
export interface Complaints {
  /** Frames and packets of any stream that did not decode cleanly. */
  damaged: number
  /** The file ended before the container said so. */
  endedEarly: boolean
  /** The last lines of stderr. */
  tail: string
}

/** ffmpeg ended with an error. Whose fault it is, only the caller can tell. */
export class FfmpegFailed extends Error {
  override readonly name = 'FfmpegFailed'
  readonly exitCode: number
  readonly complaints: Complaints
  constructor(exitCode: number, complaints: Complaints) {
    super(`ffmpeg ended with ${exitCode}: ${complaints.tail.slice(-400)}`)
    this.exitCode = exitCode
    this.complaints = complaints
  }
}

export interface FfmpegRun {
  args: readonly string[]
  signal: AbortSignal
  limitMs: number
  onProgress?: (progress: FfmpegProgress) => void
}

/** Runs ffmpeg; resolves with its complaints when it exits 0, else throws (FfmpegFailed, or what `runTool` throws). */
export async function runFfmpeg(run: FfmpegRun): Promise<Complaints> {
  const listener = complaintListener()
  const code = await runTool({
    tool: 'ffmpeg',
    args: [
      ...['-nostdin', '-hide_banner', '-y', '-v', 'repeat+level+warning', '-nostats'],
      ...['-progress', 'pipe:1', '-stats_period', '0.5', '-max_alloc', MAX_ALLOC],
      ...run.args,
    ],
    signal: run.signal,
    limitMs: run.limitMs,
    onStdoutLine: progressParser(run.onProgress),
    onStderrLine: listener.onLine,
  })
  const complaints = listener.complaints()
  if (code === 0) return complaints
  if (/No space left on device|Disk quota exceeded/.test(complaints.tail)) {
    throw new TransientError(EXIT.noSpace, 'NoSpace', 'There is no space left for the converted files')
  }
  throw new FfmpegFailed(code, complaints)
}

/** Counted line by line, hence `repeat`: by default ffmpeg folds equal lines into one. */
const DAMAGE = /corrupt decoded frame|Error while decoding stream|Error submitting packet to decoder/
const ENDED_EARLY = /partial file|File ended prematurely|moov atom not found/

function complaintListener() {
  let damaged = 0
  let endedEarly = false
  const tail: string[] = []
  return {
    onLine(line: string) {
      if (DAMAGE.test(line)) damaged += 1
      if (ENDED_EARLY.test(line)) endedEarly = true
      if (tail.push(line.slice(0, 300)) > TAIL_LINES) tail.shift()
    },
    complaints: (): Complaints => ({ damaged, endedEarly, tail: tail.join('\n') }),
  }
}

/** `-progress` prints key=value lines and ends each report with progress=…; out_time_ms is in fact microseconds. */
export function progressParser(onProgress: FfmpegRun['onProgress']): (line: string) => void {
  let seconds: number | null = null
  let frames = 0
  return (line) => {
    const [key, value = ''] = line.split('=', 2)
    if (key === 'out_time_us') seconds = /^\d+$/.test(value) ? Number(value) / 1e6 : seconds
    else if (key === 'frame') frames = Number(value) || frames
    else if (key === 'progress') onProgress?.({ seconds, frames })
  }
}

export interface ProbeRun {
  args: readonly string[]
  signal: AbortSignal
  limitMs: number
  /** Given line by line, since the packets of four hours do not belong in memory. */
  onLine: (line: string) => void
}

/** Runs ffprobe; returns its exit code and the end of what it complained about. */
export async function runFfprobe(run: ProbeRun): Promise<{ code: number; complaints: string }> {
  const listener = complaintListener()
  const code = await runTool({
    tool: 'ffprobe',
    args: ['-hide_banner', '-v', 'level+error', '-max_alloc', MAX_ALLOC, ...run.args],
    signal: run.signal,
    limitMs: run.limitMs,
    onStdoutLine: run.onLine,
    onStderrLine: listener.onLine,
  })
  return { code, complaints: listener.complaints().tail }
}
