import type { ZodOpenApiResponseObject } from 'zod-openapi'
import { PROBLEMS, Problem, type ProblemCode } from '../../lib/contract/problem.ts'
import { ProblemBody, problemBody } from './problems.ts'
import type { Route } from './route.ts'

/** Every way an operation can be refused: what it declares, and what follows from its shape. */
export function problemsOf(route: Route): ProblemCode[] {
  const { bodyKind = route.body ? 'json' : undefined } = route
  const codes: ProblemCode[] = ['RATE_LIMITED', 'INTERNAL_ERROR', 'SERVICE_UNAVAILABLE', ...(route.problems ?? [])]
  if (!route.public) codes.push('UNAUTHORIZED', 'AUTH_UNAVAILABLE')
  if (route.params) codes.push('NOT_FOUND')
  if (route.params || route.query || bodyKind) codes.push('VALIDATION_ERROR')
  if (route.query && 'cursor' in route.query.shape) codes.push('INVALID_CURSOR')
  if (bodyKind) codes.push('UNSUPPORTED_CONTENT_TYPE', 'REQUEST_TIMEOUT')
  if (bodyKind === 'json') codes.push('MALFORMED_JSON', 'PAYLOAD_TOO_LARGE')
  if (takesIdempotencyKey(route)) codes.push('VALIDATION_ERROR', 'IDEMPOTENCY_IN_PROGRESS', 'IDEMPOTENCY_KEY_REUSED')
  return Object.keys(PROBLEMS).filter((code) => codes.includes(code as ProblemCode)) as ProblemCode[]
}

export const takesIdempotencyKey = (route: Route) => route.method === 'post' && !route.public

/** One response per status, with an example of each code that comes with it. */
export function problemResponses(codes: readonly ProblemCode[]): Record<string, ZodOpenApiResponseObject> {
  const byStatus = Map.groupBy(codes, (code) => PROBLEMS[code])
  const responses = [...byStatus].map(([status, of]) => {
    const examples = Object.fromEntries(of.map((code) => [code, { value: exampleOf(code) }]))
    const content = { 'application/json': { schema: ProblemBody, examples } }
    const description = of.map((code) => `\`${code}\``).join(' or ')
    const headers = of.some((code) => code in RETRY_AFTER) && { headers: WAIT }
    return [String(status), { description, ...headers, content }] as const
  })
  return Object.fromEntries(responses)
}

const RETRY_AFTER: Partial<Record<ProblemCode, number>> = {
  RATE_LIMITED: 30,
  IDEMPOTENCY_IN_PROGRESS: 5,
  SERVICE_UNAVAILABLE: 5,
  AUTH_UNAVAILABLE: 5,
}

const WAIT = {
  'Retry-After': {
    description: 'Seconds after which trying again makes sense, as in `error.retry_after`',
    schema: { type: 'integer', minimum: 1 },
  },
} as const

function exampleOf(code: ProblemCode) {
  const retryAfter = RETRY_AFTER[code]
  const details = code === 'VALIDATION_ERROR' ? [{ field: 'body.filename', issue: 'is required' }] : undefined
  const problem = new Problem(code, wordsOf(code), {
    ...(details && { details }),
    ...(retryAfter !== undefined && { retryAfter }),
  })
  return problemBody(problem, 'req_01j4p0f84wfhz8mpfz3mjs2qaf')
}

const wordsOf = (code: ProblemCode) => {
  const words = code.toLowerCase().replaceAll('_', ' ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}
