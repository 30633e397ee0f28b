import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { open, readFile } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** What a program under measurement says of itself. */
export interface Usage {
  /** Seconds of CPU since its start. */
  cpu: number
  rss: number
  heapUsed: number
  /** The highest since it was last asked to forget it. */
  peak: number
}

export interface Child {
  pid: number
  url: string
  usage(): Promise<Usage>
  /** After a garbage collection. */
  collected(): Promise<Usage>
  /** From now on `peak` counts anew. */
  forgetPeak(): Promise<void>
  stop(): Promise<void>
}

/**
 * A program in a process of its own that speaks `report.ts`. Its log goes to a file, as it would to a container's; it
 * must name its address there as `publicUrl`. `file` lies in this folder, or anywhere when its path is absolute.
 */
export async function startChild(file: string, folder: string, env: Record<string, string>): Promise<Child> {
  const logFile = resolve(folder, `${basename(file)}.log`)
  const log = await open(logFile, 'w')
  const child = fork(resolve(import.meta.dirname, file), [], {
    env: { ...process.env, NODE_ENV: 'production', ...env },
    stdio: ['ignore', log.fd, 'inherit', 'ipc'],
  })
  await log.close()
  const ask = async (what: string): Promise<Usage> => {
    child.send(what)
    const [answer] = (await once(child, 'message')) as [Usage]
    return answer
  }
  return {
    pid: child.pid ?? 0,
    url: await addressIn(logFile, child),
    usage: () => ask('usage'),
    collected: () => ask('collect'),
    forgetPeak: async () => void (await ask('forget')),
    async stop() {
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
    },
  }
}

async function addressIn(logFile: string, child: ChildProcess): Promise<string> {
  for (let tries = 0; tries < 300 && child.exitCode === null; tries++) {
    // The last one of its line: where it listens, after what clients call it.
    const url = /.*"publicUrl":"([^"]+)"/.exec(await readFile(logFile, 'utf8'))?.[1]
    if (url) return url
    await sleep(100)
  }
  child.kill('SIGKILL')
  throw new Error(`${logFile} names no address: ${await readFile(logFile, 'utf8')}`)
}
