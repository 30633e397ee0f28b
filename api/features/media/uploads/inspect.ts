import { createHash } from 'node:crypto'
import { pipeline } from 'node:stream/promises'
import { originalKey } from '../../../../lib/contract/object-keys.ts'
import { Problem } from '../../../../lib/contract/problem.ts'
import { sizeText } from '../../../../lib/contract/size.ts'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import { SNIFF_BYTES, type Sniffed, sniff } from '../sniff.ts'
import { mismatch } from './digest.ts'
import { UPLOAD_LIMITS } from './plan.ts'
import type { UploadSession } from './queries.ts'

/** Detects the type of the merged object from its bytes, or refuses it. `checksum` is the one in the merge request. */
export async function inspectObject(
  store: ObjectStore,
  upload: UploadSession,
  checksum: string | null,
  signal: AbortSignal,
): Promise<{ sniffed: Sniffed; sha256: string | null } | { refusal: Problem }> {
  const key = originalKey(upload.orgId, upload.mediaId)
  const sniffed = sniff(await firstBytes(store, key, signal), upload.fileSizeBytes)
  if (!sniffed) {
    const message = 'The file is not an image or a video of a supported type'
    return { refusal: new Problem('UNSUPPORTED_MEDIA', message) }
  }
  if (sniffed.kind === 'image' && upload.fileSizeBytes > UPLOAD_LIMITS.imageBytes) {
    const message = `An image must be at most ${sizeText(UPLOAD_LIMITS.imageBytes)}`
    return { refusal: new Problem('FILE_TOO_LARGE', message, { status: 422 }) }
  }
  const wanted = [upload.checksumSha256, checksum].filter((one) => one !== null)
  // Reading the whole object again takes time: only when the client sent a checksum.
  const sha256 = wanted.length === 0 ? null : await digestOf(store, key, signal)
  return wanted.every((one) => one === sha256) ? { sniffed, sha256 } : { refusal: mismatch('body.checksum_sha256') }
}

async function firstBytes(store: ObjectStore, key: string, signal: AbortSignal): Promise<Buffer> {
  const { body } = await store.get(key, { start: 0, end: SNIFF_BYTES - 1 }, signal)
  return Buffer.concat(await body.toArray())
}

/** SHA-256 of an object, in lowercase hexadecimal digits. */
export async function digestOf(store: ObjectStore, key: string, signal?: AbortSignal): Promise<string> {
  const { body } = await store.get(key, undefined, signal)
  const hash = createHash('sha256')
  await pipeline(body, hash)
  return hash.digest('hex')
}
