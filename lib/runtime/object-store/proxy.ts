import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { addAbortSignal, type Readable } from 'node:stream'
import { json } from 'node:stream/consumers'
import type * as z from 'zod'
import {
  DeletedBody,
  DoneBody,
  InfoBody,
  ListedBody,
  OBJECT_HEADER,
  ObjectBody,
  PartBody,
  PartsBody,
  Refusal,
  UploadBody,
} from '../../contract/store-proxy.ts'
import { socketAddress } from '../unix-socket.ts'
import { saveBody } from './file.ts'
import { type Body, type Errors, type Exchange, openConnections } from './http.ts'
import {
  checkContentType,
  checkFolderPrefix,
  checkKey,
  checkPartNumber,
  checkPartOrder,
  checkPrefix,
  checkRange,
} from './key.ts'
import { type ObjectInfo, type ObjectStore, type PutOptions, StoreError } from './object-store.ts'
import { type Again, retrying } from './retry.ts'
import { uploadInParts } from './s3-parts.ts'

/** The proxy behind the socket did not answer: it starts, restarts or is gone. */
class ProxyGone extends StoreError {
  constructor(error: unknown) {
    const { code, message } = error as NodeJS.ErrnoException
    super('Unavailable', `The store proxy does not answer: ${code ?? message}`, { cause: error })
  }
}

/** The grant does not permit the request. A repetition changes nothing. */
class ProxyRefusal extends StoreError {}

const notForJobs = () => new StoreError('BadConfiguration', 'The store proxy does not offer this to jobs')

const asStoreError = (error: unknown): StoreError => (error instanceof StoreError ? error : new ProxyGone(error))

const refusal: Errors['ofAnswer'] = (status, text) => {
  const said = parsed(Refusal, text)
  if (!said) return new StoreError('Unavailable', `The store proxy answered ${status}`)
  return said.code === 'Refused'
    ? new ProxyRefusal('Unavailable', said.message)
    : new StoreError(said.code, said.message)
}

function parsed<S extends z.ZodType>(schema: S, text: string): z.output<S> | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

/** About half a minute: the proxy starts beside the program, and is restarted when it ends. */
const STARTING_MS = [
  ...[25, 25, 25, 25, 50, 50, 50, 50, 100, 100, 100, 100, 200, 200, 400, 800],
  ...[1600, 3200, 6400, 6400, 6400, 6400],
]
/** Longer than the store takes behind the proxy, with its own retries. */
const IDLE_MS = 5 * 60_000

/**
 * The part of an object store that the proxy at a Unix socket grants (`jobs/store-proxy`). It needs no credential. What
 * is not granted is `Unavailable`, as S3 would answer a key without rights.
 */
