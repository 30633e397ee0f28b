import type { Feature } from '../../feature.ts'
import { changesActions } from './changes/policy.ts'
import { changesRoutes } from './changes/routes.ts'

export const timeline: Feature = {
  tags: { Timeline: 'What happened in organizations, and the feed of a user.' },
  routes: (deps) => changesRoutes(deps),
  actions: Object.values(changesActions),
}
