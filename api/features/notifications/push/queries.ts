import type { Uuid } from '../../../../lib/contract/ids.ts'
import { isEnded } from '../../../auth/policy.ts'
import { findUser } from '../../../auth/queries.ts'
import type { Tx } from '../../../db/db.ts'
import { and, desc, eq, inArray, ne, type SQL, sql } from '../../../db/orm.ts'
import { DEVICE_KINDS, type DeviceRow, devices } from '../../../db/schema/devices.ts'
import { notifications } from '../../../db/schema/notifications.ts'
import { users } from '../../../db/schema/users.ts'
import type { Actor } from '../../../requests/actor.ts'
import type { Addressed } from '../channel.ts'

export type { DeviceRow } from '../../../db/schema/devices.ts'
export { DEVICE_KINDS }

export const devicesOf = (tx: Tx, notificationIds: readonly Uuid[]): Promise<Addressed[]> =>
  tx
    .select({ notificationId: notifications.id, destination: sql<string>`${devices.id}::text` })
    .from(notifications)
    .innerJoin(devices, eq(devices.userId, notifications.userId))
    .where(inArray(notifications.id, [...notificationIds]))

export async function findDevice(tx: Tx, id: Uuid): Promise<DeviceRow | undefined> {
  const [row] = await tx.select().from(devices).where(eq(devices.id, id))
  return row
}

/** Whether the delivery `d` goes to a device of this kind. Destinations of other channels are no ids. */
export const isOfKind = (kind: DeviceRow['kind']): SQL =>
  sql`exists (select from devices where devices.id = case d.channel when 'push' then d.destination::uuid end
    and devices.kind = ${kind})`

/** Latest first. */
export const listDevices = (tx: Tx, userId: Uuid): Promise<DeviceRow[]> =>
  tx.select().from(devices).where(eq(devices.userId, userId)).orderBy(desc(devices.registeredAt), desc(devices.id))

/**
 * Waits for a sign-out and for other registrations of the user, and says whether the sign-in of the request still lasts.
 * The token was checked before the body arrived: a device that a sign-out has not seen would get messages for ever.
 */
export async function lockSignedIn(tx: Tx, { userId, signIn }: Pick<Actor, 'userId' | 'signIn'>): Promise<boolean> {
  await tx.select({ id: users.id }).from(users).where(eq(users.id, userId)).for('no key update')
  if (!signIn) return false
  const now = await findUser(tx, userId, signIn.name)
  return now !== undefined && !isEnded(signIn, now)
}

/** Takes an address from the device that has it. Two that register it at the same time come one after the other. */
export async function takeAddress(tx: Tx, id: Uuid, address: string): Promise<void> {
  await tx.execute(sql`select pg_advisory_xact_lock(hashtextextended(${address}, 0))`)
  await tx.delete(devices).where(and(eq(devices.address, address), ne(devices.id, id)))
}

/** Inserts the device or changes it. Undefined for a device of another user. */
export async function saveDevice(
  tx: Tx,
  row: Omit<DeviceRow, 'createdAt' | 'registeredAt'>,
): Promise<DeviceRow | undefined> {
  const { id: _, userId: __, ...changes } = row
  // The same endpoint again is the same subscription, whatever key is configured meanwhile.
  const keyOf = sql`case when ${devices.address} = excluded.address then ${devices.vapidKey} else excluded.vapid_key end`
  const [saved] = await tx
    .insert(devices)
    .values(row)
    .onConflictDoUpdate({
      target: devices.id,
      set: { ...changes, vapidKey: keyOf, registeredAt: sql`now()` },
      setWhere: eq(devices.userId, row.userId),
    })
    .returning()
  return saved
}

/** Deletes the devices of a user that were registered longest ago, but for `most`. */
export async function deleteOldest(tx: Tx, userId: Uuid, most: number): Promise<void> {
  const surplus = tx
    .select({ id: devices.id })
    .from(devices)
    .where(eq(devices.userId, userId))
    .orderBy(desc(devices.registeredAt), desc(devices.id))
    .offset(most)
  await tx.delete(devices).where(inArray(devices.id, surplus))
}

/** Returns whether the user has had it. */
export async function deleteDeviceOf(tx: Tx, userId: Uuid, id: Uuid): Promise<boolean> {
  const { rowCount } = await tx.delete(devices).where(and(eq(devices.id, id), eq(devices.userId, userId)))
  return rowCount === 1
}

export async function deleteDevicesOf(tx: Tx, userId: Uuid): Promise<void> {
  await tx.delete(devices).where(eq(devices.userId, userId))
}

/** Unless it has another address meanwhile: what the push service said is about the earlier one. */
export async function dropDevice(tx: Tx, { id, address }: Pick<DeviceRow, 'id' | 'address'>): Promise<void> {
  await tx.delete(devices).where(and(eq(devices.id, id), eq(devices.address, address)))
}
