import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import type { Tx } from '../../../../api/db/db.ts'
import { sql as orm } from '../../../../api/db/orm.ts'
import { eventArchive } from '../../../../api/features/event-archive/archive-target.ts'
import {
  FIRST_NOTICE,
  LAST_NOTICE,
  type NextNotice,
  NO_NOTICE,
  type NoticeSeen,
  nextNotice,
} from '../../../../api/features/event-archive/notice-plan.ts'
import { countRefusedNotices } from '../../../../api/features/event-archive/notice-queries.ts'
import { giveNotices } from '../../../../api/features/event-archive/notices.ts'
import { isTurnedAway } from '../../../../api/features/event-archive/queries.ts'
import { notificationConsumer } from '../../../../api/features/notifications/consumer.ts'
import { addHold, releaseHold } from '../../../../api/features/retention/holds.ts'
import { carryOut } from '../../../../api/features/retention/run.ts'
import type { ReceivedEvent } from '../../../../lib/contract/events.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import type { RetentionRun } from '../../../../lib/contract/retention.ts'
import { archiveWorld } from '../../../support/archived-events.ts'
import { startConversionTest } from '../../../support/conversion-world.ts'
import { insertMany } from '../../../support/explain.ts'
import { aRun, shiftClock } from '../../../support/retention.ts'

/** The owner of an archived event is told before it is purged, and it is purged only then. */
const DAY = 86_400_000
const day = (n: number) => n * DAY
const NONE = { notice: NO_NOTICE, namedMs: null } as const
const first = (named: number) => ({ notice: FIRST_NOTICE, namedMs: day(named) }) as const
const last = (named: number) => ({ notice: LAST_NOTICE, namedMs: day(named) }) as const

// Days: the purge is on day 100.
const CASES: [string, Partial<NoticeSeen> & { now: number; purge?: number }, [NextNotice['told'], boolean, number]][] =
  [
    ['too early', { now: 68 }, [NONE, false, 70]],
    ['long before', { now: 10 }, [NONE, false, 17]],
    ['thirty days before', { now: 70 }, [first(100), true, 77]],
    ['between the notices', { now: 80, told: first(100) }, [first(100), false, 87]],
    ['just before the last one', { now: 90, told: first(100) }, [first(100), false, 93]],
    ['seven days before', { now: 93, told: first(100) }, [last(100), true, 100]],
    ['for the first time in the last days: the purge waits', { now: 98 }, [last(105), true, 105]],
    ['for the first time when the period is long over', { now: 500 }, [last(507), true, 507]],
    ['after the last notice', { now: 95, told: last(100) }, [last(100), false, 100]],
    ['when the purge is late', { now: 103, told: last(100) }, [last(100), false, 110]],
    ['when the purge is very late', { now: 131, told: last(100) }, [last(138), true, 138]],
    ['when the last notice has not left yet', { now: 99, told: last(100), isUnheard: true }, [last(100), false, 100]],
    [
      'when it has not left by the time that it names',
      { now: 100, told: last(100), isUnheard: true },
      [last(107), true, 107],
    ],
    ['when another one was told before', { now: 95, told: first(100), isToAnother: true }, [last(102), true, 102]],
    ['when another one was told last', { now: 101, told: last(100), isToAnother: true }, [last(108), true, 108]],
    ['under a hold', { now: 94, told: first(100), isHeld: true }, [NONE, false, 95]],
    ['when the purge moves to a later time', { now: 95, told: last(100), purge: 200 }, [NONE, false, 102]],
    ['when it moves a little', { now: 95, told: last(100), purge: 120 }, [first(120), true, 102]],
    ['when it moves to an earlier time', { now: 85, told: first(100), purge: 90 }, [last(92), true, 92]],
    [
      'when it moves to an earlier time after the last notice',
      { now: 95, told: last(100), purge: 50 },
      [last(100), false, 100],
    ],
  ]
for (const [
  name,
  { now, purge = 100, told = NONE, isHeld = false, isToAnother = false, isUnheard = false },
  [saved, isNew, look],
] of CASES) {
  t.test(`what is said ${name}`, async (t) => {
    const next = nextNotice({ nowMs: day(now), purgeMs: day(purge), told, isHeld, isToAnother, isUnheard })
    t.strictSame(next, { told: saved, isNew, lookAgainMs: day(look) })
  })
}

