import type { Uuid } from '../../../../lib/contract/ids.ts'
import { originalKey } from '../../../../lib/contract/object-keys.ts'
import { type ObjectStore, StoreError } from '../../../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../../../db/db.ts'
import { openShares } from '../../../limits/shares.ts'
import { findDigest, recordDigest } from '../queries.ts'
import { digestOf } from './inspect.ts'
import type { UploadSession } from './queries.ts'

/** A file can have 10 GiB: a user who has many of them read at once would take this process from the others. */
const READING = { total: 4, perCaller: 1, reserve: 1, waiting: 10, waitMs: 10_000 }

type Merged = Pick<UploadSession, 'orgId' | 'mediaId' | 'uploaderId'>

/** The SHA-256 of the bytes that an upload was merged to; undefined once they have been purged. */
export type MergedDigest = (upload: Merged) => Promise<string | undefined>

/**
 * The first merge records the digest if the client sent a checksum. Otherwise the first repeat with a checksum reads the
 * object, once: other repeats wait for the same read, which goes on if their clients leave.
 */
export function openMergedDigests({ db, store }: { db: Database; store: ObjectStore }): MergedDigest {
  const shares = openShares(READING)
  const running = new Map<Uuid, Promise<string | undefined>>()

  async function find({ orgId, mediaId, uploaderId }: Merged): Promise<string | undefined> {
    const media = await db.read({ org: orgId }, (tx) => findDigest(tx, orgId, mediaId))
    if (!media || media.sha256 !== null) return media?.sha256 ?? undefined
    const leave = await shares.enter(uploaderId)
    try {
      const sha256 = await digestOf(store, originalKey(orgId, mediaId))
      await db.inTransaction({ org: orgId }, (tx) => recordDigest(tx, mediaId, sha256))
      return sha256
    } catch (error) {
      if (error instanceof StoreError && error.code === 'NotFound') return undefined
      throw error
    } finally {
      leave()
    }
  }

  return (upload) => {
    const id = upload.mediaId
    const found = running.get(id) ?? find(upload).finally(() => running.delete(id))
    running.set(id, found)
    return found
  }
}
