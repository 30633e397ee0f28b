import { promisify } from 'node:util'
import type fluent from 'fluent-ffmpeg'
import { EXIT } from '../../lib/contract/job-result.ts'
import { TransientError } from '../runtime/failure.ts'
import { runTool } from '../runtime/tool-process.ts'

/**
 * The only adapter to ffmpeg. fluent-ffmpeg is archived and splits option strings on spaces, so it is used only to list
 * what the installed ffmpeg supports. Everything that touches an upload goes through argument arrays and `spawn`.
 */
/** The filters that the installed ffmpeg was built with. Asked when they are needed, until there is an answer. */
export function filters(): Promise<ReadonlySet<string>> {
  knownFilters ??= askFilters().catch((error: unknown) => {
    knownFilters = undefined
    throw new TransientError(EXIT.transient, 'ToolMissing', 'ffmpeg cannot be run on this machine', { cause: error })
  })
  return knownFilters
}

async function askFilters(): Promise<ReadonlySet<string>> {
  // Only HDR needs it: loading it takes a tenth of what Node needs to start this program.
  const { default: ffmpeg } = await import('fluent-ffmpeg')
  return new Set(Object.keys(await promisify<fluent.Filters>((done) => ffmpeg.getAvailableFilters(done))()))
}
let knownFilters: Promise<ReadonlySet<string>> | undefined

export interface Installed {
  /** The first line of `ffmpeg -version`, which names the release and the package. */
  version: string
  /** What it was built with; independent of the node's hardware. */
  encoders: ReadonlySet<string>
}

const INSTALLED_LIMIT_MS = 30_000

/** What the installed ffmpeg is: one process for both, as starting one costs more than its answer. Asked until there is an answer. */
export function installed(signal: AbortSignal): Promise<Installed> {
  known ??= askInstalled(signal).catch((error: unknown) => {
    known = undefined
    throw error
  })
  return known
}
let known: Promise<Installed> | undefined

async function askInstalled(signal: AbortSignal): Promise<Installed> {
  let version: string | undefined
  const encoders = new Set<string>()
  const run = { tool: 'ffmpeg', args: ['-encoders'], signal, limitMs: INSTALLED_LIMIT_MS } as const
  const code = await runTool({
    ...run,
    onStdoutLine(line) {
      const [, name] = /^ [VAS][A-Z.]{5} (\w\S*)/.exec(line) ?? []
      if (name) encoders.add(name)
    },
    // The banner.
    onStderrLine(line) {
      if (line.startsWith('ffmpeg version ')) version ??= line
    },
  })
  if (code === 0 && version && encoders.size > 0) return { version, encoders }
  throw new TransientError(EXIT.transient, 'ToolMissing', 'ffmpeg does not say what it is')
}

/** Upper bound of a single allocation: the largest picture allowed needs 424 MB in the widest format used. */
const MAX_ALLOC = String(512 * 1024 * 1024)
const TAIL_LINES = 30

export interface FfmpegProgress {
  /** Seconds of output so far; null until the first frame. */
  seconds: number | null
  frames: number
}

/** What ffmpeg reported even if it exited 0, as it does on corrupt and truncated input. */
export interface Complaints {
  /** Frames and packets of any stream that did not decode cleanly. */
  damaged: number
  /** The file is shorter than its container says. */
  endedEarly: boolean
  /** The last lines of stderr. */
  tail: string
}

/** ffmpeg exited with an error. The caller decides whether the input caused it. */
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
  /** Ends a run that reports nothing new for so long. */
  stallMs?: number
  onProgress?: (progress: FfmpegProgress) => void
}

/**
 * Runs ffmpeg; resolves with its complaints when it exits 0, else throws (FfmpegFailed, a TransientError when it stalled,
 * or what `runTool` throws).
 */
export async function runFfmpeg(run: FfmpegRun): Promise<Complaints> {
  const listener = complaintListener()
  const code = await runUnlessStalled(run, listener.onLine)
  const complaints = listener.complaints()
  if (code === 0) return complaints
  if (/No space left on device|Disk quota exceeded/.test(complaints.tail)) {
    throw new TransientError(EXIT.noSpace, 'NoSpace', 'There is no space left for the converted files')
  }
  throw new FfmpegFailed(code, complaints)
}

/**
 * The largest picture takes seconds, and the index of the largest upload minutes on a slow disk. An attempt may take a
 * day, and until an encoder that hangs ends, its video waits and its slot is taken.
 */
const STALL_MS = 1_800_000
const STALL_LOOKS = 30

async function runUnlessStalled(run: FfmpegRun, onStderrLine: (line: string) => void): Promise<number> {
  const stall = watchForStall(run.stallMs)
  try {
    return await runTool({
      tool: 'ffmpeg',
      args: [
        ...['-nostdin', '-hide_banner', '-y', '-v', 'repeat+level+warning', '-nostats'],
        ...['-progress', 'pipe:1', '-stats_period', '0.5', '-max_alloc', MAX_ALLOC],
        ...run.args,
      ],
      signal: AbortSignal.any([run.signal, stall.signal]),
      limitMs: run.limitMs,
      onStdoutLine: progressParser((progress) => {
        stall.saw(progress)
        run.onProgress?.(progress)
      }),
      onStderrLine,
    })
  } finally {
    stall.end()
  }
}

function watchForStall(stallMs = STALL_MS) {
  const stop = new AbortController()
  const { saw, isStalled } = stallCounter()
  const timer = setInterval(() => {
    if (isStalled()) stop.abort(stalled(stallMs))
  }, stallMs / STALL_LOOKS)
  return { signal: stop.signal, saw, end: () => clearInterval(timer) }
}

/** Counts looks and not time: for a pod whose node was frozen, time goes on while nothing can move. */
export function stallCounter(limit = STALL_LOOKS) {
  let [last, looks] = ['', 0]
  return {
    saw({ seconds, frames }: FfmpegProgress): void {
      const now = `${seconds} ${frames}`
      if (now !== last) looks = 0
      last = now
    },
    /** Called at each look. */
    isStalled(): boolean {
      looks += 1
      return looks >= limit
    },
  }
}

const stalled = (stallMs: number) =>
  new TransientError(EXIT.transient, 'Stalled', `ffmpeg made no progress for ${Math.round(stallMs / 1000)} s`)

/** Counted per line, which is why the log level has `repeat`: by default ffmpeg folds equal lines into one. */
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

/** `-progress` prints key=value lines and ends each report with progress=…. Its out_time_ms is in microseconds. */
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
  /** Called per line, because the packets of a four-hour video would not fit in memory. */
  onLine: (line: string) => void
}

/** Runs ffprobe; returns its exit code and the last lines of stderr. */
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
