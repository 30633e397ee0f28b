import * as z from 'zod'
import type { ApiDeps } from '../../../deps.ts'
import { type Route, route } from '../../../http/route.ts'
import { exampleId, pathId } from '../../../requests/schemas.ts'
import { notificationActions } from '../policy.ts'
import { Device, Devices, GivenDevice, MAX_DEVICES, PushKey } from './device.ts'
import { deleteAllDevices, deleteDevice, registerDevice, showDevices } from './devices.ts'

const tags = ['Notifications']
const params = z.object({ device_id: pathId('device') })
const example = {
  device_id: exampleId('device'),
  kind: 'webpush',
  push_service: 'updates.push.services.mozilla.com',
  created_at: '2026-11-21T09:30:00.000Z',
  registered_at: '2026-11-21T09:30:00.000Z',
}
const P256DH = 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4'

/** Where the caller gets push messages. */
export const deviceRoutes = ({ db, config }: ApiDeps): Route[] => [
  route({
    method: 'get',
    path: '/api/push/vapid-key',
    operationId: 'getVapidKey',
    tags,
    summary: 'Show the key for push messages to browsers',
    description: 'A browser subscribes with it (RFC 8292), and registers what it gets as a device.',
    action: notificationActions.readDevices,
    status: 200,
    response: PushKey,
    examples: { response: { public_key: P256DH } },
    handle: async () => ({ data: { public_key: config.VAPID_PUBLIC_KEY ?? null } }),
  }),
  route({
    method: 'get',
    path: '/api/users/me/devices',
    operationId: 'getDevices',
    tags,
    summary: 'Show the devices that get the caller’s push messages',
    description: 'The one registered last comes first. Endpoints and tokens are not shown.',
    action: notificationActions.readDevices,
    status: 200,
    response: Devices,
    examples: { response: { devices: [example] } },
    handle: async ({ actor }) => ({ data: await showDevices(db, actor) }),
  }),
  route({
    method: 'put',
    path: '/api/users/me/devices/{device_id}',
    operationId: 'putDevice',
    tags,
    summary: 'Register a device for push messages',
    description: `The app chooses the id, a random UUID, once for each installation and account, and repeats the request when it starts, after every sign-in, and whenever its push service gives it another endpoint or token. The device belongs to the session of the latest request, and is dropped when that session is signed out. A session that has lapsed keeps its device, until its person signs out of one that began later; a sign-in with the same \`device_id\` within a month takes it over. An endpoint or token that another device has, of any user, moves to this one. A user has at most ${MAX_DEVICES} devices: of more, the ones registered longest ago are dropped.`,
    action: notificationActions.saveDevices,
    problems: ['NOT_FOUND'],
    params,
    body: GivenDevice,
    status: 200,
    response: Device,
    examples: {
      request: {
        kind: 'webpush',
        endpoint: 'https://updates.push.services.mozilla.com/wpush/v2/gAAAAABn',
        keys: { p256dh: P256DH, auth: 'BTBZMqHH6r4Tts7J_aSIgg' },
      },
      response: example,
    },
    handle: async ({ actor, params, body }) => ({
      data: await registerDevice({ db, config }, actor, params.device_id, body),
    }),
  }),
  route({
    method: 'delete',
    path: '/api/users/me/devices/{device_id}',
    operationId: 'deleteDevice',
    tags,
    summary: 'End push messages to a device',
    description: 'A message that is being sent may still arrive.',
    action: notificationActions.saveDevices,
    problems: ['NOT_FOUND'],
    params,
    status: 204,
    async handle({ actor, params }) {
      await deleteDevice(db, actor, params.device_id)
      return { data: null }
    },
  }),
  route({
    method: 'delete',
    path: '/api/users/me/devices',
    operationId: 'deleteDevices',
    tags,
    summary: 'End push messages to all devices of the caller',
    description: 'As signing out does. A message that is being sent may still arrive.',
    action: notificationActions.saveDevices,
    status: 204,
    async handle({ actor }) {
      await deleteAllDevices(db, actor)
      return { data: null }
    },
  }),
]