export function openProxyStore({ socket, idleMs = IDLE_MS }: { socket: string; idleMs?: number }): ObjectStore {
  const connections = openConnections(new URL('http://store'), {
    idleMs,
    errors: { ofConnection: asStoreError, ofAnswer: refusal },
    socketPath: socketAddress(socket),
  })
  const again = retrying({ asStoreError, mayPass: (e) => e instanceof ProxyGone, pausesMs: STARTING_MS })
  const busy = retrying({
    asStoreError,
    mayPass: (e) => e.code === 'Unavailable' && !(e instanceof ProxyRefusal || e instanceof ProxyGone),
    pausesMs: [100, 400],
  })
  /** The proxy cannot repeat what it streams to the store, so the caller, which has a file, repeats it. */
  const whole: Again = (work, signal) => again(() => busy(work, signal), signal)

  const exchange = (operation: string, query: Query, options: Exchange) =>
    connections.exchange(`http://store/${operation}?${new URLSearchParams(query)}`, options)

  async function answered<S extends z.ZodType>(schema: S, answer: Promise<IncomingMessage>): Promise<z.output<S>> {
    return schema.parse(await json(await answer))
  }

  /** A request that may be repeated and whose answer is small. */
  const call = <S extends z.ZodType>(schema: S, operation: string, query: Query, options: Exchange) =>
    again(() => answered(schema, exchange(operation, query, options)))

  async function send(key: string, body: Body, { contentType, size, signal, release }: PutOptions) {
    const headers = { 'content-type': contentType }
    const length = typeof body === 'string' || Buffer.isBuffer(body) ? Buffer.byteLength(body) : size
    return answered(
      InfoBody,
      exchange('object', { key }, { method: 'PUT', headers, body, size: length, signal, release }),
    )
  }

  async function get(key: string, range?: { start: number; end?: number }, signal?: AbortSignal) {
    checkKey(key)
    checkRange(range)
    const headers = range && { range: `bytes=${range.start}-${range.end ?? ''}` }
    const answer = await again(
      () => exchange('object', { key }, { method: 'GET', signal, ...(headers && { headers }) }),
      signal,
    )
    const info = InfoBody.parse(JSON.parse(String(answer.headers[OBJECT_HEADER])))
    return { info, body: signal ? addAbortSignal(signal, answer) : answer }
  }

  const store: ObjectStore = {
    async put(key, body: Readable | Buffer | string, options): Promise<ObjectInfo> {
      checkKey(key)
      checkContentType(options.contentType)
      if (typeof body === 'string' || Buffer.isBuffer(body))
        return whole(() => send(key, body, options), options.signal)
      // The body can be read only once, so wait for the proxy first.
      await call(DoneBody, 'ping', {}, { method: 'GET' })
      return send(key, body, options)
    },
    get,
    async head(key) {
      checkKey(key)
      return (await call(ObjectBody, 'info', { key }, { method: 'GET' })).object ?? undefined
    },
    async *list(prefix) {
      checkPrefix(prefix)
      const answer = await again(() => exchange('list', { prefix }, { method: 'GET' }))
      for await (const line of linesOf(answer)) yield ListedBody.parse(JSON.parse(line))
    },
    async delete(key) {
      checkKey(key)
      await call(DoneBody, 'object', { key }, { method: 'DELETE' })
    },
    checkColdTier: () => Promise.reject(notForJobs()),
    copy: () => Promise.reject(notForJobs()),
    deleteForGood: () => Promise.reject(notForJobs()),
    async deletePrefix(prefix) {
      checkFolderPrefix(prefix)
      return (await call(DeletedBody, 'list', { prefix }, { method: 'DELETE' })).deleted
    },

    async createMultipart(key, { contentType }) {
      checkKey(key)
      checkContentType(contentType)
      const headers = { 'content-type': contentType }
      return (await call(UploadBody, 'uploads', { key }, { method: 'POST', headers })).uploadId
    },
    async putPart(key, uploadId, partNumber, body, { size, contentMd5, signal, release }) {
      checkKey(key)
      checkPartNumber(partNumber)
      const query = { key, uploadId, partNumber: String(partNumber) }
      const headers = contentMd5 === undefined ? {} : { 'content-md5': contentMd5 }
      return answered(PartBody, exchange('part', query, { method: 'PUT', headers, body, size, signal, release }))
    },
    listParts(key, uploadId) {
      checkKey(key)
      return call(PartsBody, 'parts', { key, uploadId }, { method: 'GET' })
    },
    async completeMultipart(key, uploadId, parts) {
      checkKey(key)
      checkPartOrder(parts)
      const named = JSON.stringify(parts.map(({ partNumber, etag }) => ({ partNumber, etag })))
      const options = { method: 'POST', body: named, size: Buffer.byteLength(named) } as const
      // Not again(): after a lost answer, a retry would report NotFound for an object that exists.
      return answered(InfoBody, exchange('upload', { key, uploadId }, options)).catch((error: unknown) => {
        throw asStoreError(error)
      })
    },
    async abortMultipart(key, uploadId) {
      checkKey(key)
      await call(DoneBody, 'upload', { key, uploadId }, { method: 'DELETE' })
    },

    async download(key, path, signal) {
      for (let attempt = 1; ; attempt++) {
        try {
          const { info, body } = await get(key, undefined, signal)
          await saveBody(body, path, signal)
          return info
        } catch (error) {
          // The proxy ended, or its connection to the store did.
          if ((error as NodeJS.ErrnoException).code !== 'ECONNRESET' || signal?.aborted || attempt === 3) throw error
        }
      }
    },
    async upload(path, key, { contentType, signal }) {
      checkKey(key)
      checkContentType(contentType)
      const { size } = await stat(path)
      const inParts = await uploadInParts(store, path, key, { contentType, size, signal, again: whole })
      if (inParts) return inParts
      return whole(() => {
        const file = createReadStream(path)
        return send(key, file, { contentType, size, ...(signal && { signal }) }).finally(() => file.destroy())
      }, signal)
    },

    /** The proxy signs nothing: a link would outlive the Job. */
    presignGet: () => Promise.resolve(undefined),
    async check() {
      await call(DoneBody, 'check', {}, { method: 'GET' })
    },
    close() {
      connections.close()
      return Promise.resolve()
    },
  }
  return store
}

type Query = Record<string, string>

async function* linesOf(answer: IncomingMessage): AsyncGenerator<string, void, void> {
  let rest = ''
  for await (const text of answer.setEncoding('utf8') as AsyncIterable<string>) {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
}
