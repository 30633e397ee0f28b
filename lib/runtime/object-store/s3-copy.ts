import { isColdKey } from '../../contract/cold-key.ts'
import { type CopyOptions, type ObjectInfo, StoreError } from './object-store.ts'
import type { Again } from './retry.ts'
import type { connect } from './s3-client.ts'
import { asStoreError, S3Refusal } from './s3-http.ts'

/**
 * Below the 5 GB that one copy may have, and small enough that the answer comes while the client still waits for it: a copy
 * goes on without its client, so one that is repeated too early runs beside the first.
 */
export const COPY_PART_BYTES = 256 * 1024 ** 2

interface Copying {
  client: ReturnType<typeof connect>
  bucket: string
  again: Again
  partBytes: number
  coldClass: string | undefined
  /** Ends the uploads of a key. */
  abortUploads(key: string): Promise<number>
}

/**
 * The bytes stay in the server. The signal is heeded between parts, and not within one: the server copies it to its end
 * even when the client has gone.
 */
export async function copyInServer(
  { client, bucket, again, partBytes, coldClass, abortUploads }: Copying,
  source: ObjectInfo & { bucket: string },
  to: string,
  { signal, onPart }: CopyOptions,
): Promise<void> {
  const copySource = `/${source.bucket}/${source.key.split('/').map(encodeURIComponent).join('/')}`
  // Always: without it, a server may keep the class in its metadata and the bytes in the standard pool.
  const storageClass = (isColdKey(to) && coldClass) || 'STANDARD'
  const headers = {
    'x-amz-copy-source': copySource,
    // Ceph ignores the first name (200 for a wrong tag) and Amazon the second. Neither is relied on: the caller compares
    // the bytes. Ceph ignores `If-None-Match` on the copy and `If-Match` on a DELETE too, so nothing may depend on them.
    'x-amz-copy-source-if-match': source.etag,
    'x-amz-copy-if-match': source.etag,
  }
  signal?.throwIfAborted()
  if (source.size <= partBytes) {
    await onPart?.(source.size)
    const whole = { ...headers, 'x-amz-storage-class': storageClass, 'x-amz-metadata-directive': 'COPY' }
    await again(() => client.copyFrom(bucket, to, whole), signal).catch((error: unknown) => {
      throw isColdKey(to) ? orUnknownClass(error, coldClass) : error
    })
    return
  }
  // What an attempt before left: an upload that is completed late would bring the key back.
  await abortUploads(to)
  const uploadId = await again(() =>
    client.initiateNewMultipartUpload(bucket, to, {
      'Content-Type': source.contentType,
      'x-amz-storage-class': storageClass,
    }),
  )
  try {
    const parts: { part: number; etag: string }[] = []
    for (let start = 0; start < source.size; start += partBytes) {
      signal?.throwIfAborted()
      const end = Math.min(start + partBytes, source.size) - 1
      await onPart?.(end - start + 1)
      const part = parts.length + 1
      const ranged = { ...headers, 'x-amz-copy-source-range': `bytes=${start}-${end}` }
      const query = `partNumber=${part}&uploadId=${encodeURIComponent(uploadId)}`
      parts.push({ part, etag: await again(() => client.copyFrom(bucket, to, ranged, query), signal) })
    }
    signal?.throwIfAborted()
    // Not again(): after a lost answer, a retry would find no upload, and the next move finds the copy.
    await client.completeMultipartUpload(bucket, to, uploadId, parts).catch((error: unknown) => {
      throw asStoreError(error)
    })
  } catch (error) {
    await again(() => client.abortMultipartUpload(bucket, to, uploadId)).catch(() => undefined)
    throw error
  }
}

/** A class that the bucket does not have: 400 InvalidArgument from Ceph, InvalidStorageClass from Amazon. */
export function orUnknownClass(error: unknown, coldClass: string | undefined): unknown {
  const isUnknown = error instanceof S3Refusal && /^Invalid(Argument|StorageClass)$/.test(error.s3Code)
  if (!isUnknown || coldClass === undefined) return error
  return new StoreError('BadConfiguration', `The object store has no storage class ${coldClass} (S3_COLD_CLASS)`, {
    cause: error,
  })
}

export function mustHaveSize(made: ObjectInfo | undefined, source: ObjectInfo, to: string): ObjectInfo {
  if (made?.size === source.size) return made
  throw new StoreError('Unavailable', `${to} has ${made?.size ?? 'no'} bytes after a copy of ${source.size}`)
}
