const IMPATIENT_MS = 1000

type OnStop = (stop: () => Promise<unknown>) => void

/**
 * Runs `work` of a command-line program until it is done or, if it resolves with `stay`, until Ctrl-C or SIGTERM. A
 * signal also interrupts it before (`stopped` is aborted). Then calls what was registered, last first, and ends the
 * process with 0, or with 1 when something failed. A second signal ends the process at once.
 */
export async function runUntilSignal(
  work: (onStop: OnStop, stopped: AbortSignal) => Promise<'stay' | 'done'>,
): Promise<never> {
  const stops: (() => Promise<unknown>)[] = []
  const stopping = new AbortController()
  const stopped = stopping.signal
  let since = 0
  const interrupted = new Promise<'interrupted'>((resolve) => {
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(name, () => {
        // The terminal sends Ctrl-C to all processes and npm forwards it, so one Ctrl-C arrives as two signals.
        if (stopped.aborted && performance.now() - since > IMPATIENT_MS) process.exit(1)
        if (!stopped.aborted) since = performance.now()
        stopping.abort()
        resolve('interrupted')
      })
    }
  })
  let status = 0
  const fail = (error: unknown) => {
    // Errors after a signal are a consequence of the shutdown.
    if (stopped.aborted) return
    status = 1
    console.error(`\n${error instanceof Error ? error.message : String(error)}`)
  }
  const working = work((stop) => void stops.push(stop), stopped).catch(fail)
  const outcome = await Promise.race([working, interrupted])
  if (outcome === 'stay') await interrupted
  if (stopped.aborted) console.log('\nStopping')
  for (const stop of stops.reverse()) {
    await stop().catch((error: unknown) => {
      status = 1
      console.error(error)
    })
  }
  process.exit(status)
}

/** As in a pod: ends the process with everything in it. The next start repairs what was interrupted. */
export function endAtOnce(error: Error): never {
  console.error(`\nKeepsake cannot continue: ${error.message}`)
  process.exit(1)
}
