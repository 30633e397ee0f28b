import type { Uuid } from '../../../../lib/contract/ids.ts'
import { notFound, Problem } from '../../../../lib/contract/problem.ts'
import { unauthorized } from '../../../auth/verify-token.ts'
import type { Database } from '../../../db/db.ts'
import type { Actor } from '../../../requests/actor.ts'
import { timestamp } from '../../../requests/schemas.ts'
import { type Device, type GivenDevice, MAX_DEVICES } from './device.ts'
import { isPushHost } from './hosts-policy.ts'
import {
  type DeviceRow,
  deleteDeviceOf,
  deleteDevicesOf,
  deleteOldest,
  listDevices,
  lockSignedIn,
  saveDevice,
  takeAddress,
} from './queries.ts'
import { hashOfKey } from './vapid-key.ts'

interface Deps {
  db: Database
  config: { PUSH_HOSTS: readonly string[]; VAPID_PUBLIC_KEY?: string | undefined }
}

export const showDevices = async (db: Database, { userId }: Actor): Promise<{ devices: Device[] }> => ({
  devices: (await db.read({ user: userId }, (tx) => listDevices(tx, userId))).map(shown),
})

/** The same device again changes only its address. An address that another device has moves to this one. */
export function registerDevice({ db, config }: Deps, actor: Actor, id: Uuid, given: GivenDevice): Promise<Device> {
  const { userId, sessionId } = actor
  const address = addressOf(given, config.PUSH_HOSTS)
  const keys = given.keys ?? { p256dh: null, auth: null }
  const vapidKey = given.keys && config.VAPID_PUBLIC_KEY !== undefined ? hashOfKey(config.VAPID_PUBLIC_KEY) : null
  return db.inTransaction({ user: userId }, async (tx) => {
    if (!(await lockSignedIn(tx, actor))) throw unauthorized('revoked')
    await takeAddress(tx, id, address)
    const saved = await saveDevice(tx, { id, userId, kind: given.kind, address, ...keys, sessionId, vapidKey })
    if (!saved) throw notFound()
    await deleteOldest(tx, userId, MAX_DEVICES)
    return shown(saved)
  })
}

function addressOf(given: GivenDevice, hosts: readonly string[]): string {
  if (given.token !== undefined) return given.token
  const url = new URL(given.endpoint ?? '')
  const isKnown = isPushHost(url.hostname, hosts) && url.port === '' && !url.username && !url.password && !url.hash
  if (isKnown) return url.href
  const details = [{ field: 'body.endpoint', issue: 'is not an address of a push service that this server knows' }]
  throw new Problem('VALIDATION_ERROR', 'The request is not valid', { details })
}

export async function deleteDevice(db: Database, { userId }: Actor, id: Uuid): Promise<void> {
  if (!(await db.inTransaction({ user: userId }, (tx) => deleteDeviceOf(tx, userId, id)))) throw notFound()
}

export const deleteAllDevices = (db: Database, { userId }: Actor): Promise<void> =>
  db.inTransaction({ user: userId }, (tx) => deleteDevicesOf(tx, userId))

/** Without the address, which is a credential. */
const shown = ({ id, kind, address, createdAt, registeredAt }: DeviceRow): Device => ({
  device_id: id,
  kind,
  push_service: kind === 'webpush' ? new URL(address).hostname : null,
  created_at: timestamp(createdAt),
  registered_at: timestamp(registeredAt),
})
