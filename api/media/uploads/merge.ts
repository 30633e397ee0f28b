import { setTimeout as sleep } from 'node:timers/promises'
import { formatId, newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import type { Context } from '../../http/route.ts'
import { recordMedia } from '../commands.ts'
import type { Sniffed } from '../sniff.ts'
import { ChunkLost, makeObject, UploadLost } from './assemble.ts'
import { inspectObject } from './inspect.ts'
import { mergeMove, missingOf } from './plan.ts'
import {
  type Chunk,
  deleteChunk,
  dropLease,
  endMerge,
  listChunks,
  renewLease,
  startMerge,
  type UploadSession,
} from './queries.ts'
import { tryReleaseStorage } from './release.ts'
import { requireUpload, type UploadAddress, type UploadDeps } from './session.ts'
import type { MergedMedia } from './upload.ts'

const WAIT_MS = 10_000
const POLL_MS = 200
const RENEW_MS = 10_000

/** The right to merge, which lasts as long as the lease is renewed. */
interface Claim {
  upload: UploadSession
  chunks: Chunk[]
  holder: Uuid
  /** Somebody may have got as far as making the object before they died. */
  takenOver: boolean
}

/**
 * Makes one media of an upload, however often and by however many it is asked for: one does the work, the others wait
 * for it and get the same answer. `first` is true for the one that made it.
 */
export async function mergeUpload(
  deps: UploadDeps,
  o: UploadAddress & { context: Context },
): Promise<{ data: MergedMedia; first: boolean }> {
  for (const end = Date.now() + WAIT_MS; ; await sleep(POLL_MS, undefined, { signal: o.context.signal })) {
    const outcome = await claimMerge(deps, o)
    if (outcome === 'wait') {
      if (Date.now() < end) continue
      throw new Problem('CONFLICT', 'The upload is still being merged', { retryAfter: 2 })
    }
    if ('data' in outcome) return { ...outcome, first: false }
    const data = await carryOut(deps, o, outcome)
    if (data) return { data, first: true }
  }
}

const answerOf = (upload: UploadSession): MergedMedia => ({
  media_id: formatId('media', upload.mediaId),
  upload_status: 'processing',
})

function claimMerge({ db }: UploadDeps, o: UploadAddress): Promise<Claim | { data: MergedMedia } | 'wait'> {
  return db.inTransaction({ org: o.orgId }, async (tx) => {
    const upload = await requireUpload(tx, o, { lock: true })
    const chunks = await listChunks(tx, upload.id)
    const move = mergeMove({ ...upload, received: chunks.length })
    if (move === 'answer') return { data: answerOf(upload) }
    if (move === 'wait') return 'wait'
    if (move === 'refuse-expired') throw new Problem('UPLOAD_EXPIRED', 'The upload has ended. Start another one.')
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

/** Undefined when somebody else took over meanwhile: then they have, or will have, the answer. */
async function carryOut(
  deps: UploadDeps,
  o: UploadAddress & { context: Context },
  claim: Claim,
): Promise<MergedMedia | undefined> {
  failpoint('merge.claimed')
  const lease = holdLease(deps, claim, o.context.log)
  try {
    await makeObject(deps.store, claim, lease.signal)
    failpoint('merge.object-completed')
    const found = await inspectObject(deps.store, claim.upload, lease.signal)
    if ('refusal' in found) return await giveUp(deps, o, claim, found.refusal)
    const data = await commit(deps, o, claim, found)
    failpoint('merge.committed')
    // Its objects are of no use to anybody now, and nobody has to wait until they are gone.
    if (data) void tryReleaseStorage(deps, { ...claim.upload, state: 'completed' }, o.context.log)
    return data
  } catch (error) {
    if (lease.signal.aborted) return undefined
    if (error instanceof ChunkLost) return await reopen(deps, claim, error)
    if (error instanceof UploadLost) return await giveUp(deps, o, claim, error.problem)
    if (error instanceof Problem && error.code === 'CONFLICT') return await giveUp(deps, o, claim, error)
    await deps.db.inTransaction({ org: claim.upload.orgId }, (tx) => dropLease(tx, claim.upload.id, claim.holder))
    throw error
  } finally {
    lease.stop()
  }
}

/** Renews while the work goes on; the signal fires when the lease was lost all the same. */
function holdLease({ db }: UploadDeps, { upload, holder }: Claim, log: Log) {
  const lost = new AbortController()
  const renew = async () => {
    try {
      const held = await db.inTransaction({ org: upload.orgId }, (tx) => renewLease(tx, upload.id, holder))
      if (!held) lost.abort(new Error('the lease of the merge was lost'))
    } catch (error) {
      log.warn({ err: error, upload: upload.id }, 'could not renew the lease of a merge')
    }
  }
  const timer = setInterval(() => void renew(), RENEW_MS)
  return { signal: lost.signal, stop: () => clearInterval(timer) }
}

function commit(
  { db }: UploadDeps,
  { context }: { context: Context },
  { upload, holder }: Claim,
  found: { sniffed: Sniffed; sha256: string | null },
): Promise<MergedMedia | undefined> {
  return db.inTransaction({ org: upload.orgId }, async (tx) => {
    if (!(await endMerge(tx, upload.id, holder, 'completed'))) return undefined
    await recordMedia(
      tx,
      {
        id: upload.mediaId,
        orgId: upload.orgId,
        uploaderId: upload.uploaderId,
        originalFilename: upload.filename,
        ...found.sniffed,
        fileSizeBytes: upload.fileSizeBytes,
        sha256: found.sha256,
        livePhotoPairId: upload.livePhotoPairId,
        assetIdentifier: upload.assetIdentifier,
      },
      context,
    )
    const data = answerOf(upload)
    await context.remember(tx, 201, data)
    return data
  })
}

/** No merge of these bytes can ever succeed: the session ends, and the object goes. */
async function giveUp(
  deps: UploadDeps,
  { context }: { context: Context },
  { upload, holder }: Claim,
  problem: Problem,
): Promise<undefined> {
  const ours = await deps.db.inTransaction({ org: upload.orgId }, (tx) => endMerge(tx, upload.id, holder, 'aborted'))
  if (!ours) return undefined
  await tryReleaseStorage(deps, upload, context.log)
  throw problem
}

/** The store does not have a chunk as it was recorded: it has to be sent again. */
async function reopen({ db }: UploadDeps, { upload, holder }: Claim, { chunks }: ChunkLost): Promise<undefined> {
  const problem = await db.inTransaction({ org: upload.orgId }, async (tx) => {
    if (!(await endMerge(tx, upload.id, holder, 'open'))) return undefined
    for (const chunk of chunks) await deleteChunk(tx, chunk)
    return incomplete(upload, await listChunks(tx, upload.id))
  })
  if (problem) throw problem
  return undefined
}
