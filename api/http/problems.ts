import type { ErrorRequestHandler, Response } from 'express'
import * as z from 'zod'
import { PROBLEMS, Problem, type ProblemCode } from '../../lib/contract/problem.ts'
import { StoreError } from '../../lib/runtime/object-store.ts'
import { ClientGone, stateOf } from './request.ts'

const CODES = Object.keys(PROBLEMS) as [ProblemCode, ...ProblemCode[]]

const ProblemCodes = z
  .enum(CODES)
  .meta({ id: 'ProblemCode', description: 'Stable; programs branch on this. There may be more in the future.' })

const FieldProblem = z
  .looseObject({
    field: z.string().meta({ description: 'Where it was sent', example: 'body.filename' }),
    issue: z.string().meta({ description: 'For people; may change', example: 'is required' }),
  })
  .meta({ id: 'FieldProblem' })

const ProblemContent = z
  .object({
    code: ProblemCodes,
    message: z.string().meta({ description: 'For people; may change' }),
    request_id: z.string().meta({ description: 'Also in the header X-Request-Id; quote it when asking for help' }),
    details: z.array(FieldProblem).optional().meta({ description: 'What is wrong with which field' }),
    retry_after: z
      .int()
      .min(0)
      .max(86_400)
      .optional()
      .meta({ description: 'Seconds after which trying again makes sense' }),
  })
  .meta({ id: 'ProblemContent' })

/** The one shape of every refusal. */
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

/** Last middleware: whatever was thrown below becomes the one envelope, and only a Problem says anything of itself. */
export const answerProblems: ErrorRequestHandler = (error, _req, res, _next) => {
  const { log, requestId } = stateOf(res)
  const problem = toProblem(error)
  if (problem.status >= 500) log.error({ err: error }, 'request failed')
  if (res.headersSent || res.destroyed) {
    // Half an answer is out: cutting the connection is the only way left to say that it is not whole.
    if (!res.writableFinished) res.destroy()
    return
  }
  sendProblem(res, problem, requestId)
}

export function sendProblem(res: Response, problem: Problem, requestId: string): void {
  for (const name of ['ETag', 'Content-Type', 'Content-Length', 'Content-Range', 'Location']) res.removeHeader(name)
  res.set({ 'Cache-Control': 'no-store', ...problem.headers })
  if (problem.retryAfter !== undefined) res.set('Retry-After', String(problem.retryAfter))
  res.status(problem.status).json(problemBody(problem, requestId))
}

/** A Problem stays what it is, an outage of something we need is 503, anything else is our bug. */
export function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  // Express could not decode %-escapes of the path: such an address names nothing.
  if (error instanceof URIError) return new Problem('NOT_FOUND', 'There is nothing at this address', { cause: error })
  if (isClientGone(error)) return new Problem('VALIDATION_ERROR', 'The request ended early', { cause: error })
  if (isOutage(error))
    return new Problem('SERVICE_UNAVAILABLE', 'Temporarily unavailable. Please try again.', {
      cause: error,
      retryAfter: 5,
    })
  return new Problem('INTERNAL_ERROR', 'Something went wrong on our side', { cause: error })
}

/** Also as the reason why a wait was aborted. */
const isClientGone = (error: unknown): boolean =>
  error instanceof ClientGone || (error instanceof Error && error.name === 'AbortError' && isClientGone(error.cause))

// Postgres: connection lost (08), shutting down (57P), too many connections or out of resources (53), statement or
// lock timeout, serialization failure, deadlock. Sockets: the usual ways of not getting through.
const OUTAGE_CODE =
  /^(08...|57P..|53...|57014|55P03|40001|40P01|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EPIPE|EHOSTUNREACH|ENOTFOUND|EAI_AGAIN)$/
// Messages of pg itself, which have no code.
const OUTAGE_MESSAGE =
  /^(timeout exceeded when trying to connect|Connection terminated|Query read timeout|Client has encountered a connec)/

function isOutage(error: unknown): boolean {
  // drizzle and others wrap what happened; five levels are more than anybody wraps.
  for (let e = error, depth = 0; e instanceof Error && depth < 5; e = e.cause, depth++) {
    if (e instanceof StoreError) return e.code === 'Unavailable'
    if (OUTAGE_CODE.test(String((e as { code?: unknown }).code)) || OUTAGE_MESSAGE.test(e.message)) return true
    if (e instanceof AggregateError && e.errors.some(isOutage)) return true
  }
  return false
}
