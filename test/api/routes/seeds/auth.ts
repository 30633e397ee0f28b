import { randomUUID } from 'node:crypto'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { signedHeaders } from '../../../../lib/runtime/standard-webhooks.ts'
import { aPerson, type Person, WEBHOOK_SECRET } from '../../../support/api.ts'
import { made, type Seeds, type Side } from './seed.ts'

async function anAccount({ api }: Side, code?: string) {
  const person = await aPerson(api)
  const credentials = { email: `${person.id}@example.org`, password: randomUUID() }
  const refreshToken = api.identity.account({ sub: person.id, ...credentials, ...(code && { code }) })
  return { person, credentials, refreshToken }
}

/** The person with a token that names its sign-in, which the API has seen. */
async function signedIn({ api }: Side, person?: Person): Promise<Person> {
  const of = person ?? (await aPerson(api))
  const token = await api.identity.token({ sub: of.id, claims: { sid: randomUUID() } })
  await made(api.call({ ...of, token }, 'GET', '/api/auth/sessions'))
  return { ...of, token }
}

export const authSeeds: Seeds = {
  login: async (side) => ({ json: (await anAccount(side)).credentials }),
  completeLogin: async (side) => {
    const { person } = await anAccount(side, '287082')
    return { json: { challenge_id: `challenge of ${person.id}`, code: '287082' } }
  },
  refreshTokens: async (side) => ({ json: { refresh_token: (await anAccount(side)).refreshToken } }),
  logout: async (side) => {
    const { person, refreshToken } = await anAccount(side)
    return { as: person, json: { refresh_token: refreshToken }, signsOut: true }
  },
  getSigningKeys: () => ({}),
  getSessions: async (side) => ({ as: await signedIn(side) }),
  deleteSession: async (side) => {
    const own = await signedIn(side)
    const { sessions } = await made(side.api.call(await signedIn(side, own), 'GET', '/api/auth/sessions'))
    const { session_id } = sessions.find(({ current }: { current: boolean }) => current)
    return { as: own, params: { session_id }, json: { refresh_token: randomUUID() } }
  },
  deleteOtherSessions: async (side) => ({ as: await signedIn(side) }),
  receiveProviderEvent: () => {
    const body = JSON.stringify({
      type: 'login',
      timestamp: new Date().toISOString(),
      data: { sub: newUuid(), sid: randomUUID() },
    })
    const headers = signedHeaders([WEBHOOK_SECRET], { id: randomUUID(), body })
    return { bytes: Buffer.from(body), headers: { 'content-type': 'application/json', ...headers } }
  },
  receiveLogoutToken: async ({ api }) => ({
    bytes: Buffer.from(
      new URLSearchParams({ logout_token: await api.identity.logoutToken({ sub: newUuid() }) }).toString(),
    ),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  }),
}
