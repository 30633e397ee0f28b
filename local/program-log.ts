import { closeSync, openSync, renameSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { type Log, openLog, writeLogs } from '../lib/runtime/log.ts'

const ROTATE_AT_BYTES = 50_000_000
const NEWLINE = 10

export interface LogFile {
  path: string
  /** The log of one program; all programs write to the same file. */
  of(program: string): Log
  /** What a part that was too slow to stop logs afterwards is dropped. */
  close(): void
}

/** Opens `keepsake.log` in the folder (JSON lines). Each time it has become long, it is renamed to `keepsake.log.1`. */
export function openLogFile(folder: string, level: string, rotateAtBytes = ROTATE_AT_BYTES): LogFile {
  const path = join(folder, 'keepsake.log')
  const sizeOf = () => statSync(path, { throwIfNoEntry: false })?.size
  const open = () => openSync(path, 'a', 0o600)
  let size = sizeOf() ?? 0
  let fd = open()
  let isOpen = true
  let isFailing = false
  let isStuck = false
  /** Whether the file ends in the middle of a line, as where the disk became full. */
  let isCut = false
  const rotate = () => {
    // There is none after a rotation that failed in its middle, as on a full disk.
    if (sizeOf() !== undefined) renameSync(path, `${path}.1`)
    const last = fd
    fd = open()
    size = 0
    isCut = false
    closeSync(last)
  }
  const rotateIfLong = () => {
    if (size <= rotateAtBytes) return
    try {
      rotate()
      isStuck = false
    } catch (error) {
      // The open file still takes lines. The next ones try again.
      if (!isStuck) console.error(`${path} grows, as it cannot be put aside: ${(error as Error).message}`)
      isStuck = true
    }
  }
  const append = (lines: string) => {
    const bytes = Buffer.from(isCut ? `\n${lines}` : lines)
    for (let written = 0; written < bytes.length; ) {
      const more = writeSync(fd, bytes, written)
      written += more
      size += more
      isCut = bytes[written - 1] !== NEWLINE
    }
  }
  const write = (lines: string) => {
    // By then another file may have the number of the descriptor.
    if (!isOpen) return
    rotateIfLong()
    try {
      append(lines)
      isFailing = false
    } catch (error) {
      // A full disk must not end the platform: the lines are dropped. Standard error may be on another disk, or a terminal.
      if (!isFailing) console.error(`Lines are missing in ${path}: ${(error as Error).message}`)
      isFailing = true
    }
  }
  return {
    path,
    of: (program) => openLog({ program, level, toInTurns: { write } }),
    close() {
      writeLogs()
      isOpen = false
      closeSync(fd)
    },
  }
}
