import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { formatId } from '../../../lib/contract/ids.ts'
import type { Database } from '../../db/db.ts'
import { type EraseDeps, type Erased, type ErasedPerson, type PersonalPart, step } from '../../personal/part.ts'
import { ownAddresses } from '../../personal/queries.ts'
import {
  eraseDevices,
  eraseNotifications,
  erasePreferences,
  listMailed,
  MESSAGES_STEP,
  PREFERENCES_STEP,
} from './erasure-queries.ts'

const REASON = { harmless: 'what failed, without values' }

export const notificationsPart: PersonalPart = {
  personal: {
    devices: {
      holds: 'where push messages go',
      kept: 'until the sign-out, or the service says that it is gone',
      columns: {
        user_id: { person: 'gone' },
        address: { erase: 'row deleted', canary: 'token' },
        p256dh: { erase: 'row deleted', canary: 'token' },
        auth: { erase: 'row deleted', canary: 'token' },
        session_id: { erase: 'row deleted', canary: 'token' },
        vapid_key: { harmless: 'a hash of the key of this installation' },
      },
    },
    notifications: {
      holds: 'what people were told of; the text is made when it is sent and not kept',
      kept: '90 days, and until the event is over',
      columns: {
        user_id: { person: 'gone' },
        email: { erase: 'row deleted', canary: 'email' },
        phone_number: { erase: 'row deleted', canary: 'phone' },
        download_id: { harmless: 'the id of an export' },
        lease_token: { harmless: 'random' },
      },
    },
    notification_deliveries: {
      holds: 'what was sent where to',
      kept: 'as long as the notification',
      columns: { destination: { erase: 'row deleted', canary: 'email' }, reason: REASON },
    },
    notification_channels: {
      holds: 'channels that cannot send',
      kept: 'until they can',
      columns: { channel: { harmless: 'a closed list' }, reason: REASON },
    },
    notification_pauses: {
      holds: 'receivers that want no messages for a while',
      kept: 'until the pause is over',
      columns: {
        channel: { harmless: 'a closed list' },
        receiver: { harmless: 'the id of a device or a webhook, or a host' },
        reason: REASON,
      },
    },
    notification_preferences: {
      holds: 'what people want to be told of',
      kept: 'as long as the account',
      columns: { user_id: { person: 'gone' }, template: { harmless: 'a closed list' } },
    },
    notification_optouts: {
      holds: 'addresses that want no mail, as hashes',
      kept: 'always',
      columns: {
        address_hash: { harmless: 'a hash; the row is deleted where it is that of the person’s address' },
        template: { harmless: 'a closed list' },
      },
    },
    webhooks: {
      holds: 'services of an organization that are told what people are notified of',
      kept: 'until an administrator removes them',
      columns: {
        url: { harmless: 'of an administrator' },
        secret: { harmless: 'random' },
        previous_secret: { harmless: 'random' },
        disabled_reason: REASON,
        last_answer: { erase: 'removed, in every organization', canary: 'text' },
      },
    },
  },
  erase: [
    step({
      name: 'notifications.devices',
      phase: 'access',
      does: 'no push message is sent any more: devices are deleted',
      run: ({ db }, { userId }) => db.inTransaction({}, async (tx) => ({ devices: await eraseDevices(tx, userId) })),
    }),
    {
      name: MESSAGES_STEP,
      // Before what they are about, with which they would go unseen.
      phase: 'composites',
      does: 'notifications of the person are deleted, with their deliveries by mail, push and webhook, and mails in a folder',
      run: removeNotifications,
    },
    step({
      name: PREFERENCES_STEP,
      phase: 'texts',
      does: 'what the person wanted to be told of is deleted, also opt-outs of the address if no other account has it',
      run: ({ db }, person) =>
        db.inTransaction({}, async (tx) => ({ preferences: await erasePreferences(tx, person) })),
    }),
  ],
}

async function removeNotifications({ db, config }: EraseDeps, person: ErasedPerson): Promise<Erased> {
  const folder = config['MAIL_FOLDER']
  const mails = typeof folder === 'string' ? await removeMails(db, folder, person) : 0
  const notifications = await db.inTransaction({}, (tx) => eraseNotifications(tx, person))
  return { counts: { notifications, mails } }
}

/** Installations on one machine keep mails as files, which have the names of their notifications. */
async function removeMails(db: Database, folder: string, person: ErasedPerson): Promise<number> {
  const [ids, { email }] = await db.read(
    {},
    async (tx) => [await listMailed(tx, person.userId), await ownAddresses(tx, person, MESSAGES_STEP)] as const,
  )
  const theirs = new Set(ids.map((id) => `${formatId('notification', id)}.eml`))
  let removed = 0
  const names = await readdir(folder).catch(() => [])
  for (const name of names.filter((one) => one.endsWith('.eml'))) {
    const path = join(folder, name)
    const isTheirs = theirs.has(name) || (email !== null && isTo(await readFile(path, 'utf8').catch(() => ''), email))
    if (!isTheirs) continue
    await rm(path, { force: true })
    removed += 1
  }
  return removed
}

/** Whether a header of the mail has the address, and not one that it is the end or the beginning of. */
export function isTo(mail: string, address: string): boolean {
  const head = mail.split(/\r?\n\r?\n/, 1)[0] ?? ''
  return head
    .toLowerCase()
    .split(/[\s<>,;:"]+/)
    .includes(address)
}
