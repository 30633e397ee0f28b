import { isColdKey } from './cold-key.ts'
import { type CopyOptions, type ObjectInfo, StoreError } from './object-store.ts'
import type { Again } from './retry.ts'
import type { connect } from './s3-client.ts'

/** Below the 5 GB that one copy may have, and small enough to answer within the time that a connection may be silent. */
export const COPY_PART_BYTES = 256 * 1024 ** 2

interface Copying {
  client: ReturnType<typeof connect>
  bucket: string
  again: Again
  partBytes: number
  coldClass: string | undefined
  abortBelow(prefix: string): Promise<number>
}

/** The bytes stay in the server. */
export async function copyInServer(
  { client, bucket, again, partBytes, coldClass, abortBelow }: Copying,
  source: ObjectInfo & { bucket: string },
  to: string,
  { signal, onPart }: CopyOptions,
): Promise<void> {
  const copySource = `/${source.bucket}/${source.key.split('/').map(encodeURIComponent).join('/')}`
  // Always: without it, a server may keep the class in its metadata and the bytes in the standard pool.
  const storageClass = (isColdKey(to) && coldClass) || 'STANDARD'
  const headers = {
    'x-amz-copy-source': copySource,
    // Ceph ignores the first name, Amazon the second. Neither is relied on: the caller compares the bytes.
    'x-amz-copy-source-if-match': source.etag,
    'x-amz-copy-if-match': source.etag,
  }
  signal?.throwIfAborted()
  if (source.size <= partBytes) {
    await onPart?.(source.size)
    const whole = { ...headers, 'x-amz-storage-class': storageClass, 'x-amz-metadata-directive': 'COPY' }
    await again(() => client.copyFrom(bucket, to, whole), signal)
    return
  }
  // What an attempt before left: an upload that is completed late would bring the key back.
  await abortBelow(to)
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
    await client.completeMultipartUpload(bucket, to, uploadId, parts)
  } catch (error) {
    await again(() => client.abortMultipartUpload(bucket, to, uploadId)).catch(() => undefined)
    throw error
  }
}

export function mustHaveSize(made: ObjectInfo | undefined, source: ObjectInfo, to: string): ObjectInfo {
  if (made?.size === source.size) return made
  throw new StoreError('Unavailable', `${to} has ${made?.size ?? 'no'} bytes after a copy of ${source.size}`)
}
