import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../../lib/runtime/log.ts'

export interface SweepTask {
  /** Names the task in the log. */
  name: string
  /**
   * `first`: runs before all others, and without it nothing that purges runs in the same sweep. `purges`: purges what a policy may
   * keep.
   */
  order?: 'first' | 'purges'
  /** `idleSeconds`: skip what changed within this time, because another worker may be busy with it. */
  run(idleSeconds: number, signal: AbortSignal): Promise<unknown>
}

export interface SweepLoop {
  log: Log
  tasks: readonly SweepTask[]
  sweepSeconds: number
  idleSeconds: number
  /** Resolves when the first sweep may begin, or rejects when that is unknown; waited for `SYNC_MS` at most. */
  synced: Promise<unknown>
  /** Every task of a sweep succeeded. */
  onSwept(): void
}

/** Long enough for the first lists of custom resources; after it, the sweep repairs what it can without the cluster. */
const SYNC_MS = 30_000

/** Runs the tasks one after the other, again and again. A task that fails keeps no others from running but those that purge. */
export function startSweep({ log, tasks, synced, ...options }: SweepLoop): { stop(): Promise<void> } {
  const stopped = new AbortController()
  const { signal } = stopped
  const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => {})

  const inOrder = [...tasks.filter(isFirst), ...tasks.filter((task) => !isFirst(task))]

  async function sweepOnce(idleSeconds: number): Promise<void> {
    let failed = 0
    let mayPurge = true
    for (const { name, order, run } of inOrder) {
      if (signal.aborted) return
      if (order === 'purges' && !mayPurge) {
        log.warn({ task: name }, 'a task of the sweep was left out: what it may purge is not known')
        continue
      }
      await run(idleSeconds, signal).catch((error: unknown) => {
        failed += 1
        if (order === 'first') mayPurge = false
        log.warn({ err: error, task: name }, 'a task of the sweep was interrupted')
      })
    }
    if (failed === 0) options.onSwept()
  }

  async function loop(): Promise<void> {
    await Promise.race([synced.catch(() => {}), pause(SYNC_MS)])
    // An earlier worker may have died in the middle of its work: the first sweep skips nothing.
    for (let idleSeconds = 0; !signal.aborted; idleSeconds = options.idleSeconds) {
      await sweepOnce(idleSeconds)
      // Jitter, so that several workers do not always sweep together.
      await pause(options.sweepSeconds * 1000 * (0.9 + 0.2 * Math.random()))
    }
  }

  const done = loop()
  return {
    async stop() {
      stopped.abort()
      await done
    },
  }
}

const isFirst = (task: SweepTask) => task.order === 'first'
