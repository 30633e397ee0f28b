import { unsubscribeToken } from '../../../../api/features/notifications/unsubscribe-token.ts'
import type { Seed, Seeds } from './seed.ts'

const withToken: Seed = ({ api, person }) => ({
  params: { token: unsubscribeToken(api.config.LINK_KEYS, { template: 'Mention.v1', who: { userId: person.id } }) },
})
let count = 0

export const notificationSeeds: Seeds = {
  getNotificationPreferences: ({ person }) => ({ as: person }),
  putNotificationPreferences: ({ person }) => ({
    as: person,
    json: { preferences: [{ channel: 'push', template: 'Mention.v1', enabled: ++count % 2 === 0 }] },
  }),
  getUnsubscribePage: withToken,
  unsubscribe: withToken,
  undoUnsubscribe: withToken,
}
