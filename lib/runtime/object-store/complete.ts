import { createHash } from 'node:crypto'
import { type ObjectInfo, type ObjectStore, type PartInfo, StoreError } from './object-store.ts'
import type { Again } from './retry.ts'

interface Upload {
  key: string
  uploadId: string
  parts: readonly Pick<PartInfo, 'partNumber' | 'etag'>[]
  /** Bytes of the object that the parts make. */
  size: number
  again: Again
  signal?: AbortSignal | undefined
}

/** As in S3: the MD5 of the parts' digests, a hyphen and the number of parts. */
export function etagOfParts(parts: readonly Pick<PartInfo, 'etag'>[]): string {
  const hash = createHash('md5')
  for (const part of parts) hash.update(Buffer.from(part.etag.replaceAll('"', ''), 'hex'))
  return `"${hash.digest('hex')}-${parts.length}"`
}

/**
 * Completes an upload, also when the store has completed it and its answer got lost or was an error: the next attempt then
 * finds no upload, and the object in its place. Throws NotFound when there is neither. An object of the same size that was
 * there before counts only with the etag of these parts, which a store may make in another way.
 */
export async function completeUpload(
  store: Pick<ObjectStore, 'completeMultipart' | 'head'>,
  { key, uploadId, parts, size, again, signal }: Upload,
): Promise<ObjectInfo> {
  const before = await again(() => store.head(key), signal)
  try {
    return await again(() => store.completeMultipart(key, uploadId, parts), signal)
  } catch (error) {
    const isGone = error instanceof StoreError && error.code === 'NotFound'
    const made = isGone ? await store.head(key) : undefined
    if (made?.size !== size) throw error
    if (made.etag === before?.etag && made.etag !== etagOfParts(parts)) throw error
    return made
  }
}
