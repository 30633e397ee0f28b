import type { Feature } from '../../feature.ts'
import { musicTrackCommands } from './administration.ts'
import { musicTracksPart } from './erasure.ts'
import { musicTrackActions } from './policy.ts'
import { musicTrackRoutes } from './routes.ts'

export const musicTracks: Feature = {
  ...musicTracksPart,
  // Its operations are found with those of highlights.
  tags: {},
  routes: musicTrackRoutes,
  actions: Object.values(musicTrackActions),
  export: { nothing: 'the tracks of the installation, which are of no user' },
  commands: musicTrackCommands,
}
