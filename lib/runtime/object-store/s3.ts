import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { addAbortSignal, Readable } from 'node:stream'
import { saveBody } from './file.ts'
import type { Body } from './http.ts'
import {
  checkContentType,
  checkFolderPrefix,
  checkKey,
  checkPartNumber,
  checkPartOrder,
  checkPrefix,
  checkRange,
} from './key.ts'
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
import { COPY_PART_BYTES, copyInServer, mustHaveSize } from './s3-copy.ts'
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
  const forClients = options.publicEndpoint ? connect(options, options.publicEndpoint, wire) : client
  const signIn = (place: string, method: string, key: string, query: Record<string, string> = {}) =>
    client.presignedUrl(method, place, key, URL_SECONDS, query)
  const sign = (method: string, key: string, query?: Record<string, string>) => signIn(bucket, method, key, query)

  async function put(key: string, body: Body, { contentType, size, signal, release }: PutOptions): Promise<ObjectInfo> {
    checkKey(key)
    checkContentType(contentType)
    if (typeof body === 'string' || Buffer.isBuffer(body)) {
      const bytes = Buffer.from(body)
      return again(() => putWhole(key, bytes, { contentType, size: bytes.length, signal }), signal)
    }
    if (size === undefined || size > SINGLE_PUT_MAX)
      return putInParts(store, key, body, { contentType, size, signal, release, scratch, again })
    return putWhole(key, body, { contentType, size, signal, release })
  }

  async function putWhole(key: string, body: Body, o: WholeOptions) {
    const headers = { 'content-type': o.contentType }
    const url = await sign('PUT', key)
    const answer = await wire.exchange(url, { method: 'PUT', headers, body, ...o })
    answer.resume()
    return { ...infoOf(key, answer), contentType: o.contentType, size: o.size }
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

  async function deletePrefix(prefix: string): Promise<number> {
    checkFolderPrefix(prefix)
    // Uploads first: one that completes meanwhile leaves an object, which the second step finds.
    return (await abortBelow(prefix)) + (await deleteVersions(prefix))
  }

  async function abortBelow(prefix: string): Promise<number> {
    for (let count = 0; ; ) {
      // Always the first page: its uploads are aborted before the next request.
      const { uploads } = await again(() => client.listIncompleteUploadsQuery(bucket, prefix, '', '', ''))
      if (uploads.length === 0) return count
      for (const { key, uploadId } of uploads) await abort(key, uploadId)
      count += uploads.length
    }
  }

  /** A bucket without versions lists each object as its only version, `null`. */
  async function deleteVersions(prefix: string): Promise<number> {
    for (let count = 0; ; ) {
      const versions = await again(() => client.versions(bucket, prefix))
      if (versions.length === 0) return count
      await removeVersions(versions)
      count += versions.length
    }
  }

  async function removeVersions(versions: readonly Version[]): Promise<void> {
    const refused = (await again(() => client.removeObjects(bucket, [...versions]))).filter(Boolean)
    if (refused.length === 0) return
    // The answer says no more than `AccessDenied`, for a lock and for a missing right.
    for (const version of versions) {
      const until = await lockOf(version).catch(() => undefined)
      if (until === undefined || (until !== null && until.getTime() <= Date.now())) continue
      const end = until === null ? 'without an end' : `until ${until.toISOString()}`
      throw new StoreError('Locked', `The bucket locks ${version.name} ${end}`, { until: until ?? undefined })
    }
    throw new StoreError('Unavailable', `${refused.length} objects could not be deleted`)
  }

  /** When the lock of a version ends; null for one that has no end. Undefined without a lock. */
  async function lockOf({ name, versionId }: Version): Promise<Date | null | undefined> {
    const query = versionId === undefined ? {} : { versionId }
    const answer = await again(async () => wire.exchange(await sign('HEAD', name, query), { method: 'HEAD' }))
    answer.resume()
    const { headers } = answer
    if (headers['x-amz-object-lock-legal-hold'] === 'ON') return null
    const until = headers['x-amz-object-lock-retain-until-date']
    return typeof until === 'string' ? new Date(until) : undefined
  }

  async function deleteForGood(key: string): Promise<void> {
    checkKey(key)
    for (;;) {
      // Keys that only begin with this one come after it.
      const versions = (await again(() => client.versions(bucket, key))).filter(({ name }) => name === key)
      if (versions.length === 0) return
      await removeVersions(versions)
    }
  }

  async function copy(from: string, to: string, o: CopyOptions = {}): Promise<ObjectInfo> {
    checkKey(to)
    const place = options.bucketOf?.(from) ?? bucket
    const source = await head(from, place)
    if (!source) throw new StoreError('NotFound', `No object ${from}`)
    const copying = { client, bucket, again, partBytes: options.copyPartBytes ?? COPY_PART_BYTES, abortBelow }
    await copyInServer({ ...copying, coldClass: options.coldClass }, { ...source, bucket: place }, to, o).catch(rethrow)
    return mustHaveSize(await head(to), source, to)
  }

  const abort = (key: string, uploadId: string) =>
    again(() => client.abortMultipartUpload(bucket, key, uploadId)).catch((error: unknown) => {
      if (!(error instanceof StoreError && error.code === 'NotFound')) throw error
    })

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
      return again(() => client.initiateNewMultipartUpload(bucket, key, { 'Content-Type': contentType }))
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
    async check() {
      const found = await client.bucketExists(bucket).catch(rethrow)
      if (!found) throw new StoreError('Unavailable', `There is no bucket ${bucket}`)
    },
    close() {
      wire.close()
      return tidied
    },
  }
  return store
}

interface Version {
  name: string
  versionId?: string
}

interface WholeOptions {
  contentType: string
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
    ...(typeof storageClass === 'string' && storageClass !== 'STANDARD' && { storageClass }),
  }
}

const isRangeError = (error: unknown) => error instanceof S3Refusal && /^(InvalidRange|HTTP 416)$/.test(error.s3Code)

const rethrow = (error: unknown): never => {
  throw asStoreError(error)
}

/** Makes up to three attempts: the server may close a kept-alive connection just as the client sends a request. */
const again = retrying({ asStoreError, mayPass, pausesMs: [100, 400] })
