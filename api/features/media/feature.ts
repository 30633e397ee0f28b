import type { Feature } from '../../feature.ts'
import type { Action } from '../../permissions/rule.ts'
import { workerPart } from '../../worker/feature-worker.ts'
import type { AboveMedia } from './above.ts'
import { mediaCommands } from './administration.ts'
import { findMediaOrTrash } from './deletion/queries.ts'
import { mediaTrash } from './deletion/trash-target.ts'
import { ownMediaData } from './own-data.ts'
import { mediaPart } from './personal.ts'
import { mediaActions, uploadActions } from './policy.ts'
import { findMedia } from './queries.ts'
import { mediaRoutes } from './routes.ts'
import { findUpload } from './uploads/queries.ts'
import { expiredUploads } from './uploads/retention-target.ts'
import { MediaSettings, mediaWorker } from './worker.ts'

const OF_TRASH: readonly Action[] = [mediaActions.delete, mediaActions.restore]

export const media = (above: AboveMedia): Feature => ({
  ...mediaPart,
  tags: {
    Storage: 'Upload of media items into an organization, and access to them.',
    Delivery: 'Download of media through signed links.',
  },
  routes: (deps) => mediaRoutes(deps, above),
  actions: [...Object.values(mediaActions), ...Object.values(uploadActions)],
  export: ownMediaData,
  commands: mediaCommands,
  rows: {
    media: {
      id: 'media',
      async find(tx, { orgId, id, userId, action }) {
        if (OF_TRASH.includes(action)) return findMediaOrTrash(tx, orgId, id)
        const row = await findMedia(tx, orgId, id)
        return row && { ...row, isShownToGuest: await above.isShownToGuest(tx, { orgId, mediaId: id, userId }) }
      },
    },
    upload: { id: 'upload', find: (tx, { orgId, id }) => findUpload(tx, orgId, id) },
  },
  retention: [mediaTrash, expiredUploads],
  worker: workerPart(MediaSettings, mediaWorker),
})
