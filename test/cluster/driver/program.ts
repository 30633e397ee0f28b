import type { ChildProcess } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { startProcess, stopProcess } from '../../support/services/process.ts'
import type { RunFolder } from './run-folder.ts'

/** One of the cluster's servers, which dies with the process that started it. */
export interface Program {
  /** Once started it is started again when it ends by itself, where `restarts` says so. */
  start(): Promise<void>
  stop(signal?: NodeJS.Signals): Promise<void>
  /** Waits for it to become ready; throws its log when it ends instead or takes minutes. */
  until(ready: () => Promise<unknown>): Promise<void>
}

export function program(o: {
  name: string
  run: RunFolder
  /** Programs and arguments, such as nsenter's in front of its own. */
  command: readonly string[]
  env?: Record<string, string>
  restarts?: boolean
}): Program {
  const logFile = o.run.file('log', `${o.name}.log`)
  const [first = '', ...args] = o.command
  let child: ChildProcess | undefined
  let wanted = false

  const launch = async () => {
    // Not in our process group: Ctrl-C is for us, and we end things in order.
    const env = { ...process.env, ...o.env }
    const started = await startProcess(first, args, logFile, { detached: true, env })
    child = started
    if (o.restarts) started.once('exit', () => void again(started))
  }
  const again = async (ended: ChildProcess) => {
    await sleep(500, undefined, { ref: false })
    if (wanted && child === ended) await launch().catch(() => {})
  }
  return {
    async start() {
      wanted = true
      await launch()
    },
    async stop(signal = 'SIGTERM') {
      wanted = false
      if (child) await stopProcess(child, signal)
    },
    async until(ready) {
      for (const end = Date.now() + 240_000; Date.now() < end; await sleep(50)) {
        if (hasEnded(child) && !o.restarts) break
        const failed = await ready().then(
          () => false,
          () => true,
        )
        if (!failed) return
      }
      const log = await readFile(logFile, 'utf8').catch(() => '')
      throw new Error(`${o.name} did not get ready:\n${log.slice(-4000)}`)
    },
  }
}

const hasEnded = (child: ChildProcess | undefined) => child?.exitCode !== null || child.signalCode !== null