const { database, place: storage, world, base } = await startConversionTest(t)
const { worker: db, admin } = database
const { org, user } = world
const made = archiveWorld({ admin, store: storage.store, org, user })
const { sql, exists, announced } = made
const signal = new AbortController().signal
const deps = { db, store: storage.store, log: base.log, signal, waitMs: 5, pauseMs: () => 1 }
const RULES: RetentionRun['rules'] = [{ after: 'P7Y', action: 'purge' }]
const carry = (change: Partial<RetentionRun> = {}) =>
  carryOut(deps, eventArchive, aRun('EventArchive', { rules: RULES, confirmed: true, ...change }))
const announce = () => giveNotices({ db, log: base.log }, signal)
const publish = () => sql('update outbox set published_at = now() where published_at is null')
/** The consumer of notifications handles what was announced last of these events, or of all. There is no channel. */
async function handle(event?: Uuid, prepare: (tx: Tx) => Promise<unknown> = async () => {}): Promise<void> {
  const rows = await sql(
    `select distinct on (aggregate_id) aggregate_id as event_id, payload from outbox
     where type = 'EventPurgeSoon' and aggregate_id = coalesce($1, aggregate_id) order by aggregate_id, created_at desc`,
    [event ?? null],
  )
  const events = rows.map(({ event_id, payload: { notice, purge_at } }) => ({
    ...{ id: newUuid(), type: 'EventPurgeSoon', orgId: org, at: new Date(), aggregateVersion: 1 },
    payload: { event_id, org_id: org, notice, purge_at },
  })) as ReceivedEvent[]
  await db.inTransaction({}, async (tx) => {
    await prepare(tx)
    await notificationConsumer([], () => {}).handle(tx, events)
  })
}
/** The notices are announced, published and handled. */
async function give(): Promise<number> {
  const given = await announce()
  await publish()
  await handle()
  return given
}
/** Archived seven years ago, but for so many days. */
async function anEvent(daysLeft: number): Promise<Uuid> {
  const id = await made.anEvent({ archived: 7, announced: false })
  await sql(`update events set archived_at = archived_at + make_interval(days => $2) where id = $1`, [id, daysLeft])
  return id
}
const notices = async (event: Uuid) => (await announced('EventPurgeSoon', event)).map(({ notice }) => notice)
const later = (days: number) => shiftClock(admin, `${days} days`)

const join = (person: Uuid, role = 'member') =>
  sql('insert into memberships (org_id, user_id, role) values ($1, $2, $3)', [org, person, role])
const leave = (person: Uuid) => sql('delete from memberships where user_id = $1', [person])
const own = (event: Uuid, person: Uuid) => sql('update events set owner_id = $2 where id = $1', [event, person])

t.beforeEach(async () => {
  await made.clear()
  await later(0)
})

t.test('an owner is told 30 and 7 days before, once each, and then the event is purged', async (t) => {
  const event = await anEvent(40)
  t.equal(await give(), 0, 'too early')
  await later(11)
  await give()
  await give()
  t.strictSame(await notices(event), ['first'])
  await later(34)
  await give()
  await give()
  t.strictSame(await notices(event), ['first', 'last'])
  const [, said] = await announced('EventPurgeSoon', event)
  t.match(said, { event_id: formatId('event', event), org_id: formatId('organization', org) })
  await later(39)
  t.match(await carry(), { purged: 0 })
  await later(41)
  t.ok(Date.parse(said.purge_at) <= Date.now() + day(41))
  t.match(await carry(), { purged: 1 })
  t.notOk(await exists('events', event))
})

t.test('the consumer finds the event of each notice, and tells its owner', async (t) => {
  const event = await anEvent(20)
  await give()
  await later(14)
  await give()
  const told = await sql(
    'select purge_notice as notice, user_id = $2 as owner from notifications where event_id = $1 order by 1',
    [event, user],
  )
  t.strictSame(told, [
    { notice: 1, owner: true },
    { notice: 2, owner: true },
  ])
})

