import type { Log } from './log.ts'

export interface Lifecycle {
  /** Aborted by SIGTERM, SIGINT or stop(). Loops end when it is. */
  readonly signal: AbortSignal
  /** Closers run in reverse order of being added, each after the one before has finished. */
  onStop(name: string, close: () => Promise<void> | void): void
  /** Runs the closers once, however often it is called. */
  stop(reason: string): Promise<void>
}

/** Opens things in order, closes them in reverse, and gives up after `deadlineMs` so that a stuck closer cannot hold a pod. */
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

  if (options.signals !== false) {
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => void stop(name))
  }
  return { signal: controller.signal, onStop: (name, close) => void closers.push({ name, close }), stop }
}
