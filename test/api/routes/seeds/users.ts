import { aPerson } from '../../../support/api.ts'
import type { Seeds } from './seed.ts'

export const userSeeds: Seeds = {
  getMe: async ({ api }) => ({ as: await aPerson(api) }),
}