t.test('an owner whom an older worker did not tell, because the time that it named was cut off, is told', async (t) => {
  const event = await anEvent(-400)
  await give()
  await sql(`update events set purge_notice_for = purge_notice_for + interval '1 microsecond' where id = $1`, [event])
  await later(8)
  t.match(await carry(), { purged: 0 })
  await sql('update events set purge_begun_at = now() where id = $1', [event])
  await give()
  t.strictSame(await notices(event), ['last'], 'a purge that has begun goes on')
  await sql('update events set purge_begun_at = null where id = $1', [event])
  await later(16)
  await give()
  t.strictSame(await notices(event), ['last', 'last'])
  await later(24)
  t.match(await carry(), { purged: 1 })
})

t.test('an event whose time is over already is announced at once, and purged seven days later', async (t) => {
  const event = await anEvent(-400)
  t.match(await carry(), { purged: 0, due: 1, ended: 'Finished' }, 'nobody was told')
  await give()
  t.strictSame(await notices(event), ['last'])
  t.match(await carry(), { purged: 0 })
  await later(6)
  await give()
  t.match(await carry(), { purged: 0 })
  await later(8)
  t.match(await carry(), { purged: 1 })
  t.strictSame(await notices(event), ['last'])
})

t.test('what was confirmed once is purged after its notices, without another question', async (t) => {
  for (let n = 0; n < 12; n++) await anEvent(-400)
  const run = (change: Partial<RetentionRun> = {}) => carry({ confirmed: false, ...change })
  t.match(await run(), { due: 12, ended: 'ConfirmationRequired' })
  t.equal(await give(), 0)
  t.match(await run({ dryRun: true }), { due: 12, ended: 'Finished' })
  t.equal(await give(), 0, 'a dry run is only a look')
  t.match(await run(), { ended: 'ConfirmationRequired' }, 'a dry run confirms nothing')
  t.match(await run({ confirmed: true, confirmedDue: 12 }), { purged: 0, ended: 'Finished' })
  t.equal(await give(), 12)
  t.match(await run(), { due: 12, purged: 0, ended: 'Finished' })
  await later(8)
  for (let n = 0; n < 10; n++) await anEvent(1)
  t.match(await run(), { due: 22, purged: 12, ended: 'Finished' }, 'a few more need no question')
  t.equal(await give(), 10)
  for (let n = 0; n < 11; n++) await anEvent(1)
  t.match(await run(), { due: 21, ended: 'Finished' }, 'those of before the last run')
  await made.clear()
  for (let n = 0; n < 11; n++) await anEvent(8)
  await later(10)
  t.match(await run(), { due: 11, ended: 'ConfirmationRequired' }, 'many that have become due since do')
})

/** A delivery of each notification of the event that has none by the channel, or of that to one person. */
const deliver = (event: Uuid, channel: string, state: string, o: { attempts?: number; to?: Uuid; at?: string } = {}) =>
  sql(
    `insert into notification_deliveries (id, org_id, notification_id, channel, destination, state, attempts)
     select gen_random_uuid(), org_id, id, $2, $6, $3, $4 from notifications n
     where event_id = $1 and user_id = coalesce($5, user_id)
       and not exists (select from notification_deliveries d where d.notification_id = n.id and d.channel = $2)`,
    [event, channel, state, o.attempts ?? 0, o.to ?? null, o.at ?? 'there'],
  )

t.test('a purge waits for a last notice that has not left, and the owner is told again', async (t) => {
  const event = await anEvent(-400)
  t.equal(await announce(), 1)
  await later(8)
  t.match(await carry(), { purged: 0 }, 'it is not published yet')
  t.equal(await announce(), 1)
  t.strictSame(await notices(event), ['last', 'last'])
  await publish()
  await handle()
  await deliver(event, 'email', 'pending')
  await deliver(event, 'push', 'suppressed')
  await deliver(event, 'webhook', 'sent')
  await later(16)
  t.match(await carry(), { purged: 0 }, 'it waits for the mail server')
  t.equal(await announce(), 1, 'the time that it names is over')
  await publish()
  t.equal(await announce(), 0)
  await sql(
    `update notifications set purge_at = (select purge_notice_for from events where id = $1) where event_id = $1`,
    [event],
  )
  await handle()
  await sql(`update notification_deliveries set state = 'sending' where channel = 'email'`)
  await later(24)
  t.match(await carry(), { purged: 0 })
  await sql(`update notification_deliveries set state = 'sent' where channel = 'email'`)
  await sql(`update notification_deliveries set state = 'pending' where channel = 'webhook'`)
  t.match(await carry(), { purged: 1 })
})

