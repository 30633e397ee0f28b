import type { Feature } from '../../feature.ts'
import { workerPart } from '../../worker/feature-worker.ts'
import { notificationCommands } from './administration.ts'
import { notificationsPart } from './erasure.ts'
import { ownNotifications } from './own-data.ts'
import { notificationActions } from './policy.ts'
import { deviceRoutes } from './push/routes.ts'
import { oldNotifications } from './retention-target.ts'
import { notificationRoutes } from './routes.ts'
import { NotificationSettings } from './settings.ts'
import { traceRoutes } from './traces/routes.ts'
import { webhookCommands } from './webhook/administration.ts'
import { notificationWorker } from './worker.ts'

export const notifications: Feature = {
  ...notificationsPart,
  tags: { Notifications: 'What people are told of by e-mail and push, and what they do not want to be told of.' },
  routes: (deps) => [...notificationRoutes(deps), ...deviceRoutes(deps), ...traceRoutes(deps)],
  actions: Object.values(notificationActions),
  export: ownNotifications,
  commands: { ...notificationCommands, ...webhookCommands },
  retention: [oldNotifications],
  worker: workerPart(NotificationSettings, notificationWorker),
}
