import * as z from 'zod'
import type { Route } from './route.ts'

export interface Link {
  operationId: string
  description: string
  parameters: Record<string, string>
  /** An expression: the body of the next request is the data of this response; unknown fields are ignored. */
  requestBody?: string
}

/**
 * Links from a created resource: every operation whose ids are those of the request's path and one id of the response.
 * `startUpload` leads to `putChunk`, `getUpload`, `abortUpload` and `mergeUpload`.
 */
export function linksOf(from: Route, routes: readonly Route[]): Record<string, Link> {
  if (from.method !== 'post' || !(from.response instanceof z.ZodObject)) return {}
  const own = namesOf(from.params)
  const made = namesOf(from.response).filter((name) => isId(name) && !own.includes(name))
  const links = routes.flatMap((to) => made.flatMap((id) => linkTo(to, own, id) ?? []))
  return Object.fromEntries(links.map((link) => [link.operationId, link]))
}

const isId = (name: string) => name.endsWith('_id')

const namesOf = (schema: z.ZodType | undefined) => (schema instanceof z.ZodObject ? Object.keys(schema.shape) : [])

function linkTo(to: Route, own: readonly string[], id: string): Link | undefined {
  const needed = namesOf(to.params)
  const inPath = needed.includes(id)
  const inBody = namesOf(to.body).includes(id)
  if (inPath === inBody || !needed.every((name) => name === id || own.includes(name) || !isId(name))) {
    return undefined
  }
  const value = `$response.body#/data/${id}`
  const known = needed.filter((name) => isId(name) || own.includes(name))
  const path = known.map((name) => [name, name === id ? value : `$request.path.${name}`])
  return {
    operationId: to.operationId,
    description: `The \`${id}\` of the response, for \`${to.operationId}\``,
    parameters: Object.fromEntries(path),
    ...(inBody && { requestBody: '$response.body#/data' }),
  }
}