t.test('of several owners who are told one is enough, whatever becomes of the mails to the others', async (t) => {
  const [owner, first, second] = [await made.aPerson(), await made.aPerson(), await made.aPerson()]
  await sql(`update memberships set role = 'owner' where user_id = any($1)`, [[first, second]])
  const event = await anEvent(-400)
  await own(event, owner)
  await leave(owner)
  await give()
  await deliver(event, 'email', 'pending', { attempts: 3, to: first })
  await deliver(event, 'email', 'failed', { to: second })
  await later(8)
  t.match(await carry(), { purged: 0 }, 'no one was told')
  await sql(
    `update notification_deliveries d set state = 'sent' from notifications n
    where n.id = d.notification_id and n.user_id = $1`,
    [second],
  )
  await deliver(event, 'email', 'pending')
  t.match(await carry(), { purged: 1 })
})

/** As if a mail, or a message to this device, about something else had left now. */
async function somethingElseIsSent(device?: Uuid): Promise<void> {
  const other = await made.anEvent({ archived: 1 })
  await sql(
    `insert into notifications (id, org_id, template, event_id, user_id, purge_notice, purge_at)
     values ($1, $2, 'EventPurgeSoon.v1', $3, $4, 1, now())`,
    [newUuid(), org, other, user],
  )
  await (device ? deliver(other, 'push', 'sent', { at: device }) : deliver(other, 'email', 'sent'))
}
const refused = async () => (await sql('select purge_notices_refused as n from events')).map(({ n }) => n).sort()

/** A notice in each of four weeks, of which the mailbox refuses the mail for the time being. Nothing is purged meanwhile. */
async function refuseForWeeks(
  t: Test,
  event: Uuid,
  alsoDeliver: () => Promise<unknown> = async () => {},
): Promise<void> {
  for (let week = 0; week < 4; week++) {
    await later(8 * week)
    t.match(await carry(), { purged: 0 })
    t.equal(await give(), 1)
    t.strictSame(await refused(), [...Array(week).fill(0), week])
    await deliver(event, 'email', 'pending', { attempts: 2 })
    await alsoDeliver()
    await somethingElseIsSent()
  }
}

t.test('a mailbox that refuses four notices in a row for the time being counts as one that refuses them', async (t) => {
  const event = await anEvent(-400)
  await refuseForWeeks(t, event)
  t.equal(await db.read({}, countRefusedNotices), 1)
  await later(8 * 3 + 6)
  t.match(await carry(), { purged: 0 }, 'the fourth one names a time, too')
  await later(8 * 4)
  t.equal(await give(), 0)
  await sql(
    `update notification_deliveries d set state = 'sending' from notifications n join events e on e.id = n.event_id
     where d.notification_id = n.id and n.purge_at = e.purge_notice_for and d.state = 'pending'`,
  )
  t.match(await carry(), { purged: 0 }, 'the answer may be another one this time')
  await sql(`update notification_deliveries set state = 'pending' where state = 'sending'`)
  t.match(await carry(), { purged: 1 })
})

for (const [why, attempts, isSent] of [
  ['no mail leaves', 2, false],
  ['none was tried', 0, true],
] as const) {
  t.test(`a purge waits for as long as ${why}`, async (t) => {
    const event = await anEvent(-400)
    for (let week = 0; week < 6; week++) {
      await later(8 * week)
      t.match(await carry(), { purged: 0 })
      t.equal(await give(), 1)
      if (isSent) await somethingElseIsSent()
      await deliver(event, 'email', 'pending', { attempts })
      if (isSent) await somethingElseIsSent()
    }
    t.equal(await db.read({}, countRefusedNotices), 0)
  })
}

