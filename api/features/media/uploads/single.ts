import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import * as z from 'zod'
import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { originalKey } from '../../../../lib/contract/object-keys.ts'
import { Problem } from '../../../../lib/contract/problem.ts'
import { sizeText } from '../../../../lib/contract/size.ts'
import { failpoint } from '../../../../lib/runtime/failpoint.ts'
import type { ObjectInfo, ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import { isLockTimeout } from '../../../db/errors.ts'
import type { MultipartBody } from '../../../requests/bytes.ts'
import type { Context } from '../../../requests/context.ts'
import type { Steps, Write } from '../../../requests/request.ts'
import { requireQuota } from '../../users/commands.ts'
import type { Quotas } from '../../users/policy.ts'
import { recordMedia, requireFreePair } from '../commands.ts'
import { cleanFilename } from '../filename.ts'
import { PairingForm, type UploadedMedia } from '../media.ts'
import type { mediaActions } from '../policy.ts'
import { toUploadedMedia } from '../present.ts'
import { abandonIntent, deleteIntent, insertIntent, mediaExists, type NewMedia, settleIntent } from '../queries.ts'
import { SNIFF_BYTES, sniff } from '../sniff.ts'
import { UPLOAD_LIMITS } from './plan.ts'
import type { UploadDeps } from './session.ts'

export const SingleFields = z.object(PairingForm)

/** Streams one file into the store and makes a media item from it. A failed upload leaves no object behind. */
export async function uploadSingle(
  deps: UploadDeps,
  { read, write, answer, actor, orgId, context }: Steps<typeof mediaActions.upload>,
  body: MultipartBody,
): Promise<UploadedMedia> {
  const id = newUuid()
  // The intent precedes the object: if the process dies in between, housekeeping finds the object through it.
  await write(async ({ tx }) => {
    // The API reads no file for a user whose storage is full.
    await requireQuota(tx, actor.userId, deps.quotas, { storedBytes: 1 }, 'body.file')
    await insertIntent(tx, orgId, id)
  })
  try {
    const received = await open(body.file.stream)
    const livePhotoPairId = SingleFields.safeParse(body.fields).data?.live_photo_pair_id
    if (livePhotoPairId) {
      const half = { orgId, uploaderId: actor.userId, kind: received.sniffed.kind, livePhotoPairId }
      await read(({ tx }) => requireFreePair(tx, half))
    }
    const stored = await received.storeIn(deps.store, originalKey(orgId, id), context.signal)
    failpoint('upload.stored')
    const fields = SingleFields.parse(await body.finished())
    const row: NewMedia = {
      id,
      orgId,
      uploaderId: actor.userId,
      originalFilename: cleanFilename(body.file.filename),
      ...received.sniffed,
      fileSizeBytes: stored.size,
      sha256: received.sha256(),
      livePhotoPairId: fields.live_photo_pair_id ?? null,
      assetIdentifier: fields.asset_identifier ?? null,
    }
    // `answer` checks the membership again: the upload may have taken minutes.
    const uploaded = await patiently(() => answer((change) => commit(change, row, deps.quotas)))
    failpoint('upload.committed')
    return uploaded
  } catch (error) {
    await forget(deps, orgId, id, context)
    throw error
  }
}

const COMMIT_TRIES = 5

/**
 * Commits of one user's uploads queue for the user's counters in `user_storage`, and many at once wait longer than
 * `lock_timeout`. The bytes are stored by then: one more wait costs less than to send the file again. Bounded, because
 * each wait holds a connection.
 */
async function patiently<T>(work: () => Promise<T>): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await work()
    } catch (error) {
      if (tried === COMMIT_TRIES || !isLockTimeout(error)) throw error
    }
  }
}

async function commit(
  change: Write<typeof mediaActions.upload>,
  row: NewMedia,
  quotas: Quotas,
): Promise<UploadedMedia> {
  if (!(await settleIntent(change.tx, row.id))) throw new Problem('SERVICE_UNAVAILABLE', 'The upload took too long')
  const made = await recordMedia(change, row)
  await requireQuota(change.tx, row.uploaderId, quotas, { storedBytes: 0 }, 'body.file')
  return toUploadedMedia(made, change.now)
}

/**
 * Removes the object of a failed upload, unless the row exists: then only the answer to the commit was lost.
 * Housekeeping removes what cannot be removed now.
 */
async function forget({ db, store }: UploadDeps, orgId: Uuid, id: Uuid, context: Context): Promise<void> {
  try {
    const exists = await db.inTransaction({ org: orgId }, async (tx) => {
      await abandonIntent(tx, id)
      return mediaExists(tx, id)
    })
    if (exists) return
    await store.deleteForGood(originalKey(orgId, id))
    await db.inTransaction({ org: orgId }, (tx) => deleteIntent(tx, id))
  } catch (error) {
    context.log.warn({ err: error, media: id }, 'could not remove the object of a failed upload; left to housekeeping')
  }
}

/** Detects the type from the first bytes before anything is stored. */
async function open(stream: Readable) {
  const chunks = stream[Symbol.asyncIterator]() as AsyncIterableIterator<Buffer>
  const head: Buffer[] = []
  let size = 0
  while (size < SNIFF_BYTES) {
    const { value, done } = await chunks.next()
    if (done) break
    head.push(value)
    size += value.length
  }
  const sniffed = sniff(Buffer.concat(head).subarray(0, SNIFF_BYTES), UPLOAD_LIMITS.singleBytes)
  if (!sniffed) throw new Problem('UNSUPPORTED_CONTENT_TYPE', 'The file is not an image or a video of a supported type')
  const hash = createHash('sha256')
  let digest = ''
  async function* content() {
    let total = 0
    for await (const chunk of follow(head, chunks)) {
      total += chunk.length
      if (total > UPLOAD_LIMITS.singleBytes)
        throw new Problem('FILE_TOO_LARGE', `A single upload must be at most ${sizeText(UPLOAD_LIMITS.singleBytes)}`)
      hash.update(chunk)
      yield chunk
    }
    digest = hash.digest('hex')
  }
  return {
    sniffed,
    sha256: () => digest,
    storeIn: (store: ObjectStore, key: string, signal: AbortSignal): Promise<ObjectInfo> =>
      store.put(key, Readable.from(content(), { objectMode: false }), { contentType: sniffed.mimeType, signal }),
  }
}

async function* follow(head: readonly Buffer[], rest: AsyncIterableIterator<Buffer>) {
  yield* head
  yield* rest
}
