import * as z from 'zod'
import type { ZodOpenApiRequestBodyObject } from 'zod-openapi'
import { named, pascalCase } from './openapi-names.ts'
import type { Route } from './route.ts'

export const BINARY = { type: 'string', format: 'binary', contentMediaType: 'application/octet-stream' } as const

/** The request body of a route; named e.g. `StartUploadBody` unless its schema has a name. */
export function requestBody(route: Route): { requestBody?: ZodOpenApiRequestBodyObject } {
  const name = `${pascalCase(route.operationId)}Body`
  if (route.bodyKind === 'bytes') {
    return { requestBody: { required: true, content: { 'application/octet-stream': { schema: BINARY } } } }
  }
  if (route.bodyKind === 'multipart') {
    const content = { schema: formOf(route.body).meta({ id: name }), example: exampleOf(route) }
    return { requestBody: { required: true, content: { 'multipart/form-data': content } } }
  }
  if (!route.body) return {}
  if (route.bodyKind === 'text') {
    const content = { schema: named(route.body, name), example: route.examples?.request }
    return { requestBody: { required: true, content: { [route.textType ?? 'application/json']: content } } }
  }
  const example = route.examples?.request
  const required = !route.body.safeParse({}).success
  const content = { schema: named(route.body, name), ...(example !== undefined && { example }) }
  return { requestBody: { required, content: { 'application/json': content } } }
}

/** The text fields of a form, and the file: a reader of the document sees what the parts are called. */
const exampleOf = ({ examples }: Route) => ({ ...(examples?.request as object), file: '(the bytes of the file)' })

const File = z.string().meta({ description: 'The file itself', override: BINARY })

const formOf = (fields: z.ZodType | undefined) =>
  z.object({ ...(fields instanceof z.ZodObject && fields.shape), file: File })
