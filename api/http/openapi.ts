import * as z from 'zod'
import {
  createDocument,
  type ZodOpenApiOperationObject,
  type ZodOpenApiPathsObject,
  type ZodOpenApiRequestBodyObject,
  type ZodOpenApiResponseObject,
} from 'zod-openapi'
import { type Action, ruleOf } from '../permissions/actions.ts'
import { saysOf } from '../permissions/rule.ts'
import { problemResponses, problemsOf, takesIdempotencyKey } from './openapi-problems.ts'
import { ProblemBody } from './problems.ts'
import type { Route } from './route.ts'

export interface DocumentInfo {
  title: string
  version: string
  description: string
  /** The base path: addresses in the document are below it. */
  server: string
  /** What the tags of the routes are about. */
  tags: Record<string, string>
}
export type OpenApiDocument = ReturnType<typeof createDocument>

/** OpenAPI 3.1 of all routes: whatever a route declares is in it, and nothing else. */
export function openapi(routes: readonly Route[], info: DocumentInfo): OpenApiDocument {
  const paths: Record<string, Record<string, ZodOpenApiOperationObject>> = {}
  for (const route of routes) {
    const path = route.path.replaceAll('{+', '{')
    paths[path] = { ...paths[path], [route.method]: operation(route) }
  }
  const tags = [...new Set(routes.flatMap((route) => route.tags))].sort()
  return createDocument({
    openapi: '3.1.1',
    info: {
      title: info.title,
      version: info.version,
      description: info.description,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: info.server, description: 'This server' }],
    tags: tags.map((name) => ({ name, ...(info.tags[name] && { description: info.tags[name] }) })),
    security: [{ bearer: [] }],
    paths: paths as ZodOpenApiPathsObject,
    components: {
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: 'JWT',
          description: 'RS256 access token of the identity provider, valid for 15 minutes',
        },
      },
    },
  })
}

function operation(route: Route): ZodOpenApiOperationObject {
  const header = takesIdempotencyKey(route) && z.object({ 'Idempotency-Key': IdempotencyKey })
  return {
    operationId: route.operationId,
    tags: route.tags,
    summary: route.summary,
    ...(route.description && { description: route.description }),
    ...(route.deprecated && { deprecated: true }),
    ...(route.public && { security: [] }),
    ...(route.action && { 'x-permission': permissionOf(route.action) }),
    requestParams: {
      ...(route.params && { path: route.params }),
      ...(route.query && { query: route.query }),
      ...(header && { header }),
    },
    ...requestBody(route),
    responses: {
      ...(route.raw ? rawResponses(route.raw) : successResponse(route)),
      ...problemResponses(problemsOf(route)),
    },
  }
}

/** What the permission service is asked, and for whom the answer is yes. */
const permissionOf = (action: Action) => ({ action, allowed: saysOf(ruleOf(action).allow) })

const IdempotencyKey = z.string().min(1).max(255).optional().meta({
  description:
    'Makes a repeat of this request harmless for 24 hours: it gets the first answer instead of happening twice',
  example: '8e03978e-40d5-43dd-bc93-6894a57f9324',
})

const BINARY = { type: 'string', format: 'binary', contentMediaType: 'application/octet-stream' } as const

function requestBody(route: Route): { requestBody?: ZodOpenApiRequestBodyObject } {
  if (route.bodyKind === 'bytes') {
    return { requestBody: { required: true, content: { 'application/octet-stream': { schema: BINARY } } } }
  }
  if (route.bodyKind === 'multipart') {
    const file = z.string().meta({ description: 'The file itself', override: BINARY })
    const schema = z.object({ ...(route.body instanceof z.ZodObject && route.body.shape), file })
    return { requestBody: { required: true, content: { 'multipart/form-data': { schema } } } }
  }
  if (!route.body) return {}
  const example = route.examples?.request
  const required = !route.body.safeParse({}).success
  const content = { 'application/json': { schema: route.body, ...(example !== undefined && { example }) } }
  return { requestBody: { required, content } }
}

const Meta = z.object({ request_id: z.string(), timestamp: z.iso.datetime() }).meta({ id: 'Meta' })
const EXAMPLE_META = { request_id: 'req_01j4p0f84wfhz8mpfz3mjs2qaf', timestamp: '2026-11-21T09:30:00.000Z' }
const HEADERS = {
  'X-Request-Id': { description: 'Names this request in our logs', schema: { type: 'string' } },
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
} as const

function successResponse(route: Route): Record<string, ZodOpenApiResponseObject> {
  if (!route.response) return { [route.status]: { description: 'Done', headers: HEADERS } }
  const schema = route.unwrapped ? route.response : z.object({ data: route.response, meta: Meta })
  const shown = route.examples?.response
  const example = route.unwrapped ? shown : { data: shown, meta: EXAMPLE_META }
  const content = { 'application/json': { schema, ...(shown !== undefined && { example }) } }
  const description = route.status === 201 ? 'Created' : 'OK'
  const success = { [route.status]: { description, headers: HEADERS, content } }
  if (route.method !== 'get' || route.public) return success
  return { ...success, 304: { description: 'Not modified: the client has it already (If-None-Match)' } }
}

function rawResponses(raw: NonNullable<Route['raw']>): Record<string, ZodOpenApiResponseObject> {
  const bytes = Object.fromEntries(raw.contentTypes.map((type) => [type, { schema: schemaOf(type) }]))
  const responses = Object.entries(raw.statuses).map(([status, description]) => {
    const code = Number(status)
    if (code < 300) return [status, { description, content: bytes }]
    if (code < 400) return [status, { description }]
    return [status, { description, content: { 'application/json': { schema: ProblemBody } } }]
  })
  return Object.fromEntries(responses)
}

function schemaOf(contentType: string) {
  if (/json$/.test(contentType)) return { type: 'object' } as const
  return /^text\/|mpegurl/.test(contentType) ? ({ type: 'string' } as const) : BINARY
}
