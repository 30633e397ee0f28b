import { constants } from 'node:os'
import type { Log } from './log.ts'

const SIGNALS = ['SIGTERM', 'SIGINT'] as const
type Signal = (typeof SIGNALS)[number]
const untilHandled = new Map<Signal, () => void>()

/**
 * The first thing a program does, before it imports anything else: in a container it is process 1, to which a signal
 * without a handler does nothing, and the pod would be waited for until it is killed. Ends the process as the signal
 * itself would, until `onSignal` or `lifecycle` knows better.
 */
export function endAtSignals(): void {
  for (const signal of SIGNALS) {
    const end = () => process.exit(128 + constants.signals[signal])
    untilHandled.set(signal, end)
    process.on(signal, end)
  }
}

/** Handles the first SIGTERM and the first SIGINT, in place of what `endAtSignals` does. */
export function onSignal(handle: (signal: Signal) => void): void {
  for (const signal of SIGNALS) {
    process.once(signal, () => handle(signal))
    const end = untilHandled.get(signal)
    if (end) process.off(signal, end) // last: there is no moment without a handler
    untilHandled.delete(signal)
  }
}

export interface Lifecycle {
  /** Aborted by SIGTERM, SIGINT or stop(). Loops end when it is. */
  readonly signal: AbortSignal
  /** Closers run in reverse order of being added, each after the one before has finished. */
  onStop(name: string, close: () => Promise<void> | void): void
  /** Runs the closers once, however often it is called. */
  stop(reason: string): Promise<void>
}

/**
 * Opens things in order, closes them in reverse, and gives up after `deadlineMs` so that a stuck closer cannot hold a pod.
 * With `exit` the process is this lifecycle's: it ends with it, and what is thrown past everything ends it with status 1.
 */
export function lifecycle(log: Log, options: { deadlineMs: number; signals?: boolean; exit?: boolean }): Lifecycle {
  const controller = new AbortController()
  const closers: { name: string; close: () => Promise<void> | void }[] = []
  let stopping: Promise<void> | undefined

  async function closeAll(): Promise<void> {
    for (const { name, close } of closers.reverse()) {
      try {
        await close()
      } catch (error) {
        log.error({ err: error, closing: name }, 'could not close')
      }
    }
  }

  function stop(reason: string): Promise<void> {
    stopping ??= (async () => {
      log.info({ reason }, 'stopping')
      controller.abort(new Error(reason))
      let timer: NodeJS.Timeout | undefined
      const late = new Promise<'late'>((resolve) => {
        timer = setTimeout(() => resolve('late'), options.deadlineMs)
        timer.unref()
      })
      const outcome = await Promise.race([closeAll(), late])
      clearTimeout(timer)
      if (outcome === 'late') log.error({ deadlineMs: options.deadlineMs }, 'gave up waiting')
      if (options.exit) process.exit(outcome === 'late' ? 1 : 0)
    })()
    return stopping
  }

  if (options.exit) {
    process.once('uncaughtException', (error) => {
      // Node itself would print the error with all that it holds, parameters of a query included.
      log.fatal({ err: error }, 'crashed')
      process.exit(1)
    })
  }
  if (options.signals !== false) onSignal((signal) => void stop(signal))
  return { signal: controller.signal, onStop: (name, close) => void closers.push({ name, close }), stop }
}
