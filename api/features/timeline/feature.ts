import type { Feature } from '../../feature.ts'
import { timelineCommands } from './administration.ts'
import { changesActions } from './changes/policy.ts'
import { changesRoutes } from './changes/routes.ts'
import { timelinePart } from './erasure.ts'
import { internalTimelineRoutes } from './internal-routes.ts'
import { timelineActions } from './policy.ts'
import { timelineRoutes } from './routes.ts'
import { timelineWorker } from './worker.ts'

export const timeline: Feature = {
  ...timelinePart,
  tags: { Timeline: 'What happened in organizations, and the feed of a user.' },
  routes: (deps) => [...timelineRoutes(deps), ...changesRoutes(deps)],
  internalRoutes: internalTimelineRoutes,
  actions: [...Object.values(timelineActions), ...Object.values(changesActions)],
  export: { nothing: 'made of what other features export' },
  commands: timelineCommands,
  worker: timelineWorker,
}
