import { aPerson } from '../../../support/api.ts'
import { aMemberOf } from './organizations.ts'
import type { ListSeeds, Seeds } from './seed.ts'

export const userSeeds: Seeds = {
  getMe: async ({ api }) => ({ as: await aPerson(api) }),
  getConnections: async (side) => ({ as: side.person, params: { user_id: (await aMemberOf(side)).wireId } }),
  listConnectedMembers: ({ person }) => ({ as: person }),
}

export const userLists: ListSeeds = {
  listConnectedMembers: { add: async (side) => (await aMemberOf(side)).id },
}
