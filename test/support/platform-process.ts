import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Demo } from '../../local/demo-file.ts'

const MAIN = fileURLToPath(new URL('../../local/main.ts', import.meta.url))

export interface PlatformProcess {
  child: ChildProcess
  output(): string
  /** Resolves when demo.json of this very process is there; rejects when it ends before. */
  ready(): Promise<Demo>
  /** Resolves with the exit status, or the signal that ended it. */
  ended: Promise<number | string>
}

/** `npm start` in a folder, as a process of its own. Killed at the end of the test if it still runs. */
export function startProcess(
  t: { teardown(done: () => void): void },
  folder: string,
  more: Record<string, string> = {},
): PlatformProcess {
  const { DATABASE_URL: _, KEEPSAKE_DATABASE_URL: __, ...env } = process.env
  const child = spawn(process.execPath, [MAIN, '--data', folder, '--free-ports'], { env: { ...env, ...more } })
  t.teardown(() => void child.kill('SIGKILL'))
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
  }
  const ended = once(child, 'close').then(([code, signal]) => (code as number | null) ?? String(signal))
  return {
    child,
    ended,
    output: () => text,
    async ready() {
      for (;;) {
        const demo = await readDemo(folder)
        if (demo && demo.pid === child.pid) return demo
        const over = await Promise.race([ended.then((status) => `ended with ${status}:\n${text}`), sleep(50)])
        if (over) throw new Error(over)
      }
    },
  }
}

export async function readDemo(folder: string): Promise<Demo | undefined> {
  const text = await readFile(join(folder, 'demo.json'), 'utf8').catch(() => undefined)
  return text === undefined ? undefined : Demo.parse(JSON.parse(text))
}

/**
 * Processes whose command line or environment names the folder, but for the test itself. Reads without waiting: tests that
 * look again and again would spend eight times the CPU on promises.
 */
export function processesOf(folder: string): string[] {
  const found: string[] = []
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)) {
    const command = ofProcess(pid, 'cmdline')
    if (command.includes(folder) || ofProcess(pid, 'environ').includes(folder))
      found.push(`${pid} ${command.replaceAll('\0', ' ')}`)
  }
  return found
}

/** Empty for one that has ended. */
function ofProcess(pid: string, file: 'cmdline' | 'environ'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}
