import type { Uuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store.ts'
import type { Actor } from '../../auth/actor.ts'
import type { Database, Tx } from '../../db/db.ts'
import { requireMember } from '../../organizations/membership.ts'
import { maySeeUpload } from '../policy.ts'
import { findUpload, type UploadSession } from './queries.ts'

export interface UploadDeps {
  db: Database
  store: ObjectStore
}

/** Whose upload, in which organization. */
export interface UploadAddress {
  actor: Actor
  orgId: Uuid
  uploadId: Uuid
}

export const planOf = (upload: UploadSession) => ({
  fileBytes: upload.fileSizeBytes,
  chunkBytes: upload.chunkSizeBytes,
  totalChunks: upload.totalChunks,
})

/** The session, for its uploader while they are a member; NOT_FOUND otherwise. */
export async function requireUpload(
  tx: Tx,
  { actor, orgId, uploadId }: UploadAddress,
  options: { lock?: boolean } = {},
): Promise<UploadSession> {
  const [member, upload] = await Promise.all([
    requireMember(tx, actor, orgId),
    findUpload(tx, orgId, uploadId, options),
  ])
  if (upload && maySeeUpload(member, upload)) return upload
  throw new Problem('NOT_FOUND', 'There is no such upload')
}

/** Why a session that is not open any more takes no chunk and cannot be aborted. */
export function notOpen(upload: UploadSession): Problem {
  if (upload.state === 'merging') {
    return new Problem('CONFLICT', 'The upload is being merged', { retryAfter: 2 })
  }
  if (upload.state === 'completed') return new Problem('CONFLICT', 'The upload has been merged')
  return new Problem('UPLOAD_EXPIRED', 'The upload has ended. Start another one.')
}

export const isOpen = (upload: UploadSession) => upload.state === 'open' && !upload.pastExpiry
