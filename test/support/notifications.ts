import type { ChannelName } from '../../api/db/schema/notifications.ts'
import { newSlug } from '../../api/features/invitations/slug.ts'
import type { Channel, ChannelPart, Destination, Outcome, Rendered } from '../../api/features/notifications/channel.ts'
import { composer } from '../../api/features/notifications/compose.ts'
import { mailAddressesOf } from '../../api/features/notifications/queries.ts'
import { workerOf } from '../../api/features/notifications/worker.ts'
import type { FeatureWorker } from '../../api/worker/feature-worker.ts'
import type { EventPayload, EventType, ReceivedEvent } from '../../lib/contract/events.ts'
import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { TestDatabase } from './database.ts'
import { quietLog } from './quiet-log.ts'

export const LINK_KEYS = { current: 'k1', keys: { k1: Buffer.alloc(32, 7).toString('base64url') } }

/** As a worker has them. */
export const COMPOSE = {
  PUBLIC_URL: 'https://api.example.org',
  BASE_PATH: '/v1',
  APP_URL: 'https://app.example.org',
  LINK_KEYS,
  MAIL_LANGUAGE: 'en',
  MAIL_TIME_ZONE: 'Europe/Berlin',
} as const

export interface Sent {
  message: Rendered
  to: Destination
}

/** A channel that answers as the test says and notes what it was given. Destinations are those of e-mail. */
export function scriptedChannel(
  answer: (sent: Sent, signal: AbortSignal) => Outcome | Promise<Outcome>,
  o: Partial<Omit<Channel, 'send'>> & Partial<Omit<ChannelPart, 'channel'>> = {},
) {
  const sent: Sent[] = []
  const name: ChannelName = o.name ?? 'email'
  const { schedule = [0, 0], isIdempotent = false, concurrency = 4, ...rest } = o
  const part: ChannelPart = {
    offReason: 'off',
    destinationsOf: mailAddressesOf,
    ...rest,
    name,
    channel: {
      name,
      schedule,
      isIdempotent,
      concurrency,
      async send(message, to, signal) {
        sent.push({ message, to })
        return answer({ message, to }, signal)
      },
    },
  }
  return { part, sent }
}

