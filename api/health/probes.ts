import type { RequestListener } from 'node:http'
import type { Log } from '../../lib/runtime/log.ts'

/**
 * What the cluster asks, on a port that only the cluster reaches. `/livez` says that the event loop turns: restarting
 * helps against nothing else. `/readyz` says whether to send requests here. Any other path is unknown.
 */
export function probes(ready: () => Promise<void>, log: Log): RequestListener {
  const answers: Record<string, () => Promise<void>> = { '/livez': async () => {}, '/readyz': ready }
  return (req, res) => {
    const say = (status: number, text: string) =>
      res
        .writeHead(status, { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store' })
        .end(`${text}\n`)
    const answer = answers[req.url ?? '']
    if (!answer || (req.method !== 'GET' && req.method !== 'HEAD')) return void say(404, 'not found')
    answer().then(
      () => say(200, 'ok'),
      (error: unknown) => {
        log.warn({ err: error }, 'not ready')
        say(503, 'not ready')
      },
    )
  }
}
