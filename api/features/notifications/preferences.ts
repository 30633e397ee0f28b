import * as z from 'zod'
import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Database, Tx } from '../../db/db.ts'
import { listPreferences, type Preference, savePreferences, saveUnsubscription } from './preference-queries.ts'
import { findRecipient, PERSONAL_CHANNELS, TEMPLATES } from './queries.ts'
import { hashOfAddress, type Unsubscription } from './unsubscribe-token.ts'

const Channel = z.enum(PERSONAL_CHANNELS).meta({ id: 'PersonalChannel' })
const Template = z.enum(TEMPLATES).meta({
  id: 'NotificationTemplate',
  description:
    'EventInvitation.v1: the user is invited to an event. Mention.v1: a comment mentions the user. DownloadReady.v1: an export that the user asked for can be downloaded. EventPurgeSoon.v1: an archived event of the user will be purged',
})
const NotificationPreference = z
  .object({ channel: Channel, template: Template, enabled: z.boolean() })
  .meta({ id: 'NotificationPreference' })

/** Of each channel and template. */
export const NotificationPreferences = z
  .object({ preferences: z.array(NotificationPreference) })
  .meta({ id: 'NotificationPreferences' })
export type NotificationPreferences = z.output<typeof NotificationPreferences>

const ALL = PERSONAL_CHANNELS.flatMap((channel) => TEMPLATES.map((template) => ({ channel, template })))
const nameOf = ({ channel, template }: Pick<Preference, 'channel' | 'template'>) => `${channel} ${template}`

/** What to change; the other preferences stay. */
export const ChangedPreferences = z.object({
  preferences: z
    .array(NotificationPreference)
    .min(1)
    .max(ALL.length)
    .refine((list) => new Set(list.map(nameOf)).size === list.length, 'names a channel and template twice'),
})

async function preferencesOf(tx: Tx, userId: Uuid): Promise<NotificationPreferences> {
  const chosen = new Map((await listPreferences(tx, userId)).map((one) => [nameOf(one), one.enabled]))
  return { preferences: ALL.map((one) => ({ ...one, enabled: chosen.get(nameOf(one)) ?? true })) }
}

export const showPreferences = (db: Database, userId: Uuid): Promise<NotificationPreferences> =>
  db.read({ user: userId }, (tx) => preferencesOf(tx, userId))

/** A user who wants mails of a template again gets them also where the address had unsubscribed by itself. */
export const changePreferences = (
  db: Database,
  userId: Uuid,
  given: readonly Preference[],
): Promise<NotificationPreferences> =>
  db.inTransaction({ user: userId }, async (tx) => {
    await savePreferences(tx, userId, given)
    const { email } = await findRecipient(tx, { userId })
    for (const { channel, template, enabled } of given) {
      if (channel !== 'email' || !enabled || email === null) continue
      await saveUnsubscription(tx, { template, who: { addressHash: hashOfAddress(email) } }, true)
    }
    return preferencesOf(tx, userId)
  })

export const changeUnsubscription = (db: Database, wanted: Unsubscription, isEnabled: boolean): Promise<void> =>
  db.inTransaction({}, (tx) => saveUnsubscription(tx, wanted, isEnabled))
