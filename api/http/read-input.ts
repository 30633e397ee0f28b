import type { Request } from 'express'
import type { BytesBody, MultipartBody } from '../requests/bytes.ts'
import { readBytes, type Streamed } from './bytes-body.ts'
import { hashOf } from './idempotency.ts'
import { readJson, readText } from './json-body.ts'
import { readForm } from './multipart.ts'
import type { Route } from './route.ts'
import { type Checked, checkFields, checkInput, type checkParams } from './validate.ts'

/** The validated input. A streamed body has only begun. */
export interface Received extends Checked {
  streamed: Streamed<MultipartBody | BytesBody> | undefined
  /** Identifies the content of the request; undefined while a streamed body is still arriving. */
  digest(): string | undefined
}

export async function readInput(
  route: Route,
  req: Request,
  params: ReturnType<typeof checkParams>,
  keyed: boolean,
): Promise<Received> {
  if (route.bodyKind === 'multipart' || route.bodyKind === 'bytes') {
    const checked = checkInput(route, params, req.query, undefined)
    const streamed = route.bodyKind === 'bytes' ? readBytes(req, keyed) : checkedForm(route, await readForm(req))
    const digest = () => {
      const body = streamed.digest()
      return body && hashOf(checked.params, checked.query, body)
    }
    return { ...checked, body: streamed.body, streamed, digest }
  }
  if (route.bodyKind === 'text') {
    const checked = checkInput(route, params, req.query, undefined)
    const body = await readText(req, route.textType ?? 'application/json')
    return { ...checked, body, streamed: undefined, digest: () => hashOf(checked.params, checked.query, body) }
  }
  const body = route.body && params.success ? await readJson(req) : undefined
  const checked = checkInput(route, params, req.query, body)
  return { ...checked, streamed: undefined, digest: () => hashOf(checked.params, checked.query, body) }
}

/** `{+path}` arrives as a list of segments. */
export const restJoined = (params: Record<string, string | string[]>) =>
  Object.fromEntries(
    Object.entries(params).map(([name, value]) => [name, Array.isArray(value) ? value.join('/') : value]),
  )

/** A form whose `finished` also checks the text fields. */
function checkedForm(route: Route, form: Streamed<MultipartBody>): Streamed<MultipartBody> {
  const { body: schema } = route
  if (!schema) return form
  const finished = async () => {
    const fields = await form.body.finished()
    checkFields(schema, fields)
    return fields
  }
  return { ...form, body: { ...form.body, finished } }
}
