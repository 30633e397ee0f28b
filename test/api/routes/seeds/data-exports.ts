import { parseId } from '../../../../lib/contract/ids.ts'
import { aPerson } from '../../../support/api.ts'
import { anEvent } from './events.ts'
import type { Seed, Seeds, Side } from './seed.ts'

/** A person may start few of them. */
const withExport: Seed = async ({ api }) => {
  const as = await aPerson(api)
  const { data } = await api.call(as, 'POST', '/gdpr/export')
  return { as, params: { export_id: data.export_id } }
}

/** A person of their own, for the same reason, who owns an event. */
const anOwner = async (side: Side) => {
  const { api, org } = side
  const as = await aPerson(api)
  await api.database.admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [
    parseId('organization', org),
    as.id,
  ])
  return { as, params: { org_id: org, event_id: await anEvent({ ...side, person: as }) } }
}
const withEventExport: Seed = async (side) => {
  const { as, params } = await anOwner(side)
  const { data } = await side.api.call(as, 'POST', `/api/orgs/${params.org_id}/events/${params.event_id}/export`)
  return { as, params: { export_id: data.export_id } }
}

export const dataExportSeeds: Seeds = {
  requestDataExport: async ({ api }) => ({ as: await aPerson(api) }),
  listDataExports: async (side) => ({ as: (await withExport(side)).as ?? side.person }),
  getDataExport: withExport,
  deleteDataExport: withExport,
  requestEventExport: anOwner,
  listEventExports: async (side) => ({ as: (await withEventExport(side)).as ?? side.person }),
  getEventExport: withEventExport,
  deleteEventExport: withEventExport,
}
