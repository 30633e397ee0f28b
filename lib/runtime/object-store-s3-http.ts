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
  /** Bytes of the body; another length ends the connection, so that the server stores nothing. */
  size?: number
  signal?: AbortSignal | undefined
  release?: Release | undefined
}

/**
 * The connections to one endpoint, kept alive. The minio client would hold a whole part in memory and never times out;
 * so it only signs, and the bytes travel through here. A silent connection is given up after `idleMs`.
 */
export function openConnections(endpoint: URL, { idleMs, ca }: { idleMs: number; ca?: string | undefined }) {
  const secure = endpoint.protocol === 'https:'
  const wire = secure ? https : http
  // A list of one's own takes the place of the usual one, NODE_EXTRA_CA_CERTS included.
  const trusted = secure && ca !== undefined && { ca: [...getCACertificates('default'), ca] }
  const agent = new wire.Agent({ keepAlive: true, scheduling: 'lifo', ...trusted })

  /** For the minio client: requests with the same limit. */
  const transport: Pick<typeof http, 'request'> = {
    request(...given: unknown[]) {
      const request = Reflect.apply(wire.request, wire, given) as ClientRequest
      limitSilence(request, idleMs)
      return request
    },
  }

  /** One request. Resolves with any answer below 400 and its unread body; throws StoreError, or what the body threw. */
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
  // A server that refuses early stops reading: then nothing more is worth sending.
  request.once('response', end).once('close', end)
  for await (const chunk of chunksOf(body)) {
    if (over) return
    sent += chunk.length
    if (sent > size) throw wrongLength(size, sent)
    // Not before the kernel has it. After an error the write may still be going on.
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
    // 'error' comes first and is reported by answerOf.
  } finally {
    settled.abort()
  }
}

export async function* chunksOf(body: Body): AsyncGenerator<Buffer, void, void> {
  if (typeof body === 'string' || Buffer.isBuffer(body)) yield Buffer.from(body)
  else {
    // A refused body is left alone: destroying an HTTP request would close the connection before it is answered.
    const chunks = body instanceof Readable ? body.iterator({ destroyOnReturn: false }) : body
    for await (const chunk of chunks) yield Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk)
  }
}

async function accepted(request: ClientRequest, answer: IncomingMessage): Promise<IncomingMessage> {
  const status = answer.statusCode ?? 0
  // The readers of a long body may be slow themselves; silence is then no sign of a dead server.
  if (status < 400)
    return answer.setTimeout(5 * 60_000, () => answer.destroy(new Error('The object store fell silent')))
  try {
    const xml = (await text(answer).catch(() => '')).slice(0, 8192)
    const code = /<Code>([^<]{1,100})</.exec(xml)?.[1] ?? `HTTP ${status}`
    throw new S3Refusal(code, /<Message>([^<]{1,500})</.exec(xml)?.[1] ?? '')
  } finally {
    // With the body only half sent the connection is of no use any more.
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

/** An answer of the server, with its own code. What only a person can repair (keys, bucket, clock) is Unavailable too. */
export class S3Refusal extends StoreError {
  readonly s3Code: string
  constructor(s3Code: string, message: string, options?: ErrorOptions) {
    super(CODES[s3Code] ?? 'Unavailable', `The object store answered ${s3Code}. ${message}`.trim(), options)
    this.s3Code = s3Code
  }
}

/** Nothing was asked of the server: who it says it is was not believed. Only a person can repair that. */
class CertificateError extends StoreError {
  constructor(code: string, message: string, options: ErrorOptions) {
    const hint = UNKNOWN_ISSUER.test(code) ? '. S3_CA must hold the certificate of the authority that signed it' : ''
    super('Unavailable', `The object store's certificate is not accepted: ${message} (${code})${hint}`, options)
  }
}

/** Codes of OpenSSL and Node for a certificate, one of which Node has no name for; those of S3 are in mixed case. */
const CERTIFICATE_CODE =
  /^(ERR_TLS_CERT_\w+|CERT_\w+|UNABLE_TO_\w+|(DEPTH_ZERO_)?SELF_SIGNED_CERT\w*|INVALID_(CA|PURPOSE)|PATH_LENGTH_EXCEEDED|HOSTNAME_MISMATCH|CRL_\w+|ERROR_IN_C\w+|UNSPECIFIED)$/
const UNKNOWN_ISSUER = /^(UNABLE_TO_(VERIFY|GET_ISSUER)_\w+|(DEPTH_ZERO_)?SELF_SIGNED_CERT\w*|CERT_SIGNATURE_FAILURE)$/

/** Node's own about its command line, which nobody who reads our message can change. */
const ADVICE = /; if the root CA is installed locally.*$/s

/** Codes of the machine: ECONNRESET and the like. */
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

/** Whether the same request may succeed in a moment. */
export const mayPass = (error: StoreError) =>
  error.code === 'Unavailable' &&
  !(error instanceof CertificateError) &&
  (!(error instanceof S3Refusal) || PASSING.test(error.s3Code))

export const wrongLength = (want: number, got: number) =>
  new StoreError('IncompleteBody', `The body should have ${want} bytes and has ${got > want ? 'more' : got}`)
