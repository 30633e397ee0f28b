import { hash } from 'node:crypto'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Request, Response } from 'express'
import type { RawReply } from '../requests/bytes.ts'
import type { Stored } from './idempotency.ts'
import { isNoneMatch } from './if-none-match.ts'
import { ClientGone, stateOf } from './request.ts'
import { isTagged, type Reply, type Route } from './route.ts'

/** Headers of deprecated operations: deprecated since (RFC 9745), removed at (RFC 8594). */
export const DEPRECATION = {
  Deprecation: `@${Date.UTC(2026, 10, 1) / 1000}`,
  Sunset: new Date(Date.UTC(2027, 10, 1)).toUTCString(),
}

/**
 * Passes the data through the response schema, which drops undeclared fields and makes public ids of UUIDs. Data that does
 * not fit is a bug of this server: the request fails in tests and development; in production the server logs it and
 * responds anyway.
 */
export function render(route: Route, data: unknown, strict: boolean, res: Response): unknown {
  if (!route.response) return null
  const result = route.response.safeParse(data)
  if (result.success) return result.data
  const error = new Error(`the response of ${route.operationId} does not fit its schema`, { cause: result.error })
  if (strict) throw error
  stateOf(res).log.error({ err: error }, 'response does not fit its schema')
  // `safeParse` returns nothing of such data; this returns it with the same ids and without undeclared fields.
  return (route.response._zod.run({ value: data, issues: [] }, { async: false }) as { value: unknown }).value
}

export function sendReply(req: Request, res: Response, route: Route, reply: Reply<unknown>, data: unknown): void {
  const status = reply.status ?? route.status
  const text = status === 204 ? '' : JSON.stringify(data)
  res.set(reply.headers ?? {})
  const tagged = isTagged(route) ? (reply.etag ?? text) : undefined
  if (tagged !== undefined && sendIfCurrent(req, res, tagged)) return
  if (!res.get('Cache-Control')) res.set('Cache-Control', tagged === undefined ? 'no-store' : 'private, no-cache')
  sendData(res, route, status, text)
}

/** Sets the headers of this tag. True after a 304, for a client that has what it stands for. */
export function sendIfCurrent(req: Request, res: Response, tagged: string): boolean {
  // Links in the data change every 15 minutes, and the tag with them: after a 304 the client's links are still valid.
  const tag = `W/"${hash('sha256', `${stateOf(res).userId} ${tagged}`, 'base64url').slice(0, 22)}"`
  res.set('ETag', tag)
  res.vary('Authorization')
  if (!isNoneMatch(req.headers['if-none-match'], tag)) return false
  if (!res.get('Cache-Control')) res.set('Cache-Control', 'private, no-cache')
  res.status(304).end()
  return true
}

function sendData(res: Response, route: Route, status: number, data: string): void {
  res.status(status)
  if (status === 204) return void res.end()
  const { requestId, clock } = stateOf(res)
  const meta = { request_id: requestId, timestamp: clock.now().toISOString() }
  sendJson(res, route.unwrapped ? data : `{"data":${data},"meta":${JSON.stringify(meta)}}`)
}

/** Sends text, which leaves in one write with its headers; `res.json` makes a buffer of it first. */
function sendJson(res: Response, text: string): void {
  const length = Buffer.byteLength(text)
  res.setHeader('Content-Type', 'application/json; charset=utf-8')
  res.setHeader('Content-Length', length)
  if (res.req.method === 'HEAD') return void res.end()
  // Pure ASCII has the same bytes in latin1, which needs no encoding.
  res.end(text, length === text.length ? 'latin1' : 'utf8')
}

/** Sends the stored response of an earlier request with the same Idempotency-Key. */
export function sendStored(res: Response, route: Route, stored: Stored): void {
  res.set({ 'Idempotency-Replayed': 'true', 'Cache-Control': 'no-store' })
  sendData(res, route, stored.status, JSON.stringify(stored.data))
}

/** Streams with backpressure. Stops reading if the client disconnects; closes the connection if the source fails. */
export async function sendRaw(req: Request, res: Response, reply: RawReply): Promise<void> {
  const { body, status, headers } = reply
  if (body === undefined || typeof body === 'string' || Buffer.isBuffer(body)) {
    res.status(status).set(headers)
    if (body !== undefined) res.set('Content-Length', String(Buffer.byteLength(body)))
    return void res.end(req.method === 'HEAD' ? undefined : body)
  }
  if (req.method === 'HEAD') {
    body.on('error', () => {}).destroy()
    return void res.status(status).set(headers).end()
  }
  // If the source fails before its first byte, the client can still get a problem envelope.
  await readableOrEnded(body)
  res.status(status).set(headers)
  await pipeline(body, res).catch((error: unknown) => {
    throw (error as { code?: unknown }).code === 'ERR_STREAM_PREMATURE_CLOSE' ? new ClientGone() : error
  })
}

function readableOrEnded(body: Readable): Promise<void> {
  if (body.readableLength > 0 || body.readableEnded) return Promise.resolve()
  return new Promise((resolve, reject) => {
    const settle = (error?: Error | null) => {
      body.off('readable', settle).off('end', settle).off('close', settle).off('error', settle)
      if (error) reject(error)
      else resolve()
    }
    const done = () => settle()
    body.once('readable', done).once('end', done).once('close', done).once('error', settle)
  })
}
