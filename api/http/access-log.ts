import type { RequestHandler } from 'express'
import { type Log, redactUrl } from '../../lib/runtime/log.ts'
import { stateOf } from './request.ts'

/** What one request cost, once it is over. */
export interface Served {
  method: string
  /** The template of the route, or `unmatched`. */
  route: string
  status: number
  seconds: number
}

/** One line per request, written when it is over, whether it was answered or the client went away. */
export function accessLog(log: Log, onServed: (served: Served) => void): RequestHandler {
  // Nothing below can hold a secret but the address, and that is cleaned here: looking through every field for what is
  // called like one costs more than the line itself.
  const lines = log.child({}, { redact: [] })
  return (req, res, next) => {
    const started = performance.now()
    // Routers rewrite req.url while they look for the route.
    const { method, originalUrl } = req
    res.once('close', () => {
      const { requestId, route, userId } = stateOf(res)
      const ms = Math.round((performance.now() - started) * 10) / 10
      const aborted = !res.writableFinished
      const line = {
        request_id: requestId,
        method,
        url: redactUrl(originalUrl).slice(0, 2048),
        route,
        status: res.headersSent ? res.statusCode : undefined,
        ms,
        user_id: userId,
        ...(aborted && { aborted }),
      }
      lines.info(line, 'request')
      onServed({ method, route: route ?? 'unmatched', status: aborted ? 499 : res.statusCode, seconds: ms / 1000 })
    })
    next()
  }
}
