import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { addAbortSignal, Readable } from 'node:stream'
import { isColdKey } from '../../contract/cold-key.ts'
import { saveBody } from './file.ts'
import type { Body } from './http.ts'
import { checkContentType, checkKey, checkPartNumber, checkPartOrder, checkPrefix, checkRange } from './key.ts'
import {
  type CopyOptions,
  type ObjectInfo,
  type ObjectStore,
  type PartInfo,
  type PutOptions,
  type Release,
  StoreError,
} from './object-store.ts'
import { retrying } from './retry.ts'
import { connect, type S3Options } from './s3-client.ts'
import { COPY_PART_BYTES, copyInServer, mustHaveSize, orUnknownClass } from './s3-copy.ts'
import { s3Deletion } from './s3-delete.ts'
import { asStoreError, mayPass, openS3Connections, S3Refusal } from './s3-http.ts'
import { putInParts, SINGLE_PUT_MAX, uploadInParts } from './s3-parts.ts'
import { removeLeftSpills } from './s3-spill.ts'

const URL_SECONDS = 900

/** An object store in one S3 bucket. The bucket must exist. */
export function openS3Store(options: S3Options): ObjectStore {
  const { bucket, scratch = tmpdir() } = options
  // Only tidying: a folder that cannot be used is found out, visibly, by the first body that needs it.
  const tidied = removeLeftSpills(scratch).catch(() => undefined)
  const wire = openS3Connections(new URL(options.endpoint), { idleMs: options.idleMs ?? 60_000, ca: options.ca })
  const client = connect(options, options.endpoint, wire)
  const copier = connect(options, options.endpoint, { agent: wire.agent, transport: wire.patientTransport })
  const forClients = options.publicEndpoint ? connect(options, options.publicEndpoint, wire) : client
  const signIn = (place: string, method: string, key: string, query: Record<string, string> = {}) =>
    client.presignedUrl(method, place, key, URL_SECONDS, query)
  const sign = (method: string, key: string, query?: Record<string, string>) => signIn(bucket, method, key, query)
  const classOf = (key: string): Record<string, string> =>
    options.coldClass !== undefined && isColdKey(key) ? { 'x-amz-storage-class': options.coldClass } : {}

  const { abort, abortUploadsOf, deletePrefix, deleteForGood } = s3Deletion({
    client,
    wire,
    bucket,
    again,
    log: options.log,
    sign,
  })

  async function put(key: string, body: Body, { contentType, size, signal, release }: PutOptions): Promise<ObjectInfo> {
    checkKey(key)
    checkContentType(contentType)
    if (typeof body === 'string' || Buffer.isBuffer(body)) {
      const bytes = Buffer.from(body)
      const contentMd5 = createHash('md5').update(bytes).digest('base64')
      return again(() => putWhole(key, bytes, { contentType, contentMd5, size: bytes.length, signal }), signal)
    }
    if (size === undefined || size > SINGLE_PUT_MAX)
      return putInParts(store, key, body, { contentType, size, signal, release, scratch, again })
    return putWhole(key, body, { contentType, size, signal, release })
  }

  async function putWhole(key: string, body: Body, o: WholeOptions) {
    const md5 = o.contentMd5 === undefined ? {} : { 'content-md5': o.contentMd5 }
    const headers = { 'content-type': o.contentType, ...md5, ...classOf(key) }
    const url = client.presign({ method: 'PUT', bucket, key, headers: classOf(key), seconds: URL_SECONDS })
    const answer = await wire.exchange(url, { method: 'PUT', headers, body, ...o })
    answer.resume()
    const storageClass = classOf(key)['x-amz-storage-class']
    return { ...infoOf(key, answer), contentType: o.contentType, size: o.size, ...(storageClass && { storageClass }) }
  }

  async function get(key: string, range?: { start: number; end?: number }, signal?: AbortSignal) {
    checkKey(key)
    checkRange(range)
    const headers = range && { range: `bytes=${range.start}-${range.end ?? ''}` }
    try {
      const answer = await again(async () => {
        return wire.exchange(await sign('GET', key), { method: 'GET', ...(headers && { headers }), signal })
      }, signal)
      return { info: infoOf(key, answer), body: signal ? addAbortSignal(signal, answer) : answer }
    } catch (error) {
      const info = isRangeError(error) ? await head(key) : undefined
      if (!info) throw error
      return { info, body: Readable.from([]) }
    }
  }

  async function head(key: string, place = bucket): Promise<ObjectInfo | undefined> {
    checkKey(key)
    try {
      const answer = await again(async () => wire.exchange(await signIn(place, 'HEAD', key), { method: 'HEAD' }))
      answer.resume()
      return infoOf(key, answer)
    } catch (error) {
      if (error instanceof StoreError && error.code === 'NotFound') return undefined
      throw error
    }
  }

  async function* list(prefix: string) {
    checkPrefix(prefix)
    let token = ''
    do {
      const page = await again(() => client.listObjectsV2Query(bucket, prefix, token, '', 1000, ''))
      for (const { name, size, etag, lastModified } of page.objects) {
        if (name !== undefined) yield { key: name, size: Number(size), etag: `"${etag}"`, lastModified }
      }
      token = page.isTruncated ? page.nextContinuationToken : ''
    } while (token !== '')
  }

  async function copy(from: string, to: string, o: CopyOptions = {}): Promise<ObjectInfo> {
    checkKey(to)
    const place = options.bucketOf?.(from) ?? bucket
    const source = await head(from, place)
    if (!source) throw new StoreError('NotFound', `No object ${from}`)
    await copyInServer(
      {
        ...{ client: copier, bucket, again, abortUploads: abortUploadsOf },
        ...{ partBytes: options.copyPartBytes ?? COPY_PART_BYTES, coldClass: options.coldClass },
      },
      { ...source, bucket: place },
      to,
      o,
    )
    return mustHaveSize(await head(to), source, to)
  }

  /** An upload that is ended at once shows whether there is such a class, and leaves nothing, also in a bucket with a lock. */
  async function checkColdTier(): Promise<void> {
    if (!(await client.bucketExists(bucket).catch(rethrow)))
      throw new StoreError('BadConfiguration', `There is no bucket ${bucket} for the cold tier`)
    if (options.coldClass === undefined) return
    const key = `keepsake-check/cold/${randomUUID()}`
    await abort(key, await beginUpload(key, 'text/plain'))
  }

  async function check(): Promise<void> {
    const found = await client.bucketExists(bucket).catch(rethrow)
    if (!found) throw new StoreError('Unavailable', `There is no bucket ${bucket}`)
  }

  const beginUpload = (key: string, contentType: string) =>
    again(() => client.initiateNewMultipartUpload(bucket, key, { 'Content-Type': contentType, ...classOf(key) })).catch(
      (error: unknown) => {
        throw isColdKey(key) ? orUnknownClass(error, options.coldClass) : error
      },
    )

  const store: ObjectStore = {
    put,
    get,
    head: (key) => head(key),
    list,
    copy,
    deletePrefix,
    deleteForGood,
    async delete(key) {
      checkKey(key)
      await again(() => client.removeObject(bucket, key))
    },

    createMultipart(key, { contentType }) {
      checkKey(key)
      checkContentType(contentType)
      return beginUpload(key, contentType)
    },
    async putPart(key, uploadId, partNumber, body, { size, contentMd5, signal, release }) {
      checkKey(key)
      checkPartNumber(partNumber)
      const url = await sign('PUT', key, { uploadId, partNumber: String(partNumber) })
      const headers = contentMd5 === undefined ? {} : { 'content-md5': contentMd5 }
      const answer = await wire.exchange(url, { method: 'PUT', headers, body, size, signal, release })
      answer.resume()
      return { partNumber, etag: answer.headers.etag ?? '', size }
    },
    async listParts(key, uploadId): Promise<PartInfo[]> {
      checkKey(key)
      const parts = await again(() => client.parts(bucket, key, uploadId))
      return parts.map(({ part, etag, size }) => ({ partNumber: part, etag: `"${etag}"`, size }))
    },
    async completeMultipart(key, uploadId, parts) {
      checkKey(key)
      checkPartOrder(parts)
      const named = parts.map(({ partNumber, etag }) => ({ part: partNumber, etag }))
      // Not again(): after a lost answer, a retry would report NotFound for an object that exists.
      await client.completeMultipartUpload(bucket, key, uploadId, named).catch(async (error: unknown) => {
        const known = asStoreError(error)
        // Ceph answers 500 for an upload that no longer exists. listParts then throws NotFound, on which the caller
        // looks for the object.
        if (mayPass(known)) await client.parts(bucket, key, uploadId).catch(rethrow)
        throw known
      })
      const info = await head(key)
      if (!info) throw new StoreError('Unavailable', `${key} does not exist right after its upload was completed`)
      return info
    },
    async abortMultipart(key, uploadId) {
      checkKey(key)
      await abort(key, uploadId)
    },

    async download(key, path, signal) {
      const { info, body } = await get(key, undefined, signal)
      await saveBody(body, path, signal)
      return info
    },
    async upload(path, key, { contentType, signal }) {
      checkKey(key)
      checkContentType(contentType)
      const { size } = await stat(path)
      const inParts = await uploadInParts(store, path, key, { contentType, size, signal, again })
      if (inParts) return inParts
      return again(() => {
        const file = createReadStream(path)
        return putWhole(key, file, { contentType, size, signal }).finally(() => file.destroy())
      }, signal)
    },

    presignGet: (key, seconds, contentType) => {
      checkKey(key)
      checkContentType(contentType)
      // A signed parameter, which the client cannot change. S3 has none for `nosniff`.
      return forClients.presignedUrl('GET', bucket, key, seconds, { 'response-content-type': contentType })
    },
    check,
    checkColdTier,
    close() {
      wire.close()
      return tidied
    },
  }
  return store
}

