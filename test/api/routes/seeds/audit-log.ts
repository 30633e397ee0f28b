import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { made, type Seeds } from './seed.ts'

const requestExport = () => ({ format: 'jsonl', actor_id: formatId('user', newUuid()) })

export const auditLogSeeds: Seeds = {
  queryAudit: ({ api, org }) => ({ as: api.people.platformAdmin, json: { org_id: org, limit: 5 } }),
  requestAuditExport: ({ api }) => ({ as: api.people.platformAdmin, json: requestExport() }),
  getAuditExport: async ({ api }) => {
    const as = api.people.platformAdmin
    const { export_id } = await made(api.call(as, 'POST', '/admin/audit/export', { json: requestExport() }))
    return { as, params: { export_id } }
  },
}
