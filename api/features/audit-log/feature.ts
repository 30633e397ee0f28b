import type { Feature } from '../../feature.ts'
import { auditLogPart } from './erasure.ts'
import { auditLogActions } from './policy.ts'
import { auditLogRoutes } from './routes.ts'
import { auditLogWorker } from './worker.ts'

export const auditLog: Feature = {
  ...auditLogPart,
  export: { nothing: 'what administrators read of the log' },
  tags: { Audit: 'The audit log, for platform administrators.' },
  routes: auditLogRoutes,
  actions: Object.values(auditLogActions),
  worker: auditLogWorker,
}
