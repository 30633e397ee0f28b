import type { Request, RequestHandler, Response } from 'express'
import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { Context } from '../requests/context.ts'
import { clientAddress } from './client-address.ts'
import type { Route } from './route.ts'

/** What all code knows about the current request. */
export interface RequestState {
  requestId: string
  clientRequestId: string | null
  log: Log
  clock: Clock
  /** Aborted when the client disconnects. */
  signal: AbortSignal
  /** Template of the matched route: metrics and logs must not have one series per id. */
  route?: string
  /** Of the matched route. */
  problemPage?: Route['problemPage']
  userId?: Uuid
  sessionId?: Uuid | null
  /** When the head of an event stream was sent, of `performance.now()`: what follows is no time that a client waits. */
  followedAt?: number
  /** Whether the permission service has decided. */
  isDecided?: boolean
}

const STATE = Symbol('request state')
/**
 * Bounded, and without characters that end a line, a field or a cell where logs and audit entries are shown. It has no
 * `@`: an audit entry outlives the erasure of a user, and must not hold an address of one.
 */
const CLIENT_REQUEST_ID = /^[\w.:/+=-]{1,128}$/
const TRACEPARENT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

/** First middleware: gives every request its id, its logger, and a signal that fires when the client disconnects. */
export function begin(log: Log, clock: Clock): RequestHandler {
  return (req, res, next) => {
    // Always one of this server: a client that chose it could make its requests pass for those of another.
    const requestId = formatId('request', newUuid())
    const given = req.get('x-request-id') ?? ''
    const clientRequestId = CLIENT_REQUEST_ID.test(given) ? given : null
    ;(res.locals as Record<symbol, unknown>)[STATE] = newState({ requestId, clientRequestId }, log, clock, res)
    res.set('X-Request-Id', requestId)
    next()
  }
}

/** Most requests neither log nor wait for anything abortable, so the logger and the signal are created on first use. */
function newState(
  ids: Pick<RequestState, 'requestId' | 'clientRequestId'>,
  log: Log,
  clock: Clock,
  res: Response,
): RequestState {
  let own: Log | undefined
  let signal: AbortSignal | undefined
  return {
    ...ids,
    clock,
    get log() {
      own ??= log.child(loggedIds(ids))
      return own
    },
    get signal() {
      signal ??= abortedWith(res)
      return signal
    },
  }
}

export const loggedIds = ({ requestId, clientRequestId }: Pick<RequestState, 'requestId' | 'clientRequestId'>) => ({
  request_id: requestId,
  ...(clientRequestId !== null && { client_request_id: clientRequestId }),
})

function abortedWith(res: Response): AbortSignal {
  const gone = new AbortController()
  const look = () => {
    if (!res.writableFinished) gone.abort(new ClientGone())
  }
  if (res.closed) look()
  else res.once('close', look)
  return gone.signal
}

export const stateOf = (res: Response) => (res.locals as Record<symbol, unknown>)[STATE] as RequestState

/** The client closed the connection before it had sent everything or received the response. Not a failure. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone'
  constructor() {
    super('the client disconnected')
  }
}

/** What a handler learns about its request. */
export function contextOf(
  req: Request,
  res: Response,
  { personalData, remember }: Pick<Context, 'personalData' | 'remember'>,
): Context {
  const state = stateOf(res)
  const traceparent = req.get('traceparent')
  return {
    requestId: state.requestId,
    clientRequestId: state.clientRequestId,
    ip: clientAddress(req),
    userAgent: req.get('user-agent')?.slice(0, 512) ?? null,
    personalData,
    traceparent: traceparent && TRACEPARENT.test(traceparent) ? traceparent : null,
    get signal() {
      return state.signal
    },
    get log() {
      return state.log
    },
    decided() {
      state.isDecided = true
    },
    remember,
  }
}
