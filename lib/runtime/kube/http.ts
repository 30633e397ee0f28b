import { type IncomingMessage, request as plainRequest, type RequestOptions } from 'node:http'
import { request as tlsRequest } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import { TokenBucket } from '../token-bucket.ts'
import type { KubeConnection, KubeRoute } from './connection.ts'
import { clusterErrorOf, parseStatus, unreachable } from './errors.ts'

export interface KubeRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string
  query?: Record<string, string | undefined>
  body?: unknown
  contentType?: string
  signal?: AbortSignal
}

/** The outcome of one request, for `rest_client_*` metrics. `code` is `<error>` when there was no answer. */
export interface RequestSeen {
  method: string
  host: string
  code: string
  seconds: number
}

export interface KubeHttpOptions {
  /** Sustained calls per second; watches do not count. `burst` is the number of calls allowed at once. */
  perSecond?: number
  burst?: number
  timeoutMs?: number
  onRequest?(seen: RequestSeen): void
}

/** An answer whose headers have arrived. */
interface Answer {
  message: IncomingMessage
  /** Cancels the time limit. */
  inTime(): void
}

/**
 * Talks to the API server in plain, untyped JSON, so unknown fields survive. Failures are ClusterError. Uses node:http,
 * which costs half the CPU of fetch and a quarter of its memory.
 */
export class KubeHttp {
  readonly #connection: KubeConnection
  readonly #bucket: TokenBucket
  readonly #timeoutMs: number
  readonly #seen: (seen: RequestSeen) => void

  constructor(connection: KubeConnection, options: KubeHttpOptions = {}) {
    this.#connection = connection
    this.#bucket = new TokenBucket({ perSecond: options.perSecond ?? 50, burst: options.burst ?? 100 })
    this.#timeoutMs = options.timeoutMs ?? 30_000
    this.#seen = options.onRequest ?? (() => {})
  }

  /** The decoded answer to one call. The time limit includes reading the body. */
  async json<T>(request: KubeRequest): Promise<T> {
    const wait = this.#bucket.reserve()
    if (wait > 0) await sleep(wait, undefined, { ...(request.signal && { signal: request.signal }) })
    const { message, inTime } = await this.#send(request, 'call')
    try {
      return JSON.parse(await textOf(message)) as T
    } catch (error) {
      throw unreachable(error)
    } finally {
      inTime()
    }
  }

  /** The bytes of a watch as they arrive. The time limit covers only the headers of the answer. */
  async stream(request: KubeRequest & { signal: AbortSignal }): Promise<AsyncIterable<Uint8Array>> {
    const { message, inTime } = await this.#send(request, 'watch')
    inTime()
    return message
  }

  async #send(request: KubeRequest, purpose: 'call' | 'watch'): Promise<Answer> {
    let answer = await this.#once(request, purpose)
    if (answer.message.statusCode === 401) {
      // The token may have been rotated since it was last read: retry once with a fresh one.
      answer.message.resume()
      answer.inTime()
      this.#connection.forgetCredentials()
      answer = await this.#once(request, purpose)
    }
    const { message, inTime } = answer
    const { statusCode: code = 0, headers } = message
    if (code >= 200 && code < 300) return answer
    const retryAfter = Number(headers['retry-after'] ?? Number.NaN)
    const text = await textOf(message).catch(() => '')
    inTime()
    throw clusterErrorOf(code, parseStatus(text), Number.isNaN(retryAfter) ? undefined : retryAfter)
  }

  async #once(request: KubeRequest, purpose: 'call' | 'watch'): Promise<Answer> {
    const startedAt = performance.now()
    let host = ''
    let code = '<error>'
    try {
      const route = await this.#connection.open(purpose)
      host = route.server.host
      const answer = await this.#exchange(request, route)
      code = String(answer.message.statusCode)
      return answer
    } catch (error) {
      throw unreachable(error)
    } finally {
      this.#seen({ method: request.method, host, code, seconds: (performance.now() - startedAt) / 1000 })
    }
  }

  #exchange({ method, path, query, body, contentType, signal }: KubeRequest, route: KubeRoute): Promise<Answer> {
    const { server, agent } = route
    const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    const headers: Record<string, string | number> = {
      ...route.headers,
      accept: 'application/json',
      'user-agent': 'keepsake',
    }
    if (payload) {
      headers['content-type'] = contentType ?? 'application/json'
      headers['content-length'] = payload.length
    }
    const options: RequestOptions = {
      hostname: server.hostname.replace(/^\[|\]$/g, ''),
      port: server.port,
      path: server.pathname.replace(/\/$/, '') + path + queryOf(query),
      method,
      headers,
      agent,
      ...(signal && { signal }),
    }
    return new Promise((resolve, reject) => {
      const sent = (server.protocol === 'https:' ? tlsRequest : plainRequest)(options)
      const late = () => sent.destroy(new Error(`no answer within ${this.#timeoutMs} ms`))
      const timer = setTimeout(late, this.#timeoutMs)
      sent.once('response', (message) => resolve({ message, inTime: () => clearTimeout(timer) }))
      // Keep listening after the headers have arrived: textOf reports that error, but without a listener it would crash
      // the process.
      sent.on('error', (error) => {
        clearTimeout(timer)
        reject(error)
      })
      sent.end(payload)
    })
  }
}

function queryOf(query: KubeRequest['query']): string {
  if (!query) return ''
  const given = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined)
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`
}

function textOf(message: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    message.on('data', (chunk: Buffer) => chunks.push(chunk))
    message.once('end', () => {
      resolve(chunks.length === 1 ? String(chunks[0]) : Buffer.concat(chunks).toString())
    })
    message.once('error', reject)
    message.once('close', () => reject(new Error('The answer was cut')))
  })
}
