import type { Feature } from '../../feature.ts'
import type { Action } from '../../permissions/rule.ts'
import { workerPart } from '../../worker/feature-worker.ts'
import { mediaCommands } from './administration.ts'
import { findMediaOrTrash } from './deletion/queries.ts'
import type { AboveDelivery } from './delivery/deliver.ts'
import { mediaPart } from './personal.ts'
import { mediaActions, uploadActions } from './policy.ts'
import { findMedia } from './queries.ts'
import { mediaRoutes } from './routes.ts'
import { findUpload } from './uploads/queries.ts'
import { MediaSettings, mediaWorker } from './worker.ts'

const OF_TRASH: readonly Action[] = [mediaActions.delete, mediaActions.restore]

export const media = (above: AboveDelivery): Feature => ({
  ...mediaPart,
  tags: {
    Storage: 'Upload of media items into an organization, and access to them.',
    Delivery: 'Download of media through signed links.',
  },
  routes: (deps) => mediaRoutes(deps, above),
  actions: [...Object.values(mediaActions), ...Object.values(uploadActions)],
  commands: mediaCommands,
  rows: {
    media: {
      id: 'media',
      find: (tx, { orgId, id, action }) => (OF_TRASH.includes(action) ? findMediaOrTrash : findMedia)(tx, orgId, id),
    },
    upload: { id: 'upload', find: (tx, { orgId, id }) => findUpload(tx, orgId, id) },
  },
  worker: workerPart(MediaSettings, mediaWorker),
})