t.test('a device that cannot be reached does not keep a full mailbox from counting', async (t) => {
  const event = await anEvent(-400)
  const unreachable = newUuid()
  await sql(
    `insert into notification_pauses (channel, receiver, failures, paused_until) values ('push', $1, 9, now() + interval '1 hour')`,
    [unreachable],
  )
  t.teardown(() => sql('delete from notification_pauses'))
  await refuseForWeeks(t, event, () => deliver(event, 'push', 'pending', { at: unreachable }))
  await later(8 * 4)
  await sql(`update notification_deliveries set destination = 'other' where destination = $1`, [unreachable])
  t.match(await carry(), { purged: 0 }, 'another device may be reached')
  await sql(`update notification_deliveries set destination = $1 where destination = 'other'`, [unreachable])
  t.match(await carry(), { purged: 1 })
})

t.test('a device that cannot be reached is waited for where nothing was refused', async (t) => {
  const event = await anEvent(-400)
  await sql(
    `insert into notification_pauses (channel, receiver, failures, paused_until) values ('push', 'there', 9, now())`,
  )
  t.teardown(() => sql('delete from notification_pauses'))
  for (let week = 0; week < 6; week++) {
    await later(8 * week)
    t.match(await carry(), { purged: 0 })
    t.equal(await give(), 1)
    await deliver(event, 'push', 'pending')
    await somethingElseIsSent()
  }
  t.equal(await db.read({}, countRefusedNotices), 0)
})

t.test('a mailbox that is being asked again when the next notice is given counts as before', async (t) => {
  const event = await anEvent(-400)
  for (const attempts of [2, 1]) {
    await give()
    await deliver(event, 'email', 'sending', { attempts, at: `sending ${attempts}` })
    await somethingElseIsSent()
    await later(attempts === 2 ? 8 : 16)
    await give()
    const [row] = await sql('select purge_notices_refused as n from events where id = $1', [event])
    t.strictSame(row, { n: attempts - 1 })
  }
})

async function aDevice(kind: 'fcm' | 'webpush'): Promise<Uuid> {
  const id = newUuid()
  await sql(`insert into devices (id, user_id, kind, address, p256dh, auth) values ($1, $2, $3, $4, $5, $5)`, [
    ...[id, user, kind, `https://push.example/${id}`, kind === 'webpush' ? 'key' : null],
  ])
  return id
}

t.test('messages to browsers do not tell that the push service of apps works', async (t) => {
  const [app, browser] = [await aDevice('fcm'), await aDevice('webpush')]
  const event = await anEvent(-400)
  await give()
  await deliver(event, 'push', 'pending', { attempts: 2, at: app })
  await somethingElseIsSent(browser)
  await later(8)
  await give()
  t.strictSame(await refused(), [0, 0])
  await deliver(event, 'push', 'pending', { attempts: 2, at: app })
  await somethingElseIsSent(await aDevice('fcm'))
  await later(16)
  await give()
  t.strictSame(await refused(), [0, 0, 1])
})

t.test('whether others got their messages is found by an index of what each channel has sent', async (t) => {
  t.teardown(() => sql('delete from notification_deliveries'))
  await insertMany(
    database,
    `insert into notification_deliveries (id, org_id, notification_id, channel, destination, state)
     select gen_random_uuid(), $1, gen_random_uuid(), 'email', 'there', 'sent' from generate_series(1, 5000)`,
    [org],
  )
  await sql('analyze notification_deliveries')
  const { rows } = await db.inTransaction({}, async (tx) => {
    await tx.execute(orm`set local enable_seqscan = off`)
    return tx.execute<{ 'QUERY PLAN': string }>(orm`explain select ${isTurnedAway} from events e`)
  })
  const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
  for (const channel of ['email', 'push'])
    t.match(plan, new RegExp(`notification_deliveries_sent.*\\n *Index Cond: \\(\\(channel = '${channel}'`))
})

