const IMPATIENT_MS = 1000

type OnStop = (stop: () => Promise<unknown>) => void

/**
 * A program of the command line: runs `work` until it is done or, if it resolves with `stay`, until Ctrl-C (or
 * SIGTERM), which also interrupts it on the way (`stopped` tells it so). Then stops what was registered, last first, and ends the process
 * with 0, or 1 when something failed. A second signal waits for nothing.
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
        // npm hands on the Ctrl-C that the terminal has sent to everybody: two signals, one wish.
        if (stopped.aborted && performance.now() - since > IMPATIENT_MS) process.exit(1)
        if (!stopped.aborted) since = performance.now()
        stopping.abort()
        resolve('interrupted')
      })
    }
  })
  let status = 0
  const fail = (error: unknown) => {
    // What fails because things are being stopped under it is no failure to report.
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

/** As in a pod: what is running is ended with the process, and the next start repairs what that leaves. */
export function endAtOnce(error: Error): never {
  console.error(`\nKeepsake cannot go on: ${error.message}`)
  process.exit(1)
}
