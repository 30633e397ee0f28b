import type { Uuid } from '../../lib/contract/ids.ts'
import { hasRole, type Role } from '../organizations/policy.ts'

interface Asking {
  userId: Uuid
  role: Role
}

/** Where something was filmed is nobody's business but the uploader's and the administrators'. */
export const maySeeLocation = (member: Asking, media: { uploaderId: Uuid }) =>
  member.userId === media.uploaderId || hasRole(member, 'admin')

/** An unfinished upload is its uploader's alone; to everybody else it does not exist. */
export const maySeeUpload = (member: { userId: Uuid }, upload: { uploaderId: Uuid }) =>
  member.userId === upload.uploaderId
