import { hashOfAddress, unsubscribeToken } from '../../../../api/features/notifications/unsubscribe-token.ts'
import type { Part } from '../../../support/society.ts'

const CHANNELS = ['email', 'push']
const TEMPLATES = ['EventInvitation.v1', 'Mention.v1'] as const

export const part: Part = {
  ask: () => [
    {
      route: 'getNotificationPreferences',
      want: {
        preferences: CHANNELS.flatMap((channel) => TEMPLATES.map((template) => ({ channel, template, enabled: true }))),
      },
    },
  ],
  askAsNobody: ({ api, users }) =>
    users.flatMap(({ email }) => {
      const who = { addressHash: hashOfAddress(email) }
      const token = unsubscribeToken(api.config.LINK_KEYS, { template: 'Mention.v1', who })
      return [
        { route: 'getUnsubscribePage', params: { token }, want: { type: 'text/html; charset=utf-8' } },
        { route: 'getUnsubscribePage', params: { token: token.replace('.1.', '.0.') }, want: undefined },
      ]
    }),
}
