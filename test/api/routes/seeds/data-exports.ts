import { aPerson } from '../../../support/api.ts'
import type { Seed, Seeds } from './seed.ts'

/** A person may start few of them. */
const withExport: Seed = async ({ api }) => {
  const as = await aPerson(api)
  const { data } = await api.call(as, 'POST', '/gdpr/export')
  return { as, params: { export_id: data.export_id } }
}

export const dataExportSeeds: Seeds = {
  requestDataExport: async ({ api }) => ({ as: await aPerson(api) }),
  listDataExports: async (side) => ({ as: (await withExport(side)).as ?? side.person }),
  getDataExport: withExport,
  deleteDataExport: withExport,
}
