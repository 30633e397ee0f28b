import type { RequestListener } from 'node:http'
import type { Log } from '../../lib/runtime/log.ts'

/** Each throws where it is not so. */
export interface Health {
  /** Of this process it needs no proof but an answer. */
  alive?(): Promise<void>
  ready(): Promise<void>
}

/**
 * Probes on a port that only the cluster reaches. `/livez` succeeds while the event loop runs, of each process
 * where there are several: a restart helps against no other failure. `/readyz` tells whether this replica should receive
 * requests. Any other path is 404, unless there are others.
 */
export function probes(health: Health, log: Log, others?: RequestListener): RequestListener {
  const answers: Record<string, () => Promise<void>> = {
    '/livez': health.alive ?? (async () => {}),
    '/readyz': health.ready,
  }
  return (req, res) => {
    const say = (status: number, text: string) =>
      res
        .writeHead(status, { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store' })
        .end(`${text}\n`)
    const answer = Object.hasOwn(answers, req.url ?? '') ? answers[req.url ?? ''] : undefined
    if (!answer && others) return others(req, res)
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
