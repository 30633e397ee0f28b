import { aPerson, type Person, uuidOf } from '../../../support/api.ts'
import type { ListSeeds, Seeds, Side } from './seed.ts'

/** A new member of the organization. */
export async function aMember({ api, org }: Side, role = 'member'): Promise<Person> {
  const person = await aPerson(api)
  await api.database.admin.query('insert into memberships (org_id, user_id, role) values ($1, $2, $3)', [
    uuidOf('organization', org),
    person.id,
    role,
  ])
  return person
}

const ofMember = async (side: Side) => ({
  as: await aMember(side, 'owner'),
  params: { org_id: side.org, user_id: (await aMember(side)).wireId },
})

export const organizationSeeds: Seeds = {
  listMembers: ({ org, person }) => ({ as: person, params: { org_id: org } }),
  changeMember: async (side) => ({ ...(await ofMember(side)), json: { role: 'admin' } }),
  removeMember: ofMember,
}

export const organizationLists: ListSeeds = {
  listMembers: {
    add: async (side) => (await aMember(side)).id,
    filter: { joined_year: String(new Date().getUTCFullYear()) },
  },
}
