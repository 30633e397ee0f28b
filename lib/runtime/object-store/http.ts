import { once } from 'node:events'
import http, { type ClientRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import https from 'node:https'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { getCACertificates } from 'node:tls'
import { type Release, StoreError } from './object-store.ts'

export type Body = Readable | Buffer | string | AsyncIterable<Buffer>

export interface Exchange {
  method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'
  headers?: OutgoingHttpHeaders
  body?: Body
  /**
   * Length of the body in bytes. Another length ends the connection, so that the server stores nothing. Undefined: the
   * body is sent in chunks.
   */
  size?: number | undefined
  signal?: AbortSignal | undefined
  release?: Release | undefined
}

/** How a kind of server reports failures. */
export interface Errors {
  /** The connection failed, or could not be made. */
  ofConnection(error: unknown): StoreError
  /** The server answered with a status of 400 or more; `start` is the start of the body. */
  ofAnswer(status: number, start: string): StoreError
}

interface ConnectionOptions {
  /** Milliseconds without traffic after which a connection is closed. */
  idleMs: number
  errors: Errors
  /** CA certificates in PEM that are trusted in addition to the public ones. */
  ca?: string | undefined
  /** A Unix socket to connect to instead of the endpoint's host and port. */
  socketPath?: string | undefined
}

/** What the minio client needs of `node:http`. */
export type Transport = Pick<typeof http, 'request'>
type OnAnswer = (answer: IncomingMessage) => void

/** The kept-alive connections to one endpoint, which stream bodies in both directions. */
export function openConnections(endpoint: URL, { idleMs, errors, ca, socketPath }: ConnectionOptions) {
  const secure = endpoint.protocol === 'https:'
  const wire = secure ? https : http
  // An explicit `ca` replaces Node's default list, including NODE_EXTRA_CA_CERTS, so the defaults are added again.
  const trusted = secure && ca !== undefined && { ca: [...getCACertificates('default'), ca] }
  const agent = new wire.Agent({ keepAlive: true, scheduling: 'lifo', ...trusted, ...(socketPath && { socketPath }) })

  /** The minio client's requests, with a timeout, and with the errors of `exchange` where the client's say nothing. */
  const transport = (silenceMs: number): Transport => ({
    request(...given: unknown[]) {
      const [options, onAnswer] = given as [object, OnAnswer]
      const request: ClientRequest = wire.request(options, (answer: IncomingMessage) => {
        if (!LOST_BY_CLIENT.test(String(answer.statusCode))) return onAnswer(answer)
        refused(answer, errors).catch((error: unknown) => request.emit('error', error))
      })
      limitSilence(request, silenceMs)
      return request
    },
  })

  /** One request. Resolves with any answer below 400, its body unread. Throws StoreError or the error of the body. */
  async function exchange(url: string, options: Exchange): Promise<IncomingMessage> {
    const { method, signal, body, size } = options
    signal?.throwIfAborted()
    const headers = { ...options.headers, ...(body !== undefined && size !== undefined && { 'content-length': size }) }
    const request = wire.request(url, { method, agent, headers })
    limitSilence(request, idleMs)
    const stop = () => {
      request.destroy()
      if (body instanceof Readable) body.destroy()
    }
    signal?.addEventListener('abort', stop, { once: true })
    try {
      return await accepted(request, await answerOf(request, options, errors), errors)
    } catch (error) {
      signal?.throwIfAborted()
      throw error
    } finally {
      signal?.removeEventListener('abort', stop)
    }
  }

  return {
    agent,
    transport: transport(idleMs),
    patientTransport: transport(PATIENCE * idleMs),
    exchange,
    close: () => agent.destroy(),
  }
}

export type Connections = ReturnType<typeof openConnections>

/** How many times longer a server may be silent that works meanwhile, as it is while it copies. */
const PATIENCE = 5
/** Statuses of which the minio client throws an error without the server's code: `SlowDown` would look as if it were down. */
const LOST_BY_CLIENT = /^(408|429|499|5\d\d)$/

function limitSilence(request: ClientRequest, idleMs: number): void {
  request.setTimeout(idleMs, () =>
    request.destroy(new StoreError('Unavailable', 'The object store did not answer in time')),
  )
}

function answerOf(request: ClientRequest, { body, size, release }: Exchange, errors: Errors): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve)
    request.on('error', (error) => reject(errors.ofConnection(error)))
    if (body === undefined) request.end()
    else
      sendBody(request, body, { size, release }).catch((error: unknown) => {
        reject(error)
        request.destroy()
      })
  })
}

async function sendBody(request: ClientRequest, body: Body, o: Pick<Exchange, 'size' | 'release'>) {
  const { size, release } = o
  let sent = 0
  let over = false
  const end = () => {
    over = true
  }
  // A server that refuses early stops reading, so stop sending.
  request.once('response', end).once('close', end)
  for await (const chunk of chunksOf(body)) {
    if (over) return
    sent += chunk.length
    if (size !== undefined && sent > size) throw wrongLength(size, sent)
    // Release only after the kernel has the bytes. After an error the write may still be in progress.
    const written = (error: Error | null | undefined) => error || release?.(chunk)
    if (!request.write(chunk, written)) await writable(request)
  }
  if (over) return
  if (size !== undefined && sent < size) throw wrongLength(size, sent)
  request.end()
}

async function writable(request: ClientRequest): Promise<void> {
  const settled = new AbortController()
  const { signal } = settled
  try {
    await Promise.race(['drain', 'response', 'close'].map((name) => once(request, name, { signal })))
  } catch {
    // answerOf reports the 'error' event.
  } finally {
    settled.abort()
  }
}

export async function* chunksOf(body: Body): AsyncGenerator<Buffer, void, void> {
  if (typeof body === 'string' || Buffer.isBuffer(body)) yield Buffer.from(body)
  else {
    // Do not destroy a refused body: destroying an HTTP request would close the connection before the answer.
    const chunks = body instanceof Readable ? body.iterator({ destroyOnReturn: false }) : body
    for await (const chunk of chunks) yield Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk)
  }
}

async function accepted(request: ClientRequest, answer: IncomingMessage, errors: Errors): Promise<IncomingMessage> {
  const status = answer.statusCode ?? 0
  // A longer limit for the body: the reader may be slow, so a pause does not mean that the server is dead.
  if (status < 400)
    return answer.setTimeout(5 * 60_000, () => answer.destroy(new Error('The object store stopped sending')))
  try {
    return await refused(answer, errors)
  } finally {
    // After a partial body the connection cannot be reused.
    if (!request.writableFinished) request.destroy()
  }
}

async function refused(answer: IncomingMessage, errors: Errors): Promise<never> {
  throw errors.ofAnswer(answer.statusCode ?? 0, (await text(answer).catch(() => '')).slice(0, 8192))
}

export const wrongLength = (want: number, got: number) =>
  new StoreError('IncompleteBody', `The body should have ${want} bytes and has ${got > want ? 'more' : got}`)
