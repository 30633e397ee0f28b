import { createWriteStream, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'

const KEEP_BYTES = 256 * 1024
/** Kept of a pod that has ended: there may be many, as long as their Jobs are kept. */
const KEEP_ENDED_BYTES = 32 * 1024
const FILE_BYTES = 10 * 1024 * 1024

const KEEP_FILES = 200

/** Removes all but the newest output files: every pod of every start leaves one. */
export function pruneOutput(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const paths = readdirSync(folder)
    .filter((name) => name.endsWith('.log'))
    .map((name) => join(folder, name))
  const byAge = paths.map((path) => ({ path, time: statSync(path).mtimeMs })).sort((a, b) => b.time - a.time)
  for (const { path } of byAge.slice(KEEP_FILES)) rmSync(path, { force: true })
}

/** The output of a pod: its end in memory, and up to 10 MiB in a file if there is a folder. */
export interface Output {
  follow(stream: Readable): void
  /** The last bytes written, cut to `bytes`. */
  tail(bytes?: number): string
  close(): void
}

export function openOutput(folder: string | undefined, name: string): Output {
  let kept: Buffer[] = []
  let size = 0
  let written = 0
  const file = folder ? createWriteStream(join(folder, `${name}.log`), { flags: 'a', mode: 0o600 }) : undefined
  file?.on('error', () => undefined) // a full disk must not end the process; the end of the output is also in memory

  function add(chunk: Buffer): void {
    kept.push(chunk)
    size += chunk.length
    if (size > 2 * KEEP_BYTES) {
      kept = [Buffer.concat(kept).subarray(-KEEP_BYTES)]
      size = KEEP_BYTES
    }
    if (written < FILE_BYTES) file?.write(chunk)
    written += chunk.length
  }

  return {
    follow: (stream) => void stream.on('data', add),
    tail: (bytes = KEEP_BYTES) => Buffer.concat(kept).subarray(-bytes).toString('utf8'),
    close() {
      file?.end()
      kept = [Buffer.from(Buffer.concat(kept).subarray(-KEEP_ENDED_BYTES))]
    },
  }
}
