import { setTimeout as sleep } from 'node:timers/promises'
import { fetch, type Response } from 'undici'
import { ClusterError } from './cluster.ts'
import type { KubeConnection } from './kube-config.ts'
import { clusterErrorOf, parseStatus, unreachable } from './kube-errors.ts'
import { TokenBucket } from './token-bucket.ts'

export interface KubeRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string
  query?: Record<string, string | undefined>
  body?: unknown
  contentType?: string
  signal?: AbortSignal
}

/** What happened with one request, for `rest_client_*` metrics. `code` is `<error>` when there was no answer. */
export interface RequestSeen {
  method: string
  host: string
  code: string
  seconds: number
}

export interface KubeHttpOptions {
  /** Calls a second in the long run, and at once; watches do not count. */
  perSecond?: number
  burst?: number
  timeoutMs?: number
  onRequest?(seen: RequestSeen): void
}

/** Speaks to the API server in plain JSON: nothing is typed, so nothing unknown is dropped. Failures are ClusterError. */
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

  /** The decoded answer to one call. Gives up after the time limit, including the time to read the body. */
  async json<T>(request: KubeRequest): Promise<T> {
    const wait = this.#bucket.reserve()
    if (wait > 0) await sleep(wait, undefined, { ...(request.signal && { signal: request.signal }) })
    const limit = AbortSignal.timeout(this.#timeoutMs)
    const signal = request.signal ? AbortSignal.any([request.signal, limit]) : limit
    const response = await this.#send({ ...request, signal }, 'call')
    try {
      return (await response.json()) as T
    } catch (error) {
      throw unreachable(error)
    }
  }

  /** The bytes of a watch, as they come. The time limit covers the head of the answer only. */
  async stream(request: KubeRequest & { signal: AbortSignal }): Promise<AsyncIterable<Uint8Array>> {
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(new Error('no answer')), this.#timeoutMs)
    try {
      const signal = AbortSignal.any([request.signal, late.signal])
      const { body } = await this.#send({ ...request, signal }, 'watch')
      if (!body) throw new ClusterError('Unavailable', 'The watch has no body')
      return body
    } finally {
      clearTimeout(timer)
    }
  }

  async #send(request: KubeRequest, purpose: 'call' | 'watch'): Promise<Response> {
    let response = await this.#once(request, purpose)
    if (response.status === 401) {
      // The token may have been rotated since it was last read: a fresh one gets one chance.
      await response.body?.cancel()
      this.#connection.forgetCredentials()
      response = await this.#once(request, purpose)
    }
    if (response.ok) return response
    const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN)
    const text = await response.text().catch(() => '')
    throw clusterErrorOf(response.status, parseStatus(text), Number.isNaN(retryAfter) ? undefined : retryAfter)
  }

  async #once(request: KubeRequest, purpose: 'call' | 'watch'): Promise<Response> {
    const url = new URL(this.#connection.server + request.path)
    for (const [name, value] of Object.entries(request.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, value)
    }
    const startedAt = performance.now()
    let code = '<error>'
    try {
      const { headers, dispatcher } = await this.#connection.open(purpose)
      const response = await fetch(url, {
        method: request.method,
        headers: {
          ...headers,
          accept: 'application/json',
          'user-agent': 'keepsake',
          ...(request.body !== undefined && { 'content-type': request.contentType ?? 'application/json' }),
        },
        ...(request.body !== undefined && { body: JSON.stringify(request.body) }),
        ...(request.signal && { signal: request.signal }),
        dispatcher,
      })
      code = String(response.status)
      return response
    } catch (error) {
      throw unreachable(error)
    } finally {
      this.#seen({ method: request.method, host: url.host, code, seconds: (performance.now() - startedAt) / 1000 })
    }
  }
}
