import { once } from 'node:events'
import http, { type ClientRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import https from 'node:https'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { getCACertificates } from 'node:tls'
import { type Release, StoreError, type StoreErrorCode } from './object-store.ts'

export type Body = Readable | Buffer | string | AsyncIterable<Buffer>

export interface Exchange {
  method: 'GET' | 'HEAD' | 'PUT'
  headers?: OutgoingHttpHeaders
  body?: Body
  /** Length of the body in bytes. Another length ends the connection, so that the server stores nothing. */
  size?: number
  signal?: AbortSignal | undefined
  release?: Release | undefined
}

/**
 * The kept-alive connections to one endpoint. The minio client would hold a whole part in memory and has no timeout, so
 * it only signs, and the bytes go through these connections. An idle connection is closed after `idleMs`.
 */
export function openConnections(endpoint: URL, { idleMs, ca }: { idleMs: number; ca?: string | undefined }) {
  const secure = endpoint.protocol === 'https:'
  const wire = secure ? https : http
  // An explicit `ca` replaces Node's default list, including NODE_EXTRA_CA_CERTS, so the defaults are added again.
  const trusted = secure && ca !== undefined && { ca: [...getCACertificates('default'), ca] }
  const agent = new wire.Agent({ keepAlive: true, scheduling: 'lifo', ...trusted })

  /** The minio client's requests, with the same timeout. */
  const transport: Pick<typeof http, 'request'> = {
    request(...given: unknown[]) {
      const request = Reflect.apply(wire.request, wire, given) as ClientRequest
      limitSilence(request, idleMs)
      return request
    },
  }

  /** One request. Resolves with any answer below 400, its body unread. Throws StoreError or the error of the body. */
  async function exchange(url: string, options: Exchange): Promise<IncomingMessage> {
    const { method, signal, body } = options
    const size = options.size ?? 0
    signal?.throwIfAborted()
    const headers = { ...options.headers, ...(body !== undefined && { 'content-length': size }) }
    const request = wire.request(url, { method, agent, headers })
    limitSilence(request, idleMs)
    const stop = () => {
      request.destroy()
      if (body instanceof Readable) body.destroy()
    }
    signal?.addEventListener('abort', stop, { once: true })
    try {
      return await accepted(request, await answerOf(request, options))
    } catch (error) {
      signal?.throwIfAborted()
      throw error
    } finally {
      signal?.removeEventListener('abort', stop)
    }
  }

  return { agent, transport, exchange, close: () => agent.destroy() }
}

export type Connections = ReturnType<typeof openConnections>

function limitSilence(request: ClientRequest, idleMs: number): void {
  request.setTimeout(idleMs, () =>
    request.destroy(new StoreError('Unavailable', 'The object store did not answer in time')),
  )
}

function answerOf(request: ClientRequest, { body, size = 0, release }: Exchange): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve)
    request.on('error', (error) => reject(asStoreError(error)))
    if (body === undefined) request.end()
    else
      sendBody(request, body, { size, release }).catch((error: unknown) => {
        reject(error)
        request.destroy()
      })
  })
}

async function sendBody(request: ClientRequest, body: Body, o: { size: number; release: Exchange['release'] }) {
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
    if (sent > size) throw wrongLength(size, sent)
    // Release only after the kernel has the bytes. After an error the write may still be in progress.
    const written = (error: Error | null | undefined) => error || release?.(chunk)
    if (!request.write(chunk, written)) await writable(request)
  }
  if (over) return
  if (sent < size) throw wrongLength(size, sent)
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

async function accepted(request: ClientRequest, answer: IncomingMessage): Promise<IncomingMessage> {
  const status = answer.statusCode ?? 0
  // A longer limit for the body: the reader may be slow, so a pause does not mean that the server is dead.
  if (status < 400)
    return answer.setTimeout(5 * 60_000, () => answer.destroy(new Error('The object store stopped sending')))
  try {
    const xml = (await text(answer).catch(() => '')).slice(0, 8192)
    const code = /<Code>([^<]{1,100})</.exec(xml)?.[1] ?? `HTTP ${status}`
    throw new S3Refusal(code, /<Message>([^<]{1,500})</.exec(xml)?.[1] ?? '')
  } finally {
    // After a partial body the connection cannot be reused.
    if (!request.writableFinished) request.destroy()
  }
}

