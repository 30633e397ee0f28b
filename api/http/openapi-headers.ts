import * as z from 'zod'
import { isTagged, type Route, takesIdempotencyKey } from './route.ts'

/** Response headers that more than one operation has; `components.headers` of the document. */
export const HEADERS = {
  'X-Request-Id': { description: 'Names this request in the logs of the server', schema: { type: 'string' } },
  ETag: {
    description: 'Changes whenever the answer does, for `If-None-Match`',
    schema: { type: 'string', pattern: '^(W/)?"[^"]*"$' },
  },
  'Retry-After': {
    description: 'Seconds after which trying again makes sense',
    schema: { type: 'integer', format: 'int32', minimum: 0, maximum: 86_400 },
  },
  'WWW-Authenticate': { description: 'RFC 6750: what is wrong with the token', schema: { type: 'string' } },
  'Idempotency-Replayed': {
    description: 'The answer is the one that an earlier request with the same `Idempotency-Key` got',
    schema: { type: 'string', pattern: '^true$' },
  },
  'RateLimit-Policy': {
    description: 'The limits that apply: `q` requests in `w` seconds (draft-ietf-httpapi-ratelimit-headers-08)',
    schema: { type: 'string' },
    example: '"general";q=600;w=60',
  },
  RateLimit: {
    description: 'What is left: `r` requests now, and all of them again in `t` seconds',
    schema: { type: 'string' },
    example: '"general";r=59;t=1',
  },
  Deprecation: { description: 'RFC 9745: since when the operation is deprecated', schema: { type: 'string' } },
  Sunset: { description: 'RFC 8594: when the operation goes away', schema: { type: 'string' } },
} as const

export type HeaderName = keyof typeof HEADERS

/** References to these headers, and to those that every answer has. */
export function headersOf(...names: HeaderName[]) {
  const all: HeaderName[] = ['X-Request-Id', 'RateLimit-Policy', 'RateLimit', ...names]
  return Object.fromEntries(all.map((name) => [name, { $ref: `#/components/headers/${name}` as const }]))
}

/** What a success of this operation carries. */
export function successHeaders(route: Route) {
  const tagged: HeaderName[] = isTagged(route) ? ['ETag'] : []
  const replayed: HeaderName[] = takesIdempotencyKey(route) ? ['Idempotency-Replayed'] : []
  return headersOf(...tagged, ...replayed, ...deprecation(route))
}

export const deprecation = (route: Route): HeaderName[] => (route.deprecated ? ['Deprecation', 'Sunset'] : [])

const IdempotencyKey = z.string().min(1).max(255).optional().meta({
  description:
    'Makes a repeat of this request harmless for 24 hours: it gets the first answer instead of happening twice',
  pattern: '^[!-~]+$',
  example: '8e03978e-40d5-43dd-bc93-6894a57f9324',
})

const IfNoneMatch = z.string().optional().meta({
  description: 'Entity tag of the answer that the client has: 304 when it is still the same',
  example: 'W/"Q1mPWv5s9bXn0kqfC2yJ4g"',
})

/** Request headers of an operation, those that follow from its shape included. */
export function requestHeaders(route: Route): z.ZodObject | undefined {
  const shape = {
    ...(takesIdempotencyKey(route) && { 'Idempotency-Key': IdempotencyKey }),
    ...(isTagged(route) && { 'If-None-Match': IfNoneMatch }),
    ...route.headers?.shape,
  }
  return Object.keys(shape).length > 0 ? z.object(shape) : undefined
}
