import type { Feature } from '../../feature.ts'
import { albumsPart } from './erasure.ts'
import { ownAlbumData } from './own-data.ts'
import { albumActions } from './policy.ts'
import { findAlbum } from './queries.ts'
import { albumRoutes } from './routes.ts'

export const albums: Feature = {
  ...albumsPart,
  tags: { Albums: 'Albums of an organization, and the media items in them.' },
  routes: albumRoutes,
  actions: Object.values(albumActions),
  export: ownAlbumData,
  rows: {
    album: { id: 'album', find: (tx, { orgId, id, userId }) => findAlbum(tx, { orgId, id, callerId: userId }) },
  },
}
