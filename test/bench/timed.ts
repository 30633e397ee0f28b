import { spawn } from 'node:child_process'
import { type Peak, watchMemory } from '../support/tree-memory.ts'

/** Seconds of CPU and of wall time. */
export interface Cost {
  cpu: number
  wall: number
}

/** Encoders run for minutes at a steady size; sampling more often would take a core of its own. */
const SAMPLE_MS = 100

/** bash's `time` counts a process with all descendants it has waited for; Node does not tell that of its children. */
export async function timed(
  command: readonly string[],
  env: Record<string, string> = {},
  until?: () => Promise<void>,
): Promise<Cost & { peak: Peak }> {
  const child = spawn('bash', ['-c', 'TIMEFORMAT="took %3U %3S %3R"; time "$@"', '_', ...command], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, LC_ALL: 'C', ...env },
  })
  const peakOf = watchMemory(child.pid ?? 0, SAMPLE_MS)
  let output = ''
  child.stderr.on('data', (chunk) => (output += String(chunk)))
  const done = new Promise<number | null>((resolve) => child.once('close', resolve))
  await until?.()
  const code = await done
  const peak = peakOf()
  const [, user, system, wall] = /took ([\d.]+) ([\d.]+) ([\d.]+)\s*$/.exec(output) ?? []
  if (code !== 0 || user === undefined)
    throw new Error(`${command.join(' ')} ended with ${code}: ${output.slice(-500)}`)
  return { cpu: Number(user) + Number(system), wall: Number(wall), peak }
}
