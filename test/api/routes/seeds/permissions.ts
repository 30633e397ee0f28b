import { aPerson } from '../../../support/api.ts'
import type { Seeds } from './seed.ts'

export const permissionSeeds: Seeds = {
  explainPermission: async ({ api, org }) => ({
    as: api.people.platformAdmin,
    json: { user_id: (await aPerson(api)).wireId, org_id: org, action: 'media.list' },
  }),
}
