import { hashOfAddress, unsubscribeToken } from '../../../../api/features/notifications/unsubscribe-token.ts'
import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { AT, latestFirst, madeOnce, type Part, word } from '../../../support/society.ts'

const CHANNELS = ['email', 'push']
const TEMPLATES = ['EventInvitation.v1', 'Mention.v1'] as const

const devicesOf = madeOnce(({ draw, users, insert, marks }) => {
  const devices = users.flatMap((owner) => draw.times(0, 2, () => ({ id: newUuid(), owner, token: word('token') })))
  insert(
    'devices',
    ...devices.map(({ id, owner, token }) => {
      marks.push(token)
      return { id, user_id: owner.id, kind: 'fcm', address: token, created_at: AT, registered_at: AT }
    }),
  )
  return devices
})

export const part: Part = {
  of: devicesOf,
  ask: (society, who) => [
    { route: 'getVapidKey', want: { public_key: null } },
    {
      route: 'getDevices',
      want: {
        devices: latestFirst(devicesOf(society).filter(({ owner }) => owner === who)).map(({ id }) => ({
          device_id: formatId('device', id),
          kind: 'fcm',
          push_service: null,
          created_at: AT,
          registered_at: AT,
        })),
      },
    },
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
