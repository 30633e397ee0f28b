import {
  createDocument,
  type ZodOpenApiOperationObject,
  type ZodOpenApiOverrideContext,
  type ZodOpenApiPathsObject,
  type ZodOpenApiResponseObject,
} from 'zod-openapi'
import { type Action, saysOf } from '../permissions/rule.ts'
import { BINARY, requestBody } from './openapi-bodies.ts'
import { deprecation, HEADERS, headersOf, requestHeaders, successHeaders } from './openapi-headers.ts'
import { linksOf } from './openapi-links.ts'
import { envelopeOf, named, pascalCase } from './openapi-names.ts'
import { problemResponses } from './openapi-problems.ts'
import { isTagged, type Route } from './route.ts'

export interface DocumentInfo {
  title: string
  version: string
  description: string
  /** The base path of all addresses in the document. */
  server: string
  /** Descriptions of the tags. */
  tags: Record<string, string>
}
export type OpenApiDocument = ReturnType<typeof createDocument>

/** Rules that apply to every operation. */
const CONVENTIONS = `
A successful response is \`{data, meta}\`; a refusal is \`{error}\` with a stable \`code\`. Every response has the id of
its request in \`X-Request-Id\`. The server makes it. A client that sends an id of its own in this header finds it in the
log and in the audit log beside that of the server, if it has at most 128 letters, digits and \`._:/+=-\`.

Later versions of v1 only add: fields to responses, optional fields to requests, values to enums, codes to problems.
Clients must ignore unknown fields and accept unknown values.

The server responds 404 if an address does not exist or the caller may not see it. To an unsupported method it responds
405 with \`Allow\`, to OPTIONS 204 with \`Allow\`; HEAD is supported wherever GET is. The address and the headers
together may have 16 KiB (431), a JSON body 256 KiB (413). The server ignores unknown fields of a query or a body.

The server stores text in Unicode's normal form NFC, without surrounding white space. Text may contain no control
characters except newline and tab, and at most 30 combining marks in a row. A time in a request is one of RFC 3339 with
any offset, with T and Z as capital letters and without leap seconds, from the year 1000 to 9999; a filter accepts earlier
years too.

An optional field of a JSON body may be null, which is the same as leaving it out. In a change of something that exists null
removes the value instead, and a field that always has a value refuses it.`

/** The OpenAPI 3.1 document of all routes. It contains exactly what the routes declare. */
export function openapi(routes: readonly Route[], info: DocumentInfo): OpenApiDocument {
  const paths: Record<string, Record<string, ZodOpenApiOperationObject>> = {}
  for (const route of routes) {
    const path = route.path.replaceAll('{+', '{')
    paths[path] = { ...paths[path], [route.method]: operation(route, routes) }
  }
  const tags = [...new Set(routes.flatMap((route) => route.tags))].sort()
  const document = {
    openapi: '3.1.1' as const,
    info: {
      title: info.title,
      version: info.version,
      description: `${info.description}.\n${CONVENTIONS}`,
      contact: { name: 'The developers of Keepsake' },
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: info.server, description: 'This server' }],
    tags: tags.map((name) => ({ name, ...(info.tags[name] && { description: info.tags[name] }) })),
    security: [{ bearer: [] }],
    paths: paths as ZodOpenApiPathsObject,
    components: {
      headers: HEADERS,
      securitySchemes: {
        bearer: {
          type: 'http' as const,
          scheme: 'bearer',
          bearerFormat: 'JWT',
          description: 'RS256 access token of the identity provider, valid for 15 minutes',
        },
      },
    },
  }
  return createDocument(document, { override: refine })
}

const MAX_INT32 = 2 ** 31 - 1

/** Adds what generated clients need: the width of numbers, and that responses may get more fields. */
function refine({ jsonSchema: schema, io }: ZodOpenApiOverrideContext): void {
  if (schema.type === 'integer') {
    const narrow =
      (schema.minimum ?? Number.NEGATIVE_INFINITY) >= -MAX_INT32 &&
      (schema.maximum ?? Number.POSITIVE_INFINITY) <= MAX_INT32
    schema.format ??= narrow ? 'int32' : 'int64'
  }
  if (schema.type === 'number') schema.format ??= 'double'
  if (io === 'output' && schema.type === 'object') growable(schema)
}

/**
 * Responses may get more fields. Also, openapi-generator's Java client refuses null for a required component although
 * the document allows it, so such a field is declared optional (docs/adr/0014-openapi-document.md).
 */
