import { platformAdmin } from '../../permissions/facts.ts'
import { onCaller } from '../../permissions/rule.ts'

export const auditLogActions = {
  query: onCaller('audit.query', 'query the audit log', platformAdmin),
  export: onCaller('audit.export', 'export the audit log, and see one’s own exports of it', platformAdmin),
} as const