t.test('notices to another one count anew', async (t) => {
  const [owner, next] = [await made.aPerson(), await made.aPerson()]
  const event = await anEvent(-400)
  await own(event, owner)
  for (const week of [0, 1, 2]) {
    await later(8 * week)
    await give()
    await deliver(event, 'email', 'pending', { attempts: 2 })
    await somethingElseIsSent()
  }
  t.equal(await db.read({}, countRefusedNotices), 1)
  await own(event, next)
  await later(24)
  t.equal(await give(), 1)
  t.equal(await db.read({}, countRefusedNotices), 0)
})

t.test('a purge waits for a last notice that is published and not handled, and the owner is told again', async (t) => {
  await anEvent(-400)
  t.equal(await announce(), 1)
  await publish()
  await later(8)
  t.match(await carry(), { purged: 0 })
  await sql('delete from outbox')
  t.match(await carry(), { purged: 0 }, 'the outbox drops events after seven days')
  t.equal(await announce(), 1)
  await publish()
  await handle()
  await later(14)
  t.match(await carry(), { purged: 0 }, 'seven days after the notice that was heard')
  await later(16)
  t.match(await carry(), { purged: 1 })
})

t.test('the consumer does not wait for what refers to the event', async (t) => {
  const event = await anEvent(-400)
  await announce()
  const other = await admin.connect()
  try {
    await other.query('begin')
    await other.query('select from events where id = $1 for key share', [event])
    await handle(event, (tx) => tx.execute(`set local lock_timeout = '1s'`))
  } finally {
    await other.query('rollback')
    other.release()
  }
  const [row] = await sql('select purge_notice_unhandled as unhandled from events where id = $1', [event])
  t.strictSame(row, { unhandled: false })
})

t.test('a notice of before, or the first one, does not stand for the last one', async (t) => {
  const event = await anEvent(20)
  await announce()
  const [said] = await announced('EventPurgeSoon', event)
  t.match(said, { notice: 'first' })
  await later(14)
  await announce()
  t.strictSame(await notices(event), ['first', 'last'])
  await sql(`delete from outbox where type = 'EventPurgeSoon' and payload->>'notice' = 'last'`)
  await sql(
    `update outbox set payload = jsonb_set(payload, '{purge_at}', (select to_jsonb(to_char(
    purge_notice_for at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) from events where id = $1))`,
    [event],
  )
  await publish()
  await handle()
  await later(22)
  t.match(await carry(), { purged: 0 })
})

t.test(
  'a notice of a worker that does not say whether it is handled is not waited for once it is published',
  async (t) => {
    const event = await anEvent(-400)
    await announce()
    await sql('update events set purge_notice_unhandled = false where id = $1', [event])
    await later(8)
    t.match(await carry(), { purged: 0 })
    await publish()
    t.match(await carry(), { purged: 1 })
  },
)

t.test('a last notice that an older worker has handled without saying so is not given again', async (t) => {
  const event = await anEvent(-400)
  await give()
  await sql('update events set purge_notice_unhandled = true where id = $1', [event])
  await later(8)
  t.equal(await announce(), 0)
  t.match(await carry(), { purged: 1 })
})

t.test('a purge that has begun is not announced again, whatever is sent meanwhile', async (t) => {
  const event = await anEvent(-400)
  await give()
  await later(8)
  await sql(
    `update events set purge_begun_at = app_now(), purge_notice_unhandled = true, purge_look_at = '-infinity' where id = $1`,
    [event],
  )
  await sql('delete from notifications')
  t.equal(await announce(), 0)
  t.match(await carry(), { purged: 1 })
})

t.test('a purge waits for a last notice that could not be handled', async (t) => {
  const event = await anEvent(-400)
  await give()
  await sql(
    `insert into parked_events (consumer, message_id, subject, stream_seq, aggregate_id, reason, attempts, event)
     values ('notifications', $1, 'there', 1, $2, 'bad', 3, '{"type":"EventPurgeSoon"}')`,
    [newUuid(), event],
  )
  await later(8)
  t.match(await carry(), { purged: 0 })
  await sql('delete from parked_events')
  t.match(await carry(), { purged: 1 })
})

