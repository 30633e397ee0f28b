import { setTimeout as sleep } from 'node:timers/promises'
import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { Problem } from '../../../../lib/contract/problem.ts'
import { failpoint } from '../../../../lib/runtime/failpoint.ts'
import type { Log } from '../../../../lib/runtime/log.ts'
import { problemOf } from '../../../permissions/state.ts'
import { type Steps, WithStatus } from '../../../requests/request.ts'
import { recordMedia } from '../commands.ts'
import { lockPairing } from '../pairing-queries.ts'
import type { uploadActions } from '../policy.ts'
import type { Sniffed } from '../sniff.ts'
import { ChunkLost, makeObject, UploadLost } from './assemble.ts'
import { mismatch } from './digest.ts'
import { inspectObject } from './inspect.ts'
import { holdLease } from './lease.ts'
import { ENDED, mergeMove, missingOf } from './plan.ts'
import {
  type Chunk,
  deleteChunk,
  dropLease,
  endMerge,
  LEASE_SECONDS,
  listChunks,
  renewLease,
  startMerge,
  type UploadSession,
} from './queries.ts'
import { tryReleaseStorage } from './release.ts'
import { permittedUpload, type UploadDeps } from './session.ts'
import type { MergedMedia, MergeUpload } from './upload.ts'

const WAIT_MS = 10_000
const POLL_MS = 200
const RENEW_MS = 10_000

/** The right to merge, valid as long as the lease is renewed. */
interface Claim {
  upload: UploadSession
  chunks: Chunk[]
  holder: Uuid
  /** Monotonic milliseconds, before the lease began. */
  since: number
  /** The predecessor may have made the object before it died. */
  takenOver: boolean
  /** The checksum in the request of this merge. */
  checksum: string | null
}

/**
 * Makes one media item from an upload, however many requests ask for it: one does the work and answers 201, the others
 * wait for it and give the same answer with 200.
 */
export async function mergeUpload(
  deps: UploadDeps,
  steps: Steps<typeof uploadActions.merge>,
  { upload_id: uploadId, checksum_sha256: checksum = null }: MergeUpload,
): Promise<MergedMedia | WithStatus<MergedMedia>> {
  const { signal } = steps.context
  for (const end = Date.now() + WAIT_MS; ; await sleep(POLL_MS, undefined, { signal })) {
    const since = performance.now()
    const outcome = await claimMerge(steps, uploadId)
    if (outcome === 'wait') {
      if (Date.now() < end) continue
      throw new Problem('CONFLICT', 'The upload is still being merged', { retryAfter: 2 })
    }
    if ('merged' in outcome) {
      if (checksum !== null) await requireDigest(deps, outcome.merged, checksum)
      return new WithStatus(200, answerOf(outcome.merged))
    }
    const data = await carryOut(deps, steps, { ...outcome, since, checksum })
    if (data) return data
  }
}

/** Refuses a repeated merge whose checksum does not match the merged bytes. After a purge no bytes are left to compare. */
async function requireDigest({ mergedDigest }: UploadDeps, upload: UploadSession, checksum: string): Promise<void> {
  const digest = await mergedDigest(upload)
  if (digest !== undefined && digest !== checksum) throw mismatch('body.checksum_sha256')
}

const answerOf = (upload: UploadSession): MergedMedia => ({
  media_id: upload.mediaId,
  upload_status: 'processing',
})

function claimMerge(
  { write }: Steps<typeof uploadActions.merge>,
  uploadId: Uuid,
): Promise<Omit<Claim, 'since' | 'checksum'> | { merged: UploadSession } | 'wait'> {
  return write(async (request) => {
    const { tx } = request
    const upload = await permittedUpload(request, uploadId, { lock: true, field: 'body.upload_id' })
    const chunks = await listChunks(tx, upload.id)
    const move = mergeMove({ ...upload, received: chunks.length })
    if (move === 'answer') return { merged: upload }
    if (move === 'wait') return 'wait'
    if (move === 'refuse-ended') throw refusedBefore(upload) ?? problemOf(ENDED)
    if (move === 'refuse-incomplete') throw incomplete(upload, chunks)
    const holder = newUuid()
    await startMerge(tx, upload.id, holder)
    return { upload, chunks, holder, takenOver: move === 'take-over' }
  })
}

function incomplete({ totalChunks }: UploadSession, chunks: readonly Chunk[]): Problem {
  const missing = missingOf(totalChunks, new Set(chunks.map((c) => c.chunkIndex)))
  return new Problem('UPLOAD_INCOMPLETE', 'Some chunks have not arrived', {
    details: [{ field: 'body.upload_id', issue: 'has missing chunks', missing }],
  })
}

