import type { ZodOpenApiResponseObject } from 'zod-openapi'
import { PROBLEMS, Problem, type ProblemCode } from '../../lib/contract/problem.ts'
import { type HeaderName, headersOf, unlimitedHeadersOf } from './openapi-headers.ts'
import { ProblemBody, problemBody } from './problems.ts'
import { type Route, takesIdempotencyKey } from './route.ts'

/** Problems of a request that could not be read: there is no route yet, and no limit. */
const UNREAD: ProblemCode[] = ['MALFORMED_REQUEST', 'HEADERS_TOO_LARGE']

/** Problems of every request. REQUEST_TIMEOUT may also follow the limits: of a body that arrives too slowly. */
const EVERYWHERE: ProblemCode[] = [
  ...UNREAD,
  'REQUEST_TIMEOUT',
  'RATE_LIMITED',
  'INTERNAL_ERROR',
  'SERVICE_UNAVAILABLE',
]

/** All problems of an operation: those it declares, and those that follow from its shape. */
export function problemsOf(route: Route): ProblemCode[] {
  const { bodyKind = route.body ? 'json' : undefined } = route
  const codes: ProblemCode[] = [...EVERYWHERE, ...(route.problems ?? [])]
  if (!route.public || route.identifies) codes.push('UNAUTHORIZED', 'AUTH_UNAVAILABLE')
  if (route.params) codes.push('NOT_FOUND')
  if (route.params || route.query || bodyKind) codes.push('VALIDATION_ERROR')
  if (route.query && 'cursor' in route.query.shape) codes.push('INVALID_CURSOR')
  if (bodyKind) codes.push('UNSUPPORTED_CONTENT_TYPE', 'PAYLOAD_TOO_LARGE')
  if (bodyKind === 'json') codes.push('MALFORMED_JSON')
  if (takesIdempotencyKey(route)) codes.push('VALIDATION_ERROR', 'IDEMPOTENCY_IN_PROGRESS', 'IDEMPOTENCY_KEY_REUSED')
  return Object.keys(PROBLEMS).filter((code) => codes.includes(code as ProblemCode)) as ProblemCode[]
}

/** One response per status, with an example of each of its codes. */
export function problemResponses(route: Route): Record<string, ZodOpenApiResponseObject> {
  const byStatus = Map.groupBy(problemsOf(route), (code) => statusOf(code, route))
  return Object.fromEntries([...byStatus].map(([status, of]) => [String(status), responseOf(of)]))
}

/** FILE_TOO_LARGE has two statuses: 413 for a body, 422 for a size that the body only names. */
const statusOf = (code: ProblemCode, { bodyKind }: Route) =>
  code === 'FILE_TOO_LARGE' && bodyKind !== 'multipart' && bodyKind !== 'bytes' ? 422 : PROBLEMS[code]

const responses = new Map<string, ZodOpenApiResponseObject>()

/** A shared component, e.g. `RateLimited` or `ValidationErrorOrMalformedJson`. */
function responseOf(codes: readonly ProblemCode[]): ZodOpenApiResponseObject {
  const id = codes.map(pascalOf).join('Or')
  const isUnread = codes.every((code) => UNREAD.includes(code))
  const known = responses.get(id) ?? {
    id,
    description: codes.map((code) => `\`${code}\``).join(' or '),
    headers: isUnread ? unlimitedHeadersOf() : headersOf(...codes.flatMap(headerOf)),
    content: { 'application/json': { schema: ProblemBody, examples: examplesOf(codes) } },
  }
  responses.set(id, known)
  return known
}

const pascalOf = (code: ProblemCode) =>
  code
    .split('_')
    .map((word) => word.charAt(0) + word.slice(1).toLowerCase())
    .join('')

function headerOf(code: ProblemCode): HeaderName[] {
  if (RETRY_AFTER[code] !== undefined) return ['Retry-After']
  return code === 'UNAUTHORIZED' ? ['WWW-Authenticate'] : []
}

const RETRY_AFTER: Partial<Record<ProblemCode, number>> = {
  RATE_LIMITED: 30,
  CONFLICT: 2,
  IDEMPOTENCY_IN_PROGRESS: 5,
  SERVICE_UNAVAILABLE: 5,
  AUTH_UNAVAILABLE: 5,
}

const examplesOf = (codes: readonly ProblemCode[]) =>
  Object.fromEntries(codes.map((code) => [code, { value: exampleOf(code) }]))

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
