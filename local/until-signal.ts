type OnStop = (stop: () => Promise<void>) => void

/**
 * A program of the command line: runs `work` and, if that resolves with `stay`, waits for Ctrl-C (or SIGTERM). Then
 * it stops what was registered, last first, and ends the process. A signal while things are still being started waits
 * for that; a second signal waits for nothing.
 */
export async function runUntilSignal(
  work: (onStop: OnStop, interrupted: AbortSignal) => Promise<'stay' | 'done'>,
): Promise<never> {
  const stops: (() => Promise<void>)[] = []
  const interruption = new AbortController()
  const interrupted = new Promise<void>((resolve) => {
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(name, () => {
        if (interruption.signal.aborted) process.exit(1)
        interruption.abort(new Error(name))
        resolve()
      })
    }
  })
  let status = 0
  try {
    const outcome = await work((stop) => void stops.push(stop), interruption.signal)
    if (outcome === 'stay') await interrupted
  } catch (error) {
    // What fails because it was interrupted is no failure to report.
    if (!interruption.signal.aborted) {
      status = 1
      console.error(`\n${error instanceof Error ? error.message : String(error)}`)
    }
  }
  if (interruption.signal.aborted) console.log('\nStopping')
  for (const stop of stops.reverse()) {
    await stop().catch((error: unknown) => {
      status = 1
      console.error(error)
    })
  }
  process.exit(status)
}