interface WholeOptions {
  contentType: string
  /** Amazon S3 refuses bodies without it where the bucket locks what is put. A stream is sent before its digest is known. */
  contentMd5?: string
  size: number
  signal: AbortSignal | undefined
  release?: Release | undefined
}

function infoOf(key: string, { headers }: IncomingMessage): ObjectInfo {
  const storageClass = headers['x-amz-storage-class']
  const total = /\/(\d+)$/.exec(headers['content-range'] ?? '')?.[1] ?? headers['content-length'] ?? 0
  return {
    key,
    size: Number(total),
    etag: headers.etag ?? '',
    contentType: headers['content-type'] ?? 'application/octet-stream',
    // The answer to a PUT has no Last-Modified; its Date is the same moment.
    lastModified: new Date(headers['last-modified'] ?? headers.date ?? Date.now()),
    // Absent for the standard class, except after a copy to it.
    storageClass: typeof storageClass === 'string' ? storageClass : 'STANDARD',
  }
}

const isRangeError = (error: unknown) => error instanceof S3Refusal && /^(InvalidRange|HTTP 416)$/.test(error.s3Code)

const rethrow = (error: unknown): never => {
  throw asStoreError(error)
}

/** Makes up to three attempts: the server may close a kept-alive connection just as the client sends a request. */
const again = retrying({ asStoreError, mayPass, pausesMs: [100, 400] })
