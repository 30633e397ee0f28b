import { formatId } from '../../../../lib/contract/ids.ts'
import type { UploadRow } from '../../../db/schema/uploads.ts'
import type { Outcome, RetentionTarget } from '../../../retention/target.ts'
import { markReleased } from './queries.ts'
import { releaseStorage } from './release.ts'
import {
  claimUploads,
  findLeasedUpload,
  listDueUploads,
  postponeHeldUpload,
  UPLOAD_LEASES,
  UPLOADS,
} from './retention-queries.ts'

/** What ended, aborted and abandoned upload sessions left in the store. */
export const expiredUploads: RetentionTarget<UploadRow & { bytes: number }> = {
  ...UPLOADS,
  leases: UPLOAD_LEASES,
  claim: claimUploads,
  about: ({ id }) => ({ rows: [id], id: formatId('upload', id) }),
  async handle({ db, store, pace, count }, { bytes, ...upload }, { token }) {
    const { id } = upload
    const seen = await db.read({}, (tx) => findLeasedUpload(tx, { id, token, lock: false }))
    if (!seen) return 'lost'
    if (seen.held) {
      await db.inTransaction({}, (tx) => postponeHeldUpload(tx, { id, token }))
      return 'held'
    }
    await pace(bytes)
    let outcome: Outcome = 'lost'
    await releaseStorage({ db, store }, upload, async (tx) => {
      const still = await findLeasedUpload(tx, { id, token, lock: true })
      if (!still) return
      outcome = still.held ? 'held' : 'done'
      if (still.held) return postponeHeldUpload(tx, { id, token })
      await markReleased(tx, upload)
      await count(tx, { purged: 1, bytes })
    })
    return outcome
  },
  async list(tx, due, o) {
    const rows = await listDueUploads(tx, due, o)
    return {
      lines: rows.map((row) => ({ ...row, id: formatId('upload', row.id), action: 'purge' })),
      last: rows.at(-1)?.id ?? '',
    }
  },
}
