import type { RequestHandler } from 'express'
import { formatId } from '../../lib/contract/ids.ts'
import { type Log, redactUrl } from '../../lib/runtime/log.ts'
import { loggedIds, stateOf } from './request.ts'

/** The outcome of one request. */
export interface Served {
  method: string
  /** The template of the route, or `unmatched`. */
  route: string
  status: number
  seconds: number
}

/** Writes one line per request when it ends: after the response, or when the client disconnects. */
export function accessLog(log: Log, onServed: (served: Served) => void): RequestHandler {
  // Only the URL can hold a secret, and redactUrl() removes it. Searching all fields for secrets would cost more than
  // writing the line.
  const lines = log.child({}, { redact: [] })
  return (req, res, next) => {
    const started = performance.now()
    // Routers rewrite req.url during matching.
    const { method, originalUrl } = req
    res.once('close', () => {
      const state = stateOf(res)
      const { route, userId, sessionId } = state
      const now = performance.now()
      const { followedAt } = state
      const ms = Math.round(((followedAt ?? now) - started) * 10) / 10
      // Event streams end when their clients leave.
      const aborted = !res.writableFinished && followedAt === undefined
      const line = {
        ...loggedIds(state),
        method,
        url: redactUrl(originalUrl).slice(0, 2048),
        route,
        status: res.headersSent ? res.statusCode : undefined,
        ms,
        ...(followedAt !== undefined && { open_s: Math.round((now - followedAt) / 1000) }),
        user_id: userId,
        ...(sessionId && { session_id: formatId('session', sessionId) }),
        ...(aborted && { aborted }),
      }
      lines.info(line, 'request')
      onServed({ method, route: route ?? 'unmatched', status: aborted ? 499 : res.statusCode, seconds: ms / 1000 })
    })
    next()
  }
}
