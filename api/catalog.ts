import { sessionActions } from './auth/policy.ts'
import { albumActions } from './features/albums/policy.ts'
import { findAlbum } from './features/albums/queries.ts'
import { commentActions } from './features/discussions/comments/policy.ts'
import { findComment } from './features/discussions/comments/queries.ts'
import { reactionActions } from './features/discussions/reactions/policy.ts'
import { findReaction } from './features/discussions/reactions/queries.ts'
import { eventActions } from './features/events/policy.ts'
import { findEvent } from './features/events/queries.ts'
import { highlightActions } from './features/highlights/policy.ts'
import { findHighlight } from './features/highlights/queries.ts'
import { invitationActions } from './features/invitations/policy.ts'
import { findInvitation } from './features/invitations/queries.ts'
import { findMediaOrTrash } from './features/media/deletion/queries.ts'
import { mediaActions, uploadActions } from './features/media/policy.ts'
import { findMedia } from './features/media/queries.ts'
import { findUpload } from './features/media/uploads/queries.ts'
import { musicTrackActions } from './features/music-tracks/policy.ts'
import { memberActions } from './features/organizations/policy.ts'
import { userActions } from './features/users/policy.ts'
import type { Catalog, Rows } from './permissions/catalog.ts'
import { permissionActions } from './permissions/policy.ts'
import { findMembership } from './permissions/queries.ts'
import type { Action } from './permissions/rule.ts'

const ACTIONS: readonly Action[] = [
  albumActions,
  commentActions,
  eventActions,
  highlightActions,
  invitationActions,
  mediaActions,
  memberActions,
  musicTrackActions,
  permissionActions,
  reactionActions,
  sessionActions,
  uploadActions,
  userActions,
].flatMap((actions): Action[] => Object.values(actions))

const OF_TRASH: readonly Action[] = [mediaActions.delete, mediaActions.restore]

const ROWS: Record<string, Rows> = {
  album: { id: 'album', find: (tx, { orgId, id, userId }) => findAlbum(tx, { orgId, id, callerId: userId }) },
  comment: { id: 'comment', find: (tx, { orgId, id }) => findComment(tx, { orgId, id }) },
  event: { id: 'event', find: (tx, { orgId, id }) => findEvent(tx, orgId, id) },
  highlight: {
    id: 'highlight',
    find: (tx, { orgId, id, userId }) => findHighlight(tx, { orgId, id, callerId: userId }),
  },
  invitation: {
    id: 'invitation',
    // A token is presented with a request only.
    find: async (tx, { orgId, id, userId }) => {
      const row = await findInvitation(tx, { orgId, id, userId })
      return row && { ...row, isPresented: false }
    },
  },
  media: {
    id: 'media',
    find: (tx, { orgId, id, action }) => (OF_TRASH.includes(action) ? findMediaOrTrash : findMedia)(tx, orgId, id),
  },
  // A member is named by the user.
  membership: { id: 'user', find: (tx, { orgId, id }) => findMembership(tx, orgId, id) },
  reaction: { id: 'reaction', find: (tx, { orgId, id }) => findReaction(tx, { orgId, id }) },
  upload: { id: 'upload', find: (tx, { orgId, id }) => findUpload(tx, orgId, id) },
}

/** The actions of all features, and their rows. */
export const CATALOG: Catalog = { actions: ACTIONS, rows: ROWS }
