import { type DestinationStream, type Logger, pino } from 'pino'
import { loggable, safeMessage } from './log-error.ts'

export type Log = Logger

/** `/d/{token}/…`, `/q/{token}/…` and `/u/{token}` are bearer credentials: a log that holds one can be replayed. */
export const redactUrl = (url: string) =>
  url
    .replace(/\/([dqu])\/[^/?#]+/g, '/$1/[redacted]')
    .replace(/([?&#](?:X-Amz-[A-Za-z-]+|token|code|t)=)[^&#]*/g, '$1[redacted]')

const SECRET_FIELDS = [
  'authorization',
  'cookie',
  'password',
  'access_token',
  'refresh_token',
  'id_token',
  'client_secret',
  'token',
]
const paths = SECRET_FIELDS.flatMap((f) => [f, `*.${f}`, `*.*.${f}`, `*.*.*.${f}`])

export interface LogOptions {
  program: string
  /** Its number, where a program has several processes. */
  process?: number
  level?: string
  /** 1, standard output, when left out. */
  fd?: number
  /** In place of a file descriptor. */
  to?: DestinationStream
  /** In place of a file descriptor: gets the lines of one turn of the event loop together. */
  toInTurns?: DestinationStream
  /** Whether other processes write to the same file descriptor, which may be a pipe. */
  isShared?: boolean
}

/**
 * JSON lines on stdout (or a given file descriptor). Replaces fields named like a credential and the token of a signed
 * link under `url`. An error under `err` keeps its stack and loses what it quotes (log-error.ts).
 */
export function openLog(options: LogOptions): Log {
  return pino(
    {
      level: options.level ?? 'info',
      base: { program: options.program, ...(options.process && { process: options.process }) },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths, censor: '[redacted]' },
      serializers: { err: loggable, url: redactUrl },
      hooks: {
        // Without a text of its own a line takes the error's.
        logMethod(given, method) {
          const [first, text] = given as [unknown, string | undefined]
          const error = first instanceof Error ? first : (first as { err?: unknown } | undefined)?.err
          if (text === undefined && error)
            method.call(this, first === error ? { err: error } : given[0], safeMessage(error))
          else method.apply(this, given)
        },
      },
    },
    options.to ??
      oncePerTurn(
        options.toInTurns ?? pino.destination({ fd: options.fd ?? 1, sync: true }),
        options.isShared ? PIPE_BYTES : Number.POSITIVE_INFINITY,
      ),
  )
}

const WARN = 40
/** A write of more bytes to a full pipe may have those of another process in its middle: PIPE_BUF of Linux. */
const PIPE_BYTES = 4096
/** The lines of each log that the current turn has not written yet. */
const unwritten = new Set<() => void>()
process.on('exit', writeLogs)

/** Writes what the current turn has logged. To be called before a file descriptor of a log is closed. */
export function writeLogs(): void {
  for (const write of unwritten) write()
}

/**
 * Writes the lines of one turn of the event loop together: one system call for each request would be a tenth of its
 * cost. A line of `warn` or above is written at once, after those before it. A process killed with SIGKILL loses at most
 * the `info` lines of its last turn. Lines are written together only up to `mostBytes`.
 */
function oncePerTurn(to: DestinationStream, mostBytes: number): DestinationStream {
  let lines = ''
  let bytes = 0
  const write = () => {
    unwritten.delete(write)
    const text = lines
    lines = ''
    bytes = 0
    if (text !== '') to.write(text)
  }
  return {
    // Makes pino set `lastLevel` before each write.
    [Symbol.for('pino.metadata')]: true,
    lastLevel: 0,
    write(line: string) {
      const more = Buffer.byteLength(line)
      if (bytes + more > mostBytes) write()
      if (lines === '') {
        unwritten.add(write)
        setImmediate(write)
      }
      lines += line
      bytes += more
      if (this.lastLevel >= WARN) write()
    },
  } as DestinationStream & { lastLevel: number }
}