/** One organization with an owner of events and members, and what its events say to consumers. */
export async function notificationWorld({ admin, worker }: TestDatabase) {
  const orgId = newUuid()
  await admin.query(`insert into organizations (id, name) values ($1, 'Friends')`, [orgId])
  let count = 0

  async function person(o: { name?: string; email?: string | null; role?: string | null; locale?: string } = {}) {
    const id = newUuid()
    const { name = 'Ann', email = `person-${++count}@example.org`, role = 'member', locale = null } = o
    await admin.query(
      `insert into users (id, issuer, subject, email, display_name, locale, tokens_not_before)
       values ($1, 'test', $2, $3, $4, $5, '-infinity')`,
      [id, id, email, name, locale],
    )
    if (role)
      await admin.query('insert into memberships (org_id, user_id, role) values ($1, $2, $3)', [orgId, id, role])
    return { id, email: email ?? '' }
  }
  const host = await person({ name: 'Mira', email: 'mira@example.org' })

  async function event(
    o: { title?: string; status?: string; place?: string | null; owner?: Uuid } = {},
  ): Promise<Uuid> {
    const id = newUuid()
    const { title = 'Class reunion', status = 'active', place = 'The old school', owner = host.id } = o
    await admin.query(
      `insert into events (id, org_id, owner_id, title, start_at, location_name, status)
       values ($1, $2, $3, $4, '2026-12-24T17:30:00Z', $5, $6)`,
      [id, orgId, owner, title, place, status],
    )
    return id
  }

  interface Invited {
    id: Uuid
    eventId: Uuid
    email: string | null
  }
  async function invitation(
    o: {
      eventId?: Uuid
      email?: string | null
      userId?: Uuid | null
      phone?: string | null
      message?: string | null
      by?: Uuid
      /** As a Postgres interval. */
      lasts?: string
    } = {},
  ): Promise<Invited> {
    const id = newUuid()
    const eventId = o.eventId ?? (await event())
    const { userId = null, phone = null, message = null, by = host.id, lasts = '1 hour' } = o
    const email = o.email ?? (userId === null && phone === null ? `guest-${++count}@example.org` : null)
    const values = [id, orgId, eventId, newSlug(), email, userId, phone, message, by, lasts]
    await admin.query(
      `insert into invitations (id, org_id, event_id, slug, email, user_id, phone_number, message, invited_by,
         token_expires_at, told_generation)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, date_trunc('second', now()) + $10::interval, 1)`,
      values,
    )
    return { id, eventId, email }
  }

  async function comment(o: { eventId: Uuid; by: Uuid; mentions: Uuid[]; body?: string; audience?: string }) {
    const id = newUuid()
    const { body = 'Do you remember?', audience = 'event' } = o
    const media = audience === 'album' ? newUuid() : null
    if (media) {
      await admin.query(
        `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes)
         values ($1, $2, $3, 'a.jpg', 'image/jpeg', 'image', 1)`,
        [media, orgId, host.id],
      )
    }
    await admin.query(
      `insert into comments (id, org_id, event_id, target_type, target_id, media_id, audience, author_id, body, mentions)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
      [id, orgId, o.eventId, media ? 'media' : 'meta', media ?? o.eventId, media, audience, o.by, body, o.mentions],
    )
    return { id, eventId: o.eventId, authorId: o.by, media }
  }

  const received = <T extends EventType>(type: T, payload: EventPayload<T>): ReceivedEvent =>
    ({ id: newUuid(), type, orgId, at: new Date(), aggregateVersion: 1, payload }) as ReceivedEvent

  const rowsOf = async (text: string, values: unknown[] = []) => (await admin.query(text, values)).rows

  return {
    orgId,
    host,
    person,
    event,
    invitation,
    comment,
    due: ({ id, eventId }: Invited, generation = 1) =>
      received('InvitationDue', { invitation_id: id, event_id: eventId, org_id: orgId, generation }),
    mentioned: ({ id, eventId, authorId }: { id: Uuid; eventId: Uuid; authorId: Uuid }, userId: Uuid) =>
      received('USER_MENTIONED', {
        comment_id: id,
        event_id: eventId,
        org_id: orgId,
        mentioned_user_id: userId,
        author_id: authorId,
        excerpt: '',
      }),
    purgedSoon: (eventId: Uuid, notice: 'first' | 'last', purgeAt: string) =>
      received('EventPurgeSoon', { event_id: eventId, org_id: orgId, notice, purge_at: purgeAt }),
    rowsOf,
    /** The deliveries of one destination, oldest first. */
    deliveries: (destination: string) =>
      rowsOf(
        `select d.id, d.channel, d.state, d.attempts, d.may_have_arrived, d.reason, d.notification_id, n.generation
         from notification_deliveries d join notifications n on n.id = d.notification_id
         where d.destination = $1 order by d.created_at, d.id`,
        [destination],
      ),
    /** As if the time until the next attempts had passed. */
    makeDue: (destination: string) =>
      rowsOf(`update notification_deliveries set next_attempt_at = now() where destination = $1`, [destination]),
    /** As if the time had passed for which a receiver rests. */
    endRest: (receiver: string) =>
      rowsOf(
        `with rest as (select channel, paused_until as until from notification_pauses where receiver = $1),
          due as (update notification_deliveries d set next_attempt_at = now() from rest
            where d.channel = rest.channel and d.destination = $1 and d.state = 'pending'
              and d.next_attempt_at > now() and d.next_attempt_at <= rest.until)
         update notification_pauses set paused_until = now() where receiver = $1`,
        [receiver],
      ),
    /** What the consumer of the feature does with a batch, in a worker of this process. */
    async consume(feature: FeatureWorker, events: readonly ReceivedEvent[]): Promise<void> {
      const [consumer] = feature.consumers ?? []
      if (!consumer) throw new Error('no consumer')
      await worker.inTransaction({}, (tx) => consumer.handle(tx, events))
      consumer.committed?.()
    },
  }
}
export type NotificationWorld = Awaited<ReturnType<typeof notificationWorld>>

interface Teardown {
  teardown(done: () => unknown): void
}

/** The part of a worker that notifies, with these channels. */
export function notifying(
  t: Teardown,
  { worker: db }: Pick<TestDatabase, 'worker'>,
  parts: readonly ChannelPart[],
  o: { log?: Log; onCount?: (labels: Record<string, string>) => void; opened?: Promise<boolean> } = {},
): FeatureWorker & { wake(): void; stop(): Promise<unknown> } {
  const { log = quietLog(), onCount, opened = Promise.resolve(true) } = o
  const counterOf =
    () =>
    (_: number, labels: Record<string, string> = {}) =>
      onCount?.(labels)
  const feature = workerOf({ db, log, counterOf, opened }, parts, composer(COMPOSE))
  let stopped: Promise<unknown> | undefined
  const stop = () => {
    stopped ??= Promise.resolve(feature.stop?.())
    return stopped
  }
  t.teardown(stop)
  return { ...feature, stop, wake: () => feature.channels?.['notifications']?.() }
}

export const wireId = (id: Uuid) => formatId('notification', id)
