import * as z from 'zod'
import type { Uuid } from '../../lib/contract/ids.ts'
import { type FieldIssue, invalid, notFound } from '../../lib/contract/problem.ts'
import { NOT_FOUND_ISSUE } from '../requests/schemas.ts'
import type { Route } from './route.ts'

const Nothing = z.object({})

export interface Checked {
  params: unknown
  query: unknown
  body: unknown
}

/** Parses the parameters of the path. An id that does not parse is 404, before any other check. */
export function checkParams(route: Route, params: unknown) {
  const result = (route.params ?? Nothing).safeParse(params)
  if (result.error?.issues.some(meansNotFound)) throw notFound()
  return result
}

/** The organization in the path, also where another parameter of it does not fit. */
export function organizationIn(route: Route, params: { org_id?: unknown }): Uuid | undefined {
  return route.params?.shape['org_id']?.safeParse(params.org_id).data as Uuid | undefined
}

/** Parses all input and reports all errors in one response. Ignores unknown fields. */
export function checkInput(
  route: Route,
  params: z.ZodSafeParseResult<unknown>,
  query: unknown,
  body: unknown,
): Checked {
  const queryResult = (route.query ?? Nothing).safeParse(query)
  const bodyResult = body === undefined ? { success: true, data: {}, error: undefined } : parseBody(route, body)
  const details = [
    ...issuesOf('path', params.error),
    ...issuesOf('query', queryResult.error),
    ...issuesOf('body', bodyResult.error),
  ]
  if (details.length > 0) throw invalid(details)
  return { params: params.data, query: queryResult.data, body: bodyResult.data }
}

/** Throws a Problem when the text fields of a form do not fit. */
export function checkFields(schema: z.ZodType, fields: Record<string, string>): void {
  const details = issuesOf('body', schema.safeParse(fields).error)
  if (details.length > 0) throw invalid(details)
}

const parseBody = (route: Route, body: unknown) => (route.body ?? z.unknown()).safeParse(body)

const meansNotFound = (issue: z.core.$ZodIssue) =>
  issue.code === 'custom' && (issue.params as { means?: unknown } | undefined)?.means === NOT_FOUND_ISSUE

/** Bounds the response to a hostile array. */
const MAX_ISSUES = 100

function issuesOf(where: string, error: z.ZodError | undefined): FieldIssue[] {
  if (!error) return []
  return error.issues.slice(0, MAX_ISSUES).map((issue) => {
    return { field: [where, ...issue.path.map(String)].join('.'), issue: messageOf(issue) }
  })
}

/** zod's own message, unless it would repeat the input. */
function messageOf(issue: z.core.$ZodIssue): string {
  if (issue.code === 'invalid_type' && issue.input === undefined && /received undefined$/.test(issue.message)) {
    return 'is required'
  }
  if (issue.code === 'unrecognized_keys') return 'contains unknown fields'
  return issue.message
}