t.test('a policy that purges later makes notices due again', async (t) => {
  const event = await anEvent(5)
  await give()
  t.strictSame(await notices(event), ['last'])
  await made.setPolicy('P8Y')
  await later(10)
  t.match(await carry(), { purged: 0 }, 'what was said is not true any more')
  await later(365 - 20)
  await give()
  t.strictSame(await notices(event), ['last', 'first'])
  await later(365 + 1)
  await give()
  t.strictSame(await notices(event), ['last', 'first', 'last'])
  await later(365 + 9)
  t.match(await carry(), { purged: 1 })
})

t.test('nobody is told where nothing is purged', async (t) => {
  const event = await anEvent(5)
  for (const [after, o] of [
    [null, {}],
    ['P7Y', { suspended: true }],
    ['P7Y', { dryRun: true }],
  ] as const) {
    await made.setPolicy(after, o)
    t.equal(await give(), 0)
  }
  await sql('delete from retention_policies')
  t.equal(await give(), 0)
  t.match(await carry(), { purged: 0 })
  t.strictSame(await notices(event), [])
})

t.test('nobody is told while the last run waits for a confirmation', async (t) => {
  const event = await anEvent(5)
  const ran = (ended: string) =>
    sql(
      `insert into retention_runs (run, policy, policy_uid, target, slot, dry_run, ended)
        values ($1, 'p', 'u', 'EventArchive', now(), false, $2)`,
      [newUuid(), ended],
    )
  await ran('ConfirmationRequired')
  t.equal(await give(), 0)
  await ran('Finished')
  t.equal(await give(), 1)
  t.strictSame(await notices(event), ['last'])
})

t.test('a hold keeps notices back, and takes back what was said', async (t) => {
  const event = await anEvent(20)
  t.equal(await give(), 1)
  const hold = await addHold(db, { kind: 'event', subject: event, reason: 'case 1', placedBy: 'court' })
  await later(14)
  t.equal(await give(), 0)
  await releaseHold(db, hold.id)
  await later(30)
  t.match(await carry(), { purged: 0 }, 'the owner has to be told again')
  await give()
  t.strictSame(await notices(event), ['first', 'last'])
  await later(38)
  t.match(await carry(), { purged: 1 })
})

t.test('an event that was not purged at its time is announced again before it is', async (t) => {
  const event = await anEvent(5)
  await give()
  await made.setPolicy('P7Y', { suspended: true })
  await later(60)
  await made.setPolicy('P7Y')
  t.match(await carry(), { purged: 0 })
  await give()
  t.strictSame(await notices(event), ['last', 'last'])
  await later(68)
  t.match(await carry(), { purged: 1 })
})

const keepFor = (years: number | null) =>
  sql('update organizations set event_retention_years = $2 where id = $1', [org, years])

t.test('an organization that keeps events for longer is told and purged by its own time', async (t) => {
  t.teardown(() => keepFor(null))
  const event = await anEvent(5)
  await give()
  await keepFor(8)
  await later(10)
  t.match(await carry(), { purged: 0, due: 0 }, 'longer, after the last notice')
  await give()
  t.strictSame(await notices(event), ['last'])
  await keepFor(1)
  await later(18)
  await give()
  t.match(await carry(), { purged: 0 }, 'no shorter than the policy, and only after a notice')
  t.strictSame(await notices(event), ['last', 'last'])
  await later(26)
  t.match(await carry(), { purged: 1 })
})

t.test('an organization that keeps events for longer while media items go keeps the rest', async (t) => {
  t.teardown(() => keepFor(null))
  const event = await made.anEvent()
  await made.place(await made.anAlbum(event), await made.aMedia())
  const keeping = {
    ...storage.store,
    async deletePrefix(prefix: string) {
      await keepFor(30)
      return storage.store.deletePrefix(prefix)
    },
  }
  t.match(await carryOut({ ...deps, store: keeping }, eventArchive, aRun('EventArchive', { rules: RULES })), {
    purged: 0,
  })
  t.ok(await exists('events', event))
})

