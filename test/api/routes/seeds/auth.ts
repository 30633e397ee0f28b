import { randomUUID } from 'node:crypto'
import { aPerson } from '../../../support/api.ts'
import type { Seeds, Side } from './seed.ts'

async function anAccount({ api }: Side) {
  const person = await aPerson(api)
  const credentials = { email: `${person.id}@example.org`, password: randomUUID() }
  const refreshToken = api.identity.account({ sub: person.id, ...credentials })
  return { person, credentials, refreshToken }
}

export const authSeeds: Seeds = {
  login: async (side) => ({ json: (await anAccount(side)).credentials }),
  refreshTokens: async (side) => ({ json: { refresh_token: (await anAccount(side)).refreshToken } }),
  logout: async (side) => {
    const { person, refreshToken } = await anAccount(side)
    return { as: person, json: { refresh_token: refreshToken }, signsOut: true }
  },
  getSigningKeys: () => ({}),
}
