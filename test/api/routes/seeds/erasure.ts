import { aPerson } from '../../../support/api.ts'
import { made, type Seeds } from './seed.ts'

export const erasureSeeds: Seeds = {
  // Of another account: the caller's own would be closed for every request after it.
  anonymizeUser: async ({ api }) => ({
    as: api.people.platformAdmin,
    json: { user_id: (await aPerson(api)).wireId, confirm: true },
  }),
  getAnonymization: async ({ api }) => {
    const json = { user_id: (await aPerson(api)).wireId, confirm: true }
    const { anonymization_id, follow_token } = await made(
      api.call(api.people.platformAdmin, 'POST', '/gdpr/anonymize', { json }),
    )
    return { params: { anonymization_id }, headers: { 'x-anonymization-token': follow_token } }
  },
}
