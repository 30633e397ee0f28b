import type { ErrorRequestHandler, Response } from 'express'
import * as z from 'zod'
import { PROBLEMS, Problem, type ProblemCode } from '../../lib/contract/problem.ts'
import { StoreError } from '../../lib/runtime/object-store/object-store.ts'
import { isUnopened } from '../db/errors.ts'
import type { RawReply } from '../requests/bytes.ts'
import { ClientGone, stateOf } from './request.ts'

const CODES = Object.keys(PROBLEMS) as [ProblemCode, ...ProblemCode[]]

const ProblemCodes = z
  .enum(CODES)
  .meta({ id: 'ProblemCode', description: 'Stable: programs branch on this. Later versions may add codes.' })

const FieldProblem = z
  .looseObject({
    field: z.string().meta({ description: 'Location of the field', example: 'body.filename' }),
    issue: z.string().meta({ description: 'Human-readable; may change', example: 'is required' }),
  })
  .meta({ id: 'FieldProblem' })

const ProblemContent = z
  .object({
    code: ProblemCodes,
    message: z.string().meta({ description: 'Human-readable; may change' }),
    request_id: z.string().meta({ description: 'Also in the header X-Request-Id; include it in support requests' }),
    details: z.array(FieldProblem).optional().meta({ description: 'The invalid fields, with the reason' }),
    retry_after: z
      .int()
      .min(0)
      .max(86_400)
      .optional()
      .meta({ description: 'Seconds after which the client may retry' }),
  })
  .meta({ id: 'ProblemContent' })

/** The shape of every refusal. */
export const ProblemBody = z.object({ error: ProblemContent }).meta({ id: 'Problem' })
export type ProblemBody = z.infer<typeof ProblemBody>

export function problemBody(problem: Problem, requestId: string): ProblemBody {
  const { code, message, details, retryAfter } = problem
  return {
    error: {
      code,
      message,
      request_id: requestId,
      ...(details && { details }),
      ...(retryAfter !== undefined && { retry_after: retryAfter }),
    },
  }
}

/** Last middleware: turns every error into the problem envelope. Only a Problem shows its own message. */
export const answerProblems: ErrorRequestHandler = (error, req, res, _next) => {
  const { log, requestId, problemPage } = stateOf(res)
  const problem = toProblem(error)
  if (problem.status >= 500) log.error({ err: error }, 'request failed')
  if (res.headersSent || res.destroyed) {
    // Part of the response is sent: only closing the connection can show the client that it is incomplete.
    if (!res.writableFinished) res.destroy()
    return
  }
  if (problemPage) res.vary('Accept')
  // Programs that take anything get the envelope.
  if (problemPage && req.accepts(['json', 'html']) === 'html') sendPage(res, problem, problemPage(problem))
  else sendProblem(res, problem, requestId)
}

function sendPage(res: Response, problem: Problem, { status, headers, body }: RawReply): void {
  setHead(res, problem)
  res.status(status).set(headers).send(body)
}

export function sendProblem(res: Response, problem: Problem, requestId: string): void {
  setHead(res, problem)
  res.status(problem.status).json(problemBody(problem, requestId))
}

function setHead(res: Response, problem: Problem): void {
  for (const name of ['ETag', 'Content-Type', 'Content-Length', 'Content-Range', 'Location']) res.removeHeader(name)
  res.set({ 'Cache-Control': 'no-store', ...problem.headers })
  if (problem.retryAfter !== undefined) res.set('Retry-After', String(problem.retryAfter))
}

/** A Problem stays unchanged, an outage of a dependency is 503, any other error is a bug of this server: 500. */
export function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  // Express could not decode %-escapes of the path, so the address does not exist.
  if (error instanceof URIError) return new Problem('NOT_FOUND', 'This address does not exist', { cause: error })
  if (isClientGone(error)) return new Problem('VALIDATION_ERROR', 'The request ended early', { cause: error })
  if (isOutage(error))
    return new Problem('SERVICE_UNAVAILABLE', 'Temporarily unavailable. Please try again.', {
      cause: error,
      retryAfter: 5,
    })
  return new Problem('INTERNAL_ERROR', 'Internal server error', { cause: error })
}

/** True also if ClientGone is the cause of an AbortError. */
const isClientGone = (error: unknown): boolean =>
  error instanceof ClientGone || (error instanceof Error && error.name === 'AbortError' && isClientGone(error.cause))

// Postgres: connection lost (08), shutting down (57P), too many connections or out of resources (53), statement or
// lock timeout, serialization failure, deadlock, a server that takes no writes (25006). Sockets: connection and name
// resolution errors.
const OUTAGE_CODE =
  /^(08...|57P..|53...|57014|55P03|40001|40P01|25006|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EPIPE|EHOSTUNREACH|ENOTFOUND|EAI_AGAIN)$/
// Messages of pg itself, which have no code.
const OUTAGE_MESSAGE =
  /^(timeout exceeded when trying to connect|Connection terminated|Query read timeout|Client has encountered a connec)/

function isOutage(error: unknown): boolean {
  if (isUnopened(error)) return true
  // drizzle and others wrap errors; no library wraps five levels deep.
  for (let e = error, depth = 0; e instanceof Error && depth < 5; e = e.cause, depth++) {
    if (e instanceof StoreError) return e.code === 'Unavailable'
    if (OUTAGE_CODE.test(String((e as { code?: unknown }).code)) || OUTAGE_MESSAGE.test(e.message)) return true
    if (e instanceof AggregateError && e.errors.some(isOutage)) return true
  }
  return false
}
