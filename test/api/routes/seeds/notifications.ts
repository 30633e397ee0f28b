import { unsubscribeToken } from '../../../../api/features/notifications/unsubscribe-token.ts'
import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { uuidOf } from '../../../support/api.ts'
import { anEvent } from '../../../support/events.ts'
import { asInvitation } from '../../../support/invitations.ts'
import { made, type Seed, type Seeds } from './seed.ts'

const withToken: Seed = ({ api, person }) => ({
  params: { token: unsubscribeToken(api.config.LINK_KEYS, { template: 'Mention.v1', who: { userId: person.id } }) },
})
let count = 0

/** As the sender leaves one, of an invitation. */
const withNotification: Seed = async ({ api, org, person }) => {
  const at = await anEvent(api, { org, orgId: uuidOf('organization', org), owner: person })
  const json = { email: `told-${++count}@example.org` }
  const { data } = await api.call(person, 'POST', `/api/orgs/${at.org}/events/${at.wireId}/invitations`, { json })
  const id = newUuid()
  await api.database.admin.query(
    `insert into notifications (id, org_id, template, event_id, email, invitation_id, generation)
      values ($1, $2, 'EventInvitation.v1', $3, $4, $5, 1)`,
    [id, uuidOf('organization', org), at.id, json.email, asInvitation(data).id],
  )
  return { params: { notification: formatId('notification', id) } }
}

const aDevice = () => ({ kind: 'fcm', token: `token:${++count}` })
const withDevice: Seed = async ({ api, person }) => {
  const device_id = formatId('device', newUuid())
  await made(api.call(person, 'PUT', `/api/users/me/devices/${device_id}`, { json: aDevice() }))
  return { as: person, params: { device_id } }
}

export const notificationSeeds: Seeds = {
  getNotificationPreferences: ({ person }) => ({ as: person }),
  putNotificationPreferences: ({ person }) => ({
    as: person,
    json: { preferences: [{ channel: 'push', template: 'Mention.v1', enabled: ++count % 2 === 0 }] },
  }),
  getVapidKey: ({ person }) => ({ as: person }),
  getDevices: async (side) => ({ as: (await withDevice(side)).as ?? side.person }),
  putDevice: async (side) => ({ ...(await withDevice(side)), json: aDevice() }),
  deleteDevice: withDevice,
  deleteDevices: async (side) => ({ as: (await withDevice(side)).as ?? side.person }),
  getUnsubscribePage: withToken,
  unsubscribe: withToken,
  undoUnsubscribe: withToken,
  recordOpen: withNotification,
  followInvitationLink: withNotification,
}
