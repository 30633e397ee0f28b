import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

/** Whether a process with this id is running. Zombies do not count where /proc shows them. */
export async function isAlive(pid: number): Promise<boolean> {
  try {
    process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  return !/\) [ZX] /.test(stat)
}

/** False when there is no such process: it may have ended since it was last seen. */
export function sendSignal(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}

/** Parent and command line of a process, or undefined if there is none. */
export async function describeProcess(pid: number): Promise<{ parent: number; command: string } | undefined> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
    const command = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).replaceAll('\0', ' ')
    // The name in parentheses may contain any character, so count fields from the last parenthesis.
    return { parent: Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]), command }
  } catch {
    return describeByPs(pid)
  }
}

async function describeByPs(pid: number): Promise<{ parent: number; command: string } | undefined> {
  try {
    const { stdout } = await promisify(execFile)('ps', ['-o', 'ppid=', '-o', 'command=', '-p', String(pid)])
    const [, parent, command] = /^\s*(\d+)\s+(.*)/.exec(stdout) ?? []
    return parent && command ? { parent: Number(parent), command } : undefined
  } catch {
    return undefined
  }
}

/** Waits until the process has ended; false if it still runs after `ms`. */
export async function waitForExit(pid: number, ms: number): Promise<boolean> {
  for (const end = Date.now() + ms; Date.now() < end; await sleep(20)) {
    if (!(await isAlive(pid))) return true
  }
  return !(await isAlive(pid))
}
