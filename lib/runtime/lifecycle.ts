import { constants } from 'node:os'
import type { Log } from './log.ts'

const SIGNALS = ['SIGTERM', 'SIGINT'] as const
type Signal = (typeof SIGNALS)[number]
const untilHandled = new Map<Signal, () => void>()

/**
 * Exits on SIGTERM and SIGINT until `onSignal` or `lifecycle` takes over. A program calls this first, before any other
 * import: in a container it is process 1, for which the kernel ignores signals without a handler, and the kubelet would
 * wait the whole grace period.
 */
export function endAtSignals(): void {
  for (const signal of SIGNALS) {
    const end = () => process.exit(128 + constants.signals[signal])
    untilHandled.set(signal, end)
    process.on(signal, end)
  }
}

/** Handles the first SIGTERM and the first SIGINT, or `every` one, instead of `endAtSignals`. */
export function onSignal(handle: (signal: Signal) => void, every = false): void {
  for (const signal of SIGNALS) {
    process[every ? 'on' : 'once'](signal, () => handle(signal))
    const end = untilHandled.get(signal)
    if (end) process.off(signal, end) // after adding the new handler, so that there always is one
    untilHandled.delete(signal)
  }
}

export interface Lifecycle {
  /** Aborted by SIGTERM, SIGINT or stop(); ends all loops. */
  readonly signal: AbortSignal
  /** Closers run one after the other, in reverse order of registration. */
  onStop(name: string, close: () => Promise<void> | void): void
  /** Runs the closers once, even when called again. */
  stop(reason: string): Promise<void>
}

/**
 * Closes resources in reverse order. Gives up after `deadlineMs`, so that a stuck closer cannot block the shutdown. With
 * `exit` the process belongs to this lifecycle: it ends with it, with `process.exitCode` if that is set, and an uncaught error
 * ends it with status 1.
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
      if (options.exit) process.exit(outcome === 'late' ? 1 : process.exitCode)
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
  // A signal to the group comes again from the parent. With `exit` the deadline ends the process in any case.
  if (options.signals !== false) onSignal((signal) => void stop(signal), options.exit)
  return { signal: controller.signal, onStop: (name, close) => void closers.push({ name, close }), stop }
}
