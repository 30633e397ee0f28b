import type { Request, RequestHandler, Response } from 'express'
import { formatId, idPattern, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { Context } from './route.ts'

/** What is known about a request from its first to its last line of code. */
export interface RequestState {
  requestId: string
  log: Log
  clock: Clock
  signal: AbortSignal
  /** Template of the matched route: metrics and logs must not have one series per id. */
  route?: string
  userId?: Uuid
}

const STATE = Symbol('request state')
const REQUEST_ID = idPattern('request')
const TRACEPARENT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

/** First middleware: gives every request its id, its logger, and a signal that fires when the client goes away. */
export function begin(log: Log, clock: Clock): RequestHandler {
  return (req, res, next) => {
    const given = req.get('x-request-id')
    const requestId = given && REQUEST_ID.test(given) ? given : formatId('request', newUuid())
    const gone = new AbortController()
    res.once('close', () => {
      if (!res.writableFinished) gone.abort(new ClientGone())
    })
    const state: RequestState = { requestId, log: log.child({ request_id: requestId }), clock, signal: gone.signal }
    Object.assign(res.locals, { [STATE]: state })
    res.set('X-Request-Id', requestId)
    next()
  }
}

export const stateOf = (res: Response) => (res.locals as Record<symbol, unknown>)[STATE] as RequestState

/** The client closed the connection before it had sent everything or got its answer: nobody's mistake, nobody to tell. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone'
  constructor() {
    super('the client went away')
  }
}

/** What a handler is told about its request. */
export function contextOf(req: Request, res: Response, remember: Context['remember']): Context {
  const { requestId, log, signal } = stateOf(res)
  const traceparent = req.get('traceparent')
  return {
    requestId,
    ip: req.ip ?? '',
    userAgent: req.get('user-agent')?.slice(0, 512) ?? null,
    traceparent: traceparent && TRACEPARENT.test(traceparent) ? traceparent : null,
    signal,
    log,
    remember,
  }
}
