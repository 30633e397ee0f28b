import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import type { Container } from './batch-schemas.ts'
import type { Output } from './output.ts'

const MESSAGE_BYTES = 4096
const LOG_BYTES = 2048
const LOG_LINES = 80

/** The termination message: the end of the termination log, or of the output when it failed without one. */
export function terminationMessage(path: string, container: Container, exitCode: number, output: Output): string {
  const message = readEnd(path, MESSAGE_BYTES)
  if (message !== '' || exitCode === 0 || container.terminationMessagePolicy !== 'FallbackToLogsOnError') return message
  return output.tail(LOG_BYTES).split('\n').slice(-LOG_LINES).join('\n')
}

function readEnd(path: string, bytes: number): string {
  try {
    const file = openSync(path, 'r')
    try {
      const { size } = fstatSync(file)
      const buffer = Buffer.alloc(Math.min(size, bytes))
      readSync(file, buffer, 0, buffer.length, size - buffer.length)
      return buffer.toString('utf8')
    } finally {
      closeSync(file)
    }
  } catch {
    return '' // the program removed the file
  }
}
