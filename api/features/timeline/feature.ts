import type { Feature } from '../../feature.ts'
import { timelineCommands } from './administration.ts'
import { timelineActions } from './policy.ts'
import { timelineRoutes } from './routes.ts'
import { timelineWorker } from './worker.ts'

export const timeline: Feature = {
  tags: { Timeline: 'What happened, in timelines of organizations and users, and in the feed of the caller.' },
  routes: timelineRoutes,
  actions: Object.values(timelineActions),
  commands: timelineCommands,
  worker: timelineWorker,
}