/** Undefined when another request took over: the answer comes from that request, now or later. */
async function carryOut(
  deps: UploadDeps,
  steps: Steps<typeof uploadActions.merge>,
  claim: Claim,
): Promise<MergedMedia | undefined> {
  failpoint('merge.claimed')
  const { log } = steps.context
  const lease = leaseOf(deps, claim, log)
  try {
    await makeObject(deps.store, claim, lease.signal)
    failpoint('merge.object-completed')
    const found = await inspectObject(deps.store, claim.upload, claim.checksum, lease.signal)
    if ('refusal' in found) return await giveUp(deps, log, claim, found.refusal)
    const data = await commit(steps, claim, found)
    failpoint('merge.committed')
    // The staged objects have no further use, and the client need not wait for their removal.
    if (data) void tryReleaseStorage(deps, { ...claim.upload, state: 'completed' }, log)
    return data
  } catch (error) {
    if (lease.signal.aborted) return undefined
    if (error instanceof ChunkLost) return await reopen(deps, claim, error)
    if (error instanceof UploadLost) return await giveUp(deps, log, claim, error.problem)
    if (error instanceof Problem && error.code === 'CONFLICT') return await giveUp(deps, log, claim, error)
    await deps.db.inTransaction({ org: claim.upload.orgId }, (tx) => dropLease(tx, claim.upload.id, claim.holder))
    throw error
  } finally {
    lease.stop()
  }
}

const leaseOf = ({ db }: UploadDeps, { upload, holder, since }: Claim, log: Log) =>
  holdLease({
    renew: () => db.inTransaction({ org: upload.orgId }, (tx) => renewLease(tx, upload.id, holder)),
    onFailure: (error) => log.warn({ err: error, upload: upload.id }, 'could not renew the lease of a merge'),
    now: () => performance.now(),
    since,
    leaseMs: LEASE_SECONDS * 1000,
    renewMs: RENEW_MS,
  })

async function commit(
  steps: Steps<typeof uploadActions.merge>,
  { upload, holder }: Claim,
  found: { sniffed: Sniffed; sha256: string | null },
): Promise<MergedMedia | undefined> {
  try {
    return await steps.answer(async (change) => {
      // Before the end of the upload, which locks the counters of its user: a single upload takes both in this order.
      await lockPairing(change.tx, upload)
      if (!(await endMerge(change.tx, upload.id, holder, { state: 'completed' }))) throw new LeaseLost()
      await recordMedia(change, {
        id: upload.mediaId,
        orgId: upload.orgId,
        uploaderId: upload.uploaderId,
        originalFilename: upload.filename,
        ...found.sniffed,
        fileSizeBytes: upload.fileSizeBytes,
        sha256: found.sha256,
        livePhotoPairId: upload.livePhotoPairId,
        assetIdentifier: upload.assetIdentifier,
      })
      return answerOf(upload)
    })
  } catch (error) {
    if (error instanceof LeaseLost) return undefined
    throw error
  }
}

/** Rolls the transaction back: the answer of another request must not be remembered as the answer of this one. */
class LeaseLost extends Error {}

/** What a merge refused, it refuses again: another upload of these bytes would end as this one did. */
function refusedBefore({ refusal }: UploadSession): Problem | undefined {
  if (!refusal) return undefined
  const { code, message, status, details } = refusal
  return new Problem(code, message, { ...(details && { details }), ...(status === 422 && { status }) })
}

/**
 * Ends the session and removes the object, because no merge of these bytes can succeed. The reason stays with the session, for
 * a client that repeats the merge because it got no answer.
 */
async function giveUp(deps: UploadDeps, log: Log, { upload, holder }: Claim, problem: Problem): Promise<undefined> {
  const { code, message, status, details } = problem
  const refusal = { code, message, status, ...(details && { details }) }
  const ours = await deps.db.inTransaction({ org: upload.orgId }, (tx) =>
    endMerge(tx, upload.id, holder, { state: 'aborted', refusal }),
  )
  if (!ours) return undefined
  await tryReleaseStorage(deps, upload, log)
  throw problem
}

/** Reopens the session: the store does not have a chunk as recorded, so the client has to send it again. */
async function reopen({ db }: UploadDeps, { upload, holder }: Claim, { chunks }: ChunkLost): Promise<undefined> {
  const problem = await db.inTransaction({ org: upload.orgId }, async (tx) => {
    if (!(await endMerge(tx, upload.id, holder, { state: 'open' }))) return undefined
    for (const chunk of chunks) await deleteChunk(tx, chunk)
    return incomplete(upload, await listChunks(tx, upload.id))
  })
  if (problem) throw problem
  return undefined
}
