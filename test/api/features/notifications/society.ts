import { hashOfAddress, unsubscribeToken } from '../../../../api/features/notifications/unsubscribe-token.ts'
import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { AT, latestFirst, madeOnce, type Part, word } from '../../../support/society.ts'
import { invitationsOf } from '../invitations/society.ts'

const CHANNELS = ['email', 'push']
const TEMPLATES = ['EventInvitation.v1', 'Mention.v1', 'DownloadReady.v1', 'EventPurgeSoon.v1'] as const

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

/** A notification of each invitation, as the sender leaves one. */
const toldOf = madeOnce((society) => {
  const told = invitationsOf(society).map((invitation) => ({ id: newUuid(), invitation }))
  for (const { id, invitation } of told) {
    const { event, to, channel } = invitation
    society.insert('notifications', {
      ...{ id, org_id: event.organization.id, template: 'EventInvitation.v1', event_id: event.id },
      email: channel === 'email' ? to.email : null,
      phone_number: channel === 'phone_number' ? to.phone : null,
      user_id: channel === 'uuid' ? to.id : null,
      ...{ invitation_id: invitation.id, generation: 1 },
    })
  }
  return told
})
const opening = (notification: string) => [
  { route: 'recordOpen', params: { notification: notification }, want: { type: 'image/gif' } },
]

export const part: Part = {
  of(society) {
    toldOf(society)
    devicesOf(society)
  },
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
  askAsNobody: (society) => [
    ...opening('x'),
    { route: 'followInvitationLink', params: { notification: 'x' }, want: undefined },
    ...toldOf(society).flatMap(({ id }) => [
      ...opening(formatId('notification', id)),
      {
        ...{ route: 'followInvitationLink', params: { notification: formatId('notification', id) } },
        want: { type: 'text/plain; charset=utf-8' },
      },
    ]),
    ...society.users.flatMap(({ email }) => {
      const who = { addressHash: hashOfAddress(email) }
      const token = unsubscribeToken(society.api.config.LINK_KEYS, { template: 'Mention.v1', who })
      return [
        { route: 'getUnsubscribePage', params: { token }, want: { type: 'text/html; charset=utf-8' } },
        { route: 'getUnsubscribePage', params: { token: token.replace('.1.', '.0.') }, want: undefined },
      ]
    }),
  ],
}