const CODES: Record<string, StoreErrorCode> = {
  NoSuchKey: 'NotFound',
  NoSuchUpload: 'NotFound',
  NotFound: 'NotFound',
  'HTTP 404': 'NotFound',
  InvalidPart: 'InvalidPart',
  InvalidPartOrder: 'InvalidPart',
  BadDigest: 'BadDigest',
  InvalidDigest: 'BadDigest',
  IncompleteBody: 'IncompleteBody',
  EntityTooSmall: 'EntityTooSmall',
}

/** An error answer with the server's code. Those for an administrator (keys, bucket, clock) are Unavailable too. */
export class S3Refusal extends StoreError {
  readonly s3Code: string
  constructor(s3Code: string, message: string, options?: ErrorOptions) {
    super(CODES[s3Code] ?? 'Unavailable', `The object store answered ${s3Code}. ${message}`.trim(), options)
    this.s3Code = s3Code
  }
}

/** The server's certificate was not accepted, so no request was sent. Only an administrator can fix that. */
class CertificateError extends StoreError {
  constructor(code: string, message: string, options: ErrorOptions) {
    const hint = UNKNOWN_ISSUER.test(code) ? '. S3_CA must hold the certificate of the authority that signed it' : ''
    super('Unavailable', `The object store's certificate is not accepted: ${message} (${code})${hint}`, options)
  }
}

/** Certificate error codes of OpenSSL and Node, including Node's UNSPECIFIED. S3's codes are in mixed case. */
const CERTIFICATE_CODE =
  /^(ERR_TLS_CERT_\w+|CERT_\w+|UNABLE_TO_\w+|(DEPTH_ZERO_)?SELF_SIGNED_CERT\w*|INVALID_(CA|PURPOSE)|PATH_LENGTH_EXCEEDED|HOSTNAME_MISMATCH|CRL_\w+|ERROR_IN_C\w+|UNSPECIFIED)$/
const UNKNOWN_ISSUER = /^(UNABLE_TO_(VERIFY|GET_ISSUER)_\w+|(DEPTH_ZERO_)?SELF_SIGNED_CERT\w*|CERT_SIGNATURE_FAILURE)$/

/** Node's advice about its command line, which administrators of this product cannot follow. */
const ADVICE = /; if the root CA is installed locally.*$/s

/** Codes of the operating system, e.g. ECONNRESET. */
const SYSTEM_CODE = /^E[A-Z_]+$/

export function asStoreError(error: unknown): StoreError {
  if (error instanceof StoreError) return error
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const message = error instanceof Error ? error.message : String(error)
  if (CERTIFICATE_CODE.test(code)) return new CertificateError(code, message.replace(ADVICE, ''), { cause: error })
  return code === '' || SYSTEM_CODE.test(code)
    ? new StoreError('Unavailable', `The object store: ${code} ${message}`, { cause: error })
    : new S3Refusal(code, message, { cause: error })
}

const PASSING =
  /^(SlowDown|InternalError|ServiceUnavailable|RequestTimeout|OperationAborted|ConcurrentModification|TooManyRequests|HTTP (429|5\d\d))$/

/** Whether a retry of the same request may succeed. */
export const mayPass = (error: StoreError) =>
  error.code === 'Unavailable' &&
  !(error instanceof CertificateError) &&
  (!(error instanceof S3Refusal) || PASSING.test(error.s3Code))

export const wrongLength = (want: number, got: number) =>
  new StoreError('IncompleteBody', `The body should have ${want} bytes and has ${got > want ? 'more' : got}`)
