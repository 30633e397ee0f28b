import { type Person, uuidOf } from '../../../support/api.ts'
import { aMember } from '../../../support/organizations.ts'
import type { ListSeeds, Seeds, Side } from './seed.ts'

/** A new member of the side's organization. */
export const aMemberOf = ({ api, org }: Side, role = 'member'): Promise<Person> =>
  aMember(api, uuidOf('organization', org), { role })

const ofMember = async (side: Side) => ({
  as: await aMemberOf(side, 'owner'),
  params: { org_id: side.org, user_id: (await aMemberOf(side)).wireId },
})

let years = 0

export const organizationSeeds: Seeds = {
  getOrganization: ({ org, person }) => ({ as: person, params: { org_id: org } }),
  updateOrganization: async (side) => ({
    as: await aMemberOf(side, 'owner'),
    params: { org_id: side.org },
    json: { event_retention_years: (years++ % 30) + 1 },
  }),
  listMembers: ({ org, person }) => ({ as: person, params: { org_id: org } }),
  changeMember: async (side) => ({ ...(await ofMember(side)), json: { role: 'admin' } }),
  removeMember: ofMember,
}

export const organizationLists: ListSeeds = {
  listMembers: {
    add: async (side) => (await aMemberOf(side)).id,
    filter: { joined_year: String(new Date().getUTCFullYear()) },
  },
}
