import * as z from 'zod'
import { isTagged, type Route, takesIdempotencyKey } from './route.ts'

/** Response headers that more than one operation has; `components.headers` of the document. */
export const HEADERS = {
  'X-Request-Id': { description: 'Identifies this request in the logs of the server', schema: { type: 'string' } },
  ETag: {
    description: 'Changes whenever the response changes; for `If-None-Match`',
    schema: { type: 'string', pattern: '^(W/)?"[^"]*"$' },
  },
  'Retry-After': {
    description: 'Seconds after which the client may retry',
    schema: { type: 'integer', format: 'int32', minimum: 0, maximum: 86_400 },
  },
  'WWW-Authenticate': { description: 'RFC 6750: why the token was refused', schema: { type: 'string' } },
  'Idempotency-Replayed': {
    description: 'The response is that of an earlier request with the same `Idempotency-Key`',
    schema: { type: 'string', pattern: '^true$' },
  },
  'RateLimit-Policy': {
    description: 'The limits that apply: `q` requests in `w` seconds (draft-ietf-httpapi-ratelimit-headers-08)',
    schema: { type: 'string' },
    example: '"general";q=600;w=60',
  },
  RateLimit: {
    description: 'What remains: `r` requests now, and all of them again in `t` seconds',
    schema: { type: 'string' },
    example: '"general";r=59;t=1',
  },
  Deprecation: { description: 'RFC 9745: since when the operation is deprecated', schema: { type: 'string' } },
  Sunset: { description: 'RFC 8594: when the operation is removed', schema: { type: 'string' } },
} as const

export type HeaderName = keyof typeof HEADERS

/** References to these headers, and to those of every response. */
export const headersOf = (...names: HeaderName[]) => unlimitedHeadersOf('RateLimit-Policy', 'RateLimit', ...names)

/** The same for a response to a request that counted against no limit. */
export function unlimitedHeadersOf(...names: HeaderName[]) {
  const all: HeaderName[] = ['X-Request-Id', ...names]
  return Object.fromEntries(all.map((name) => [name, { $ref: `#/components/headers/${name}` as const }]))
}

/** Headers of a success of this operation. */
export function successHeaders(route: Route) {
  const tagged: HeaderName[] = isTagged(route) ? ['ETag'] : []
  const replayed: HeaderName[] = takesIdempotencyKey(route) ? ['Idempotency-Replayed'] : []
  return headersOf(...tagged, ...replayed, ...deprecation(route))
}

export const deprecation = (route: Route): HeaderName[] => (route.deprecated ? ['Deprecation', 'Sunset'] : [])

const IdempotencyKey = z.string().min(1).max(255).optional().meta({
  description:
    'For 24 hours a repeat of this request with the same key gets the first response and has no further effect',
  pattern: '^[!-~]+$',
  example: '8e03978e-40d5-43dd-bc93-6894a57f9324',
})

const IfNoneMatch = z.string().optional().meta({
  description: 'Entity tag of the response that the client has: 304 if it is unchanged',
  example: 'W/"Q1mPWv5s9bXn0kqfC2yJ4g"',
})

/** Request headers of an operation, including those that follow from its shape. */
export function requestHeaders(route: Route): z.ZodObject | undefined {
  const shape = {
    ...(takesIdempotencyKey(route) && { 'Idempotency-Key': IdempotencyKey }),
    ...(isTagged(route) && { 'If-None-Match': IfNoneMatch }),
    ...route.headers?.shape,
  }
  return Object.keys(shape).length > 0 ? z.object(shape) : undefined
}
