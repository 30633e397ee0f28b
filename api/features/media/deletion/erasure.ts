import { TRANSCODE_JOBS } from '../../../../crds/transcode-job.ts'
import { parseId, type Uuid } from '../../../../lib/contract/ids.ts'
import { failpoint } from '../../../../lib/runtime/failpoint.ts'
import type { EraseDeps, Erased, ErasedPerson, EraseStep } from '../../../personal/part.ts'
import { resourcesOf } from '../../../personal/queries.ts'
import { removeResource } from '../../../worker/remove-resource.ts'
import type { TranscodeJobObject } from '../conversion/facts.ts'
import { releaseStorage } from '../uploads/release.ts'
import { countConverting, countMediaOf, endUploads, forgetUpload, withdrawMedia } from './erasure-queries.ts'
import { purgeOf } from './purge.ts'

const AT_ONCE = 100
/** What a worker that died has claimed is free again soon: someone waits for it. */
const LEASE_SECONDS = 30

export const mediaErasure: readonly EraseStep[] = [
  {
    name: 'media.uploads',
    phase: 'uploads',
    does: 'upload sessions are ended and deleted, with what they have in the object store; multipart uploads are aborted',
    run: eraseUploads,
  },
  {
    name: 'media.withdrawal',
    phase: 'withdrawal',
    does: 'media items are hidden from everyone at once; none can be restored',
    run: withdraw,
  },
  {
    name: 'media.files',
    phase: 'files',
    does: 'originals and everything that was made of them are deleted in the object store, with all versions, and the media items in the database',
    run: purge,
  },
  {
    name: 'media.resources',
    phase: 'files',
    does: 'TranscodeJobs of the media items are deleted in the cluster',
    run: removeJobs,
  },
]

/** The row goes after what it leads to in the store. */
async function eraseUploads({ db, store, signal }: EraseDeps, person: ErasedPerson): Promise<Erased> {
  for (let uploads = 0; ; ) {
    signal?.throwIfAborted()
    const ended = await db.inTransaction({}, (tx) => endUploads(tx, person, AT_ONCE))
    if (ended.length === 0) return { counts: { uploads } }
    failpoint('erasure.uploads-ended')
    for (const upload of ended) {
      await releaseStorage({ db, store }, upload)
      await db.inTransaction({}, (tx) => forgetUpload(tx, upload))
      uploads += 1
    }
  }
}

async function withdraw({ db, signal }: EraseDeps, person: ErasedPerson): Promise<Erased> {
  for (let media = 0; ; ) {
    signal?.throwIfAborted()
    const some = await db.inTransaction({}, (tx) => withdrawMedia(tx, person, AT_ONCE))
    media += some
    // Fewer than asked for say nothing: the purge of an event may have deleted some that it had found.
    if (some === 0) return { counts: { media_items: media } }
  }
}

async function purge(deps: EraseDeps, { userId }: ErasedPerson): Promise<Erased> {
  let objects = 0
  let failed = 0
  const media = await purgeOf(
    {
      ...deps,
      onObjectsDeleted: (n) => {
        objects += n
      },
      onPurgeFailed: () => {
        failed += 1
      },
    },
    userId,
    { leaseSeconds: LEASE_SECONDS, ...(deps.signal && { signal: deps.signal }) },
  )
  if (failed > 0) throw new Error(`${failed} media items could not be deleted yet`)
  const left = await deps.db.read({}, (tx) => countMediaOf(tx, userId))
  return { counts: { media_items: media, objects }, ...(left > 0 && { isWaiting: true }) }
}

/**
 * Those that are left are finished: the purge has waited for the others. One that also converted images of other people
 * stays until their results are recorded.
 */
async function removeJobs(deps: EraseDeps, { erasureId }: ErasedPerson): Promise<Erased> {
  const { db, cluster, namespace } = deps
  const theirs = await db.read({}, (tx) => resourcesOf(tx, erasureId, ['media']))
  const jobs = await cluster.list<TranscodeJobObject>(TRANSCODE_JOBS, { namespace })
  let resources = 0
  let isWaiting = false
  for (const job of jobs) {
    const ids = job.spec.inputs.map(({ id }) => parseId('media', id))
    if (!ids.some((id) => id !== undefined && theirs.has(id))) continue
    const others = ids.filter((id): id is Uuid => id !== undefined && !theirs.has(id))
    const isWanted = others.length > 0 && (await db.read({}, (tx) => countConverting(tx, others))) > 0
    if (isWanted) isWaiting = true
    else {
      await removeResource(deps, TRANSCODE_JOBS, job)
      resources += 1
    }
  }
  return { counts: { resources }, ...(isWaiting && { isWaiting }) }
}
