import type { ProgressReport } from '../../lib/contract/progress.ts'
import type { Log } from '../../lib/runtime/log.ts'

export interface ProgressReporter {
  report(progress: ProgressReport): void
  close(): Promise<void>
}

const TIMEOUT_MS = 5_000

/**
 * Posts the newest report, at most one every `intervalMs` and one at a time. Reporting is best effort: a failed post
 * never fails the job. The reporter stops for good when the operator answers 401 or 410.
 */
export function openProgressReporter(options: {
  url: string | undefined
  token: string | undefined
  log: Log
  intervalMs?: number
}): ProgressReporter {
  const { url, token, log, intervalMs = 2_000 } = options
  const closing = new AbortController()
  let latest: ProgressReport | undefined
  let sending: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let isUnwanted = url === undefined || token === undefined

  async function post(body: ProgressReport): Promise<void> {
    try {
      const response = await fetch(url ?? '', {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal: AbortSignal.any([closing.signal, AbortSignal.timeout(TIMEOUT_MS)]),
      })
      await response.body?.cancel()
      isUnwanted = response.status === 401 || response.status === 410
      if (!response.ok) log.warn({ status: response.status }, 'progress was not accepted')
    } catch (error) {
      if (!closing.signal.aborted) log.warn({ err: error }, 'progress could not be sent')
    }
  }

  function next(): void {
    if (timer || sending || !latest || isUnwanted || closing.signal.aborted) return
    const body = latest
    latest = undefined
    sending = post(body).finally(() => {
      sending = undefined
      timer = setTimeout(() => {
        timer = undefined
        next()
      }, intervalMs)
      timer.unref()
    })
  }

  return {
    report(progress) {
      latest = progress
      next()
    },
    async close() {
      closing.abort()
      await sending
      clearTimeout(timer)
    },
  }
}
