import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Problem } from '../../../../lib/contract/problem.ts'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../../../db/db.ts'
import { problemOf } from '../../../permissions/state.ts'
import { found } from '../../../requests/found.ts'
import type { Read } from '../../../requests/request.ts'
import type { Quotas } from '../../users/policy.ts'
import type { uploadActions } from '../policy.ts'
import type { MergedDigest } from './merged-digest.ts'
import { refusalOf, whileOpen } from './plan.ts'
import { findUpload, type UploadSession } from './queries.ts'

export interface UploadDeps {
  db: Database
  store: ObjectStore
  /** The limits of one user. */
  quotas: Quotas
  mergedDigest: MergedDigest
}

export const planOf = (upload: UploadSession) => ({
  fileBytes: upload.fileSizeBytes,
  chunkBytes: upload.chunkSizeBytes,
  totalChunks: upload.totalChunks,
})

type UploadAction =
  | typeof uploadActions.read
  | typeof uploadActions.send
  | typeof uploadActions.merge
  | typeof uploadActions.abort

/** The session, if the caller is permitted the action of the route. `field` is what names it in a body. */
export async function permittedUpload(
  { tx, orgId, permit }: Pick<Read<UploadAction>, 'tx' | 'orgId' | 'permit'>,
  id: Uuid,
  { field, ...options }: { lock?: boolean; field?: string } = {},
): Promise<UploadSession> {
  const find = async (lock: boolean) => permit(found(await findUpload(tx, orgId, id, { lock }), field), field)
  const upload = await find(false)
  // The decision comes before the lock: see `lockPermitted`.
  return options.lock ? find(true) : upload
}

/** Why a session that is no longer open accepts no chunk. */
export const notOpen = (upload: UploadSession): Problem => problemOf(refusalOf(upload))

export const isOpen = (upload: UploadSession) => whileOpen(upload) === undefined