function growable(schema: ZodOpenApiOverrideContext['jsonSchema']): void {
  if (schema.additionalProperties === false) delete schema.additionalProperties
  const isNullable = (name: string) => {
    const { anyOf = [] } = Object(schema.properties?.[name]) as { anyOf?: { $ref?: string; type?: string }[] }
    return anyOf.some((one) => one.type === 'null') && anyOf.some((one) => one.$ref !== undefined)
  }
  if (schema.required) schema.required = schema.required.filter((name) => !isNullable(name))
}

function operation(route: Route, routes: readonly Route[]): ZodOpenApiOperationObject {
  const header = requestHeaders(route)
  return {
    operationId: route.operationId,
    tags: route.tags,
    summary: route.summary,
    ...(route.description && { description: route.description }),
    ...(route.deprecated && { deprecated: true }),
    ...(route.public && { security: route.identifies ? [{}, { bearer: [] }] : [] }),
    ...(route.action && { 'x-permission': permissionOf(route.action) }),
    requestParams: {
      ...(route.params && { path: route.params }),
      ...(route.query && { query: route.query }),
      ...(header && { header }),
    },
    ...requestBody(route),
    responses: responsesOf(route, routes),
  }
}

function responsesOf(route: Route, routes: readonly Route[]): Record<string, ZodOpenApiResponseObject> {
  const problems = problemResponses(route)
  if (!route.raw) return { ...successResponses(route, routes), ...problems }
  const raw = rawResponses(route.raw)
  const page = route.problemPage && { content: { 'text/html': { schema: schemaOf('text/html') } } }
  for (const [status, shared] of Object.entries(problems)) {
    const own = raw[status] ?? page
    if (!own) continue
    const { id: _, ...problem } = shared as ZodOpenApiResponseObject
    problems[status] = { ...problem, ...own, content: { ...problem.content, ...own.content } }
  }
  return { ...raw, ...problems }
}

/** The action of the operation, and the callers for whom it is allowed. */
const permissionOf = ({ name, allow }: Action) => ({ action: name, allowed: saysOf(allow) })

const EXAMPLE_META = { request_id: 'req_01j4p0f84wfhz8mpfz3mjs2qaf', timestamp: '2026-11-21T09:30:00.000Z' }
const NOT_MODIFIED = 'Not modified: the client has the current response (If-None-Match)'

function successResponses(route: Route, routes: readonly Route[]): Record<string, ZodOpenApiResponseObject> {
  const headers = successHeaders(route)
  const content = contentOf(route)
  const links = linksOf(route, routes)
  const success = { headers, ...(content && { content }), ...(Object.keys(links).length > 0 && { links }) }
  const descriptions = { [route.status]: DESCRIPTIONS[route.status], ...route.alsoStatus }
  const responses = Object.entries(descriptions).map(([status, description]) => [status, { description, ...success }])
  if (isTagged(route)) {
    responses.push(['304', { description: NOT_MODIFIED, headers: headersOf('ETag', ...deprecation(route)) }])
  }
  return Object.fromEntries(responses)
}

const DESCRIPTIONS = { 200: 'OK', 201: 'Created', 202: 'Accepted', 204: 'Done', 302: 'Elsewhere' }

function contentOf({ response, operationId, unwrapped, examples }: Route) {
  if (!response) return undefined
  const schema = unwrapped ? named(response, `${pascalCase(operationId)}Response`) : envelopeOf(response, operationId)
  const shown = examples?.response
  const example = unwrapped ? shown : { data: shown, meta: EXAMPLE_META }
  return { 'application/json': { schema, ...(shown !== undefined && { example }) } }
}

const BODILESS = ['302', '304', '416']

function rawResponses(raw: NonNullable<Route['raw']>): Record<string, ZodOpenApiResponseObject> {
  const content = Object.fromEntries(raw.contentTypes.map((type) => [type, { schema: schemaOf(type) }]))
  const responses = Object.entries(raw.statuses).map(([status, description]) => {
    const own = raw.headers?.[Number(status)] ?? {}
    return [
      status,
      { description, headers: { ...headersOf(), ...own }, ...(!BODILESS.includes(status) && { content }) },
    ] as const
  })
  return Object.fromEntries(responses)
}

function schemaOf(contentType: string) {
  if (/json$/.test(contentType)) return { type: 'object' } as const
  return /^text\/|mpegurl/.test(contentType) ? ({ type: 'string' } as const) : BINARY
}
