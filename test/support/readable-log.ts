import { PassThrough } from 'node:stream'
import { type Log, openLog } from '../../lib/runtime/log.ts'

/** A log that can be read afterwards. */
export function readableLog(): { log: Log; logged: Record<string, unknown>[] } {
  const logged: Record<string, unknown>[] = []
  const sink = new PassThrough()
  sink.on('data', (line: Buffer) => void logged.push(JSON.parse(line.toString()) as Record<string, unknown>))
  return { log: openLog({ program: 'test', level: 'debug', to: sink }), logged }
}