t.test('who cares for an event after the one who was told of its purge is told anew', async (t) => {
  const [owner, next, other] = [await made.aPerson(), await made.aPerson(), await made.aPerson()]
  const event = await anEvent(5)
  await own(event, owner)
  await give()
  await leave(other)
  await give()
  t.strictSame(await notices(event), ['last'], 'another member has left')
  await own(event, next)
  await later(8)
  t.match(await carry(), { purged: 0 })
  await give()
  t.strictSame(await notices(event), ['last', 'last'], 'the next owner')
  await leave(next)
  await later(16)
  t.match(await carry(), { purged: 0 })
  await give()
  t.strictSame(await notices(event), ['last', 'last', 'last'], 'the owners of the organization')
  await join(next)
  await later(24)
  t.match(await carry(), { purged: 0 })
  await give()
  t.equal((await notices(event)).length, 4, 'an owner who has joined again')
  await later(32)
  t.match(await carry(), { purged: 1 })
})

t.test('the owners of an organization are told once, also when others become owners', async (t) => {
  const [owner, first, second] = [await made.aPerson(), await made.aPerson(), await made.aPerson()]
  const event = await anEvent(5)
  await own(event, owner)
  await leave(owner)
  const become = (person: Uuid, role: string) =>
    sql('update memberships set role = $2 where user_id = $1', [person, role])
  await become(first, 'owner')
  await give()
  await become(second, 'owner')
  await become(first, 'member')
  await later(8)
  t.equal(await give(), 0)
  t.match(await carry(), { purged: 1 })
})

t.test('a notice of a worker that does not say whom it went to is given again', async (t) => {
  const event = await anEvent(5)
  await give()
  await sql('update events set purge_notice_to = null where id = $1', [event])
  await later(8)
  t.match(await carry(), { purged: 0 })
  await give()
  t.strictSame(await notices(event), ['last', 'last'])
})

t.test('a purge that has begun goes on when the owner leaves, and one that has not begun does not', async (t) => {
  for (const isBegun of [true, false]) {
    const owner = await made.aPerson()
    const event = await made.anEvent({ owner })
    const album = await made.anAlbum(event)
    const some = [await made.aMedia(), await made.aMedia()]
    for (const media of some) await made.place(album, media)
    let calls = 0
    const failing = {
      ...storage.store,
      async deletePrefix(prefix: string) {
        calls += 1
        if (calls > (isBegun ? 2 : 0)) throw new Error('the store is away')
        return storage.store.deletePrefix(prefix)
      },
    }
    t.match(await carryOut({ ...deps, store: failing }, eventArchive, aRun('EventArchive', { rules: RULES })), {
      purged: 0,
    })
    const [row] = await sql('select purge_begun_at is not null as begun from events where id = $1', [event])
    t.strictSame(row, { begun: isBegun })
    await leave(owner)
    await sql('update events set lease_at = now()')
    await sql('update media set lease_at = now()')
    t.equal(await give(), isBegun ? 0 : 1)
    t.match(await carry(), { purged: isBegun ? 1 : 0 })
    t.equal(await exists('events', event), !isBegun)
    await made.clear()
  }
})

t.test('two workers at once give each notice once', async (t) => {
  const events: Uuid[] = []
  for (let n = 0; n < 40; n++) events.push(await anEvent(5))
  const given = await Promise.all([1, 2, 3].map(() => giveNotices({ db, log: base.log }, signal, 3)))
  t.equal(
    given.reduce((sum, n) => sum + n, 0),
    40,
  )
  for (const event of events) t.strictSame(await notices(event), ['last'])
})

const CHILD = fileURLToPath(new URL('../../../support/dying-notices.ts', import.meta.url))
async function dies(t: Test, failpoint: string): Promise<void> {
  const child = spawn(process.execPath, [CHILD, database.url, failpoint], { stdio: 'ignore' })
  t.teardown(() => child.kill('SIGKILL'))
  const [, by] = await once(child, 'exit')
  t.equal(by, 'SIGKILL')
}
t.test('killed before or after the commit, the next worker gives what is missing', async (t) => {
  const event = await anEvent(5)
  await dies(t, 'event-notice.saved')
  t.strictSame(await notices(event), [])
  await dies(t, 'event-notice.committed')
  await give()
  t.strictSame(await notices(event), ['last'])
})
