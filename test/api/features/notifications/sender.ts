import t from 'tap'
import { sql } from '../../../../api/db/orm.ts'
import { writeEntry } from '../../../../api/features/erasure/ledger.ts'
import { erasureGate } from '../../../../api/features/erasure/worker.ts'
import type { ChannelPart, Outcome } from '../../../../api/features/notifications/channel.ts'
import { claimDelivery } from '../../../../api/features/notifications/delivery-queries.ts'
import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { testStore } from '../../../support/conversion-world.ts'
import { testDatabase } from '../../../support/database.ts'
import { eventually } from '../../../support/eventually.ts'
import { planOf } from '../../../support/explain.ts'
import { waitingIn } from '../../../support/in-turn.ts'
import { notificationWorld, notifying, scriptedChannel } from '../../../support/notifications.ts'
import { quietLog } from '../../../support/quiet-log.ts'
import { whileHeld } from '../../../support/while-held.ts'

/** Who is told, how often, and what becomes of a delivery. */
const database = await testDatabase(t)
const world = await notificationWorld(database)
const settled = (destination: string, state: string, n = 1) =>
  eventually(`${state}`, async () => {
    const rows = await world.deliveries(destination)
    return rows.length === n && rows.every((row) => row.state === state) ? rows : undefined
  })
const accepting = () => scriptedChannel(() => ({ is: 'sent' }))

t.test('an invitee is told once, however often the message comes', async (t) => {
  const { part, sent } = accepting()
  const worker = notifying(t, database, [part])
  const one = await world.invitation({ message: 'It has been too long.' })
  const [first, again] = [world.due(one), world.due(one)]
  await world.consume(worker, [first, first, again])
  await Promise.all([world.consume(worker, [first]), world.consume(worker, [again])])
  await settled(one.email ?? '', 'sent')
  await world.consume(worker, [world.due(one)])
  await worker.stop()
  t.equal(sent.length, 1)
  const message = sent[0]?.message
  t.match(message?.facts, { title: 'Class reunion', hostName: 'Mira', message: 'It has been too long.' })
  t.match(message?.url, /^https:\/\/api\.example\.org\/v1\/e\/c\/ntf_[0-9a-z]{26}#t=[\w-]+\.[\w-]+\.[\w-]+$/)
})

t.test('nobody is told of an invitation that is answered, or has another link', async (t) => {
  const { part, sent } = accepting()
  const worker = notifying(t, database, [part])
  const [answered, stale, archived] = [await world.invitation(), await world.invitation(), await world.invitation()]
  await database.admin.query(
    `update invitations set status = 'accepted', responded_at = now(), responded_by = $2 where id = $1`,
    [answered.id, world.host.id],
  )
  await database.admin.query('update invitations set generation = 2 where id = $1', [stale.id])
  await world.consume(worker, [world.due(answered), world.due(stale)])
  t.strictSame(await world.deliveries(answered.email ?? ''), [])
  t.strictSame(await world.deliveries(stale.email ?? ''), [])
  // After the consumer, before the sender.
  await worker.stop()
  const later = notifying(t, database, [accepting().part])
  await later.stop()
  await world.consume(later, [world.due(archived)])
  await database.admin.query(`update events set status = 'archived' where id = $1`, [archived.eventId])
  notifying(t, database, [part])
  const [row] = await settled(archived.email ?? '', 'suppressed')
  t.match(row.reason, /cannot be answered/)
  t.equal(sent.length, 0)
})

t.test('people are not told of what they did themselves', async (t) => {
  const worker = notifying(t, database, [accepting().part])
  const me = await world.person({ email: 'Me@Example.org' })
  const eventId = await world.event()
  const byId = await world.invitation({ eventId, by: me.id, userId: me.id })
  const byMail = await world.invitation({ eventId, by: me.id, email: 'me@example.org' })
  const comment = await world.comment({ eventId, by: me.id, mentions: [me.id] })
  await world.consume(worker, [world.due(byId), world.due(byMail), world.mentioned(comment, me.id)])
  t.strictSame(await world.rowsOf('select id from notifications where event_id = $1', [eventId]), [])
})

t.test('the owner of an event is told before it is purged, or the owners of the organization', async (t) => {
  const { part, sent } = accepting()
  const worker = notifying(t, database, [part])
  const [owner, gone] = [await world.person({}), await world.person({ role: null })]
  const [head, other] = [await world.person({ role: 'owner' }), await world.person({ role: 'admin' })]
  const purgeAt = '2033-05-08T08:00:00.000Z'
  const archived = async (of: string, named = purgeAt) => {
    const event = await world.event({ status: 'archived', owner: of as typeof owner.id })
    await database.admin.query('update events set purge_notice = 2, purge_notice_for = $2 where id = $1', [
      event,
      named,
    ])
    return event
  }
  const [own, ownerless, moved] = [
    await archived(owner.id),
    await archived(gone.id),
    await archived(owner.id, '2035-01-01T00:00:00Z'),
  ]
  const soon = [own, ownerless, moved].map((event) => world.purgedSoon(event, 'last', purgeAt))
  await Promise.all([world.consume(worker, soon), world.consume(worker, soon)])
  await settled(owner.email, 'sent')
  await settled(head.email, 'sent')
  t.strictSame(await world.deliveries(other.email), [])
  t.equal(sent.length, 2, 'once each, and not of a time that is not true any more')
  const [message] = sent.filter(({ to }) => to.address === owner.email)
  t.match(message?.message.facts, { template: 'EventPurgeSoon.v1', title: 'Class reunion', purgeAt: new Date(purgeAt) })
  t.match(message?.message.mail.text, /Deleted on: Sunday/)
  t.match(message?.message.url, /#event=evt_/)
})

t.test('the last notice is tried again as long as its receiver refuses it for the time being', async (t) => {
  const owner = await world.person({})
  const at = '2033-05-08T08:00:00.000Z'
  const told = async (notice: 'first' | 'last') => {
    const event = await world.event({ status: 'archived', owner: owner.id })
    const values = [event, notice === 'last' ? 2 : 1, at]
    await database.admin.query('update events set purge_notice = $2, purge_notice_for = $3 where id = $1', values)
    return world.purgedSoon(event, notice, at)
  }
  const isFull = new Set(['email', 'webhook'])
  const scripted = (name: 'email' | 'webhook') =>
    scriptedChannel(() => (isFull.has(name) ? { is: 'later', reason: '452 full' } : { is: 'sent' }), { name })
  const [mail, webhook] = [scripted('email'), scripted('webhook')]
  const worker = notifying(t, database, [mail.part, webhook.part])
  await world.consume(worker, [await told('first'), await told('last')])
  const statesOf = async (channel: string) =>
    (await world.deliveries(owner.email))
      .filter((row) => row.channel === channel)
      .map(({ state }) => state)
      .toSorted()
  await eventually('many attempts', () => mail.sent.length > 12)
  await eventually('the end of the others', async () => `${await statesOf('webhook')}` === 'failed,failed')
  await eventually('the end of the first notice', async () => (await statesOf('email')).includes('failed'))
  isFull.clear()
  await eventually('the last notice', async () => `${await statesOf('email')}` === 'failed,sent')
  t.equal(webhook.sent.length, 6, 'no purge waits for a webhook')
})

t.test('a notice of a purge that has moved meanwhile is not sent', async (t) => {
  const worker = notifying(t, database, [accepting().part])
  await worker.stop()
  const owner = await world.person({})
  const event = await world.event({ status: 'archived', owner: owner.id })
  const at = '2033-05-08T08:00:00.000Z'
  await database.admin.query('update events set purge_notice = 1, purge_notice_for = $2 where id = $1', [event, at])
  await world.consume(worker, [world.purgedSoon(event, 'first', at)])
  await database.admin.query('update events set purge_notice = 0, purge_notice_for = null where id = $1', [event])
  notifying(t, database, [accepting().part])
  const [row] = await settled(owner.email, 'suppressed')
  t.match(row.reason, /not purged at that time any more/)
})

t.test('an inviter without an e-mail address invites others', async (t) => {
  const worker = notifying(t, database, [accepting().part])
  const inviter = await world.person({ email: null })
  const invitee = await world.person({})
  const eventId = await world.event()
  const byId = await world.invitation({ eventId, by: inviter.id, userId: invitee.id })
  await world.consume(worker, [world.due(byId)])
  await settled(invitee.email, 'sent')
  t.equal((await world.rowsOf('select id from notifications where event_id = $1', [eventId])).length, 1)
})

t.test('a message about what was deleted meanwhile changes nothing', async (t) => {
  const worker = notifying(t, database, [accepting().part])
  const gone = { id: newUuid(), eventId: newUuid(), email: null }
  const comment = { id: newUuid(), eventId: newUuid(), authorId: world.host.id }
  await world.consume(worker, [world.due(gone), world.mentioned(comment, world.host.id)])
  t.pass()
})

t.test('a link that would be dead on arrival is renewed first, in the name of the same inviter', async (t) => {
  const { part, sent } = accepting()
  const worker = notifying(t, database, [part])
  const [nearly, over, fresh] = [
    await world.invitation({ lasts: '2 minutes' }),
    await world.invitation({ lasts: '-3 hours' }),
    await world.invitation({ lasts: '50 minutes' }),
  ]
  await world.consume(
    worker,
    [nearly, over, fresh].map((one) => world.due(one)),
  )
  for (const one of [nearly, over, fresh]) await settled(one.email ?? '', 'sent')
  for (const [one, generation] of [
    [nearly, 2],
    [over, 2],
    [fresh, 1],
  ] as const) {
    const [row] = await world.rowsOf(
      `select generation, told_generation, invited_by, token_expires_at > now() + interval '40 minutes' as lives
       from invitations where id = $1`,
      [one.id],
    )
    t.strictSame(row, { generation, told_generation: generation, invited_by: world.host.id, lives: true })
    t.equal((await world.deliveries(one.email ?? ''))[0].generation, generation, 'the notification follows')
  }
  // The link that was sent is of the new generation: the claims of its token say so.
  const token = sent.find(({ to }) => to.address === over.email)?.message.url.split('#t=')[1] ?? ''
  t.match(JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()), { gen: 2, sub: over.id })
  await world.consume(worker, [world.due(over), world.due(over, 2)])
  t.equal((await world.deliveries(over.email ?? '')).length, 1, 'neither generation is told again')
})

t.test('two channels that find the same dead link renew it once, and both send it', async (t) => {
  const [mail, hook] = [accepting(), scriptedChannel(() => ({ is: 'sent' }), { name: 'webhook' })]
  const worker = notifying(t, database, [mail.part, hook.part])
  const over = await world.invitation({ lasts: '-1 hour' })
  const lock = { text: 'select from invitations where id = $1 for no key update', values: [over.id] }
  await whileHeld(database, lock, async () => {
    await world.consume(worker, [world.due(over)])
    await eventually('both to wait', async () => (await waitingIn(database)) === 2)
  })
  await settled(over.email ?? '', 'sent', 2)
  await worker.stop()
  t.match(await world.rowsOf('select generation from invitations where id = $1', [over.id]), [{ generation: 2 }])
  t.strictSame([mail.sent.length, hook.sent.length], [1, 1])
})

t.test('a link that may have arrived lives as long as it was made for', async (t) => {
  const answers: Outcome[] = [{ is: 'unknown', reason: 'no answer' }, { is: 'sent' }]
  const worker = notifying(t, database, [scriptedChannel(() => answers.shift() ?? { is: 'sent' }).part])
  const one = await world.invitation()
  await world.consume(worker, [world.due(one)])
  await eventually('the first attempt', async () => (await world.deliveries(one.email ?? ''))[0]?.may_have_arrived)
  await world.rowsOf(`update invitations set token_expires_at = now() + interval '5 minutes' where id = $1`, [one.id])
  await world.makeDue(one.email ?? '')
  worker.wake()
  await settled(one.email ?? '', 'sent')
  t.match(await world.rowsOf('select generation from invitations where id = $1', [one.id]), [{ generation: 1 }])
})

t.test('a mail that follows a push message late has a link that lives', async (t) => {
  const answers: Outcome[] = [{ is: 'later', reason: '450' }, { is: 'sent' }]
  const mail = scriptedChannel(() => answers.shift() ?? { is: 'sent' }, { schedule: [600] })
  const push = scriptedChannel(() => ({ is: 'sent' }), { name: 'push' })
  const worker = notifying(t, database, [mail.part, push.part])
  const one = await world.invitation()
  const email = one.email ?? ''
  await world.consume(worker, [world.due(one)])
  await eventually('a push message and a first attempt', async () => {
    const rows = await world.deliveries(email)
    return (
      push.sent.length === 1 &&
      rows.some(({ channel, attempts, state }) => channel === 'email' && attempts === 1 && state === 'pending') &&
      rows.some(({ state }) => state === 'sent')
    )
  })
  await world.rowsOf(`update invitations set token_expires_at = now() + interval '5 minutes' where id = $1`, [one.id])
  await world.makeDue(email)
  worker.wake()
  await settled(email, 'sent', 2)
  t.match(await world.rowsOf('select generation from invitations where id = $1', [one.id]), [{ generation: 2 }])
})

t.test('what the database stops is sent once it works again, however long that takes', async (t) => {
  const { part, sent } = accepting()
  const worker = notifying(t, database, [part])
  const one = await world.invitation()
  await database.admin.query('revoke select on notification_optouts from keepsake_worker')
  await world.consume(worker, [world.due(one)])
  const email = one.email ?? ''
  const prepared = async () =>
    (await world.rowsOf('select preparations, state from notification_deliveries where destination = $1', [email]))[0]
  for (let n = 1; n <= 14; n++) {
    await eventually('another attempt', async () => (await prepared())?.preparations === n)
    t.match(await prepared(), { state: 'pending' }, `after ${n}`)
    await world.makeDue(email)
    worker.wake()
  }
  await database.admin.query('grant select on notification_optouts to keepsake_worker')
  await world.makeDue(email)
  worker.wake()
  await settled(email, 'sent')
  t.equal(sent.length, 1)
  t.match(await world.deliveries(email), [{ attempts: 1 }], 'the schedule of the channel is untouched')
})

t.test('a preparation that fails by itself is given up, and one whose statement takes too long is not', async (t) => {
  const [slow, broken] = [await world.invitation(), await world.invitation()]
  const withhold = (_: unknown, __: unknown, to: string) =>
    Promise.reject(Object.assign(new Error('failed'), to === slow.email && { code: '57014' }))
  const worker = notifying(t, database, [scriptedChannel(() => ({ is: 'sent' }), { withhold }).part])
  await world.consume(worker, [world.due(slow), world.due(broken)])
  const emails = [slow.email, broken.email]
  for (let n = 1; n <= 13; n++) {
    const expected = [`pending ${n}`, n < 12 ? `pending ${n}` : 'failed 12']
    await eventually(`${expected}`, async () => {
      const rows = await world.rowsOf(
        `select concat_ws(' ', state, preparations) as is from notification_deliveries
         where destination = any($1) order by array_position($1, destination)`,
        [emails],
      )
      return rows.every((row, i) => row.is === expected[i])
    })
    for (const email of emails) await world.makeDue(email ?? '')
    worker.wake()
  }
  await worker.stop()
  await world.rowsOf(`update notification_deliveries set state = 'suppressed' where destination = any($1)`, [emails])
})

t.test('a preparation of the last notice is not given up, because the purge waits for it', async (t) => {
  const owner = await world.person({})
  const at = '2033-05-08T08:00:00.000Z'
  const event = await world.event({ status: 'archived', owner: owner.id })
  await database.admin.query('update events set purge_notice = 2, purge_notice_for = $2 where id = $1', [event, at])
  let isBroken = true
  const withhold = () => (isBroken ? Promise.reject(new Error('failed')) : Promise.resolve(undefined))
  const worker = notifying(t, database, [scriptedChannel(() => ({ is: 'sent' }), { withhold }).part])
  await world.consume(worker, [world.purgedSoon(event, 'last', at)])
  const text = 'select preparations, state from notification_deliveries where destination = $1'
  for (let n = 1; n <= 13; n++) {
    const [row] = await eventually('another attempt', async () => {
      const rows = await world.rowsOf(text, [owner.email])
      return rows[0]?.preparations === n ? rows : undefined
    })
    t.match(row, { state: 'pending' }, `after ${n}`)
    isBroken = n < 13
    await world.makeDue(owner.email)
    worker.wake()
  }
  await settled(owner.email, 'sent')
})

t.test('nothing is sent in the name of an inviter who may not invite any more', async (t) => {
  const { part, sent } = accepting()
  const worker = notifying(t, database, [part])
  const inviter = await world.person({ role: 'admin' })
  const one = await world.invitation({ by: inviter.id })
  const member = await world.person()
  const ofMember = await world.invitation({ by: inviter.id, userId: member.id })
  await database.admin.query('delete from memberships where user_id = $1', [inviter.id])
  await world.consume(worker, [world.due(one), world.due(ofMember)])
  await settled(one.email ?? '', 'suppressed')
  t.match(await world.deliveries(one.email ?? ''), [{ reason: /inviter may not invite/ }])
  await settled(member.email, 'sent')
  t.equal(sent.length, 1, 'the acceptance of a member needs no right of the inviter')
})

t.test('a notification is kept for 90 days, and until its event is over', async (t) => {
  const worker = notifying(t, database, [accepting().part])
  const [soon, over] = [await world.invitation(), await world.invitation()]
  await world.consume(worker, [world.due(soon), world.due(over)])
  for (const one of [soon, over]) await settled(one.email ?? '', 'sent')
  await world.rowsOf(`update events set start_at = now() + interval '30 days' where id = $1`, [soon.eventId])
  await world.rowsOf(`update events set start_at = now() - interval '30 days' where id = $1`, [over.eventId])
  const events = [soon.eventId, over.eventId]
  await world.rowsOf(`update notifications set created_at = now() - interval '91 days' where event_id = any($1)`, [
    events,
  ])
  for (const task of worker.tasks ?? []) await task.run(0, new AbortController().signal)
  const left = await world.rowsOf('select event_id from notifications where event_id = any($1)', [events])
  t.strictSame(left, [{ event_id: soon.eventId }])
})

t.test('a mention reaches who can see the comment when it is sent', async (t) => {
  const { part, sent } = accepting()
  const worker = notifying(t, database, [part])
  const eventId = await world.event({ title: 'Graduation' })
  const [gone, reader, left, noAlbum, unmentioned] = [
    await world.person(),
    await world.person({ locale: 'de-AT' }),
    await world.person({ role: null }),
    await world.person(),
    await world.person(),
  ]
  const open = await world.comment({
    eventId,
    by: world.host.id,
    mentions: [reader.id, left.id],
    body: 'Look at this',
  })
  const secret = await world.comment({ eventId, by: world.host.id, mentions: [noAlbum.id], audience: 'album' })
  const photo = await world.comment({ eventId, by: world.host.id, mentions: [gone.id], audience: 'album' })
  const edited = await world.comment({ eventId, by: world.host.id, mentions: [] })
  const deleted = await world.comment({ eventId, by: world.host.id, mentions: [reader.id] })
  await worker.stop()
  await world.consume(worker, [
    world.mentioned(open, reader.id),
    world.mentioned(open, reader.id),
    world.mentioned(open, left.id),
    world.mentioned(secret, noAlbum.id),
    world.mentioned(photo, gone.id),
    world.mentioned(edited, unmentioned.id),
    world.mentioned(deleted, reader.id),
  ])
  await database.admin.query(`update comments set deleted_at = now(), deleted_by = author_id where id = $1`, [
    deleted.id,
  ])
  await database.admin.query('update media set deleted_at = now(), deleted_by = uploader_id where id = $1', [
    photo.media,
  ])
  notifying(t, database, [part])
  for (const one of [left, noAlbum, unmentioned, gone]) await settled(one.email, 'suppressed')
  t.match(await world.deliveries(gone.email), [{ reason: /is deleted/ }])
  await eventually('both of the reader', async () =>
    (await world.deliveries(reader.email)).every(({ state }) => state !== 'pending' && state !== 'sending'),
  )
  t.strictSame((await world.deliveries(reader.email)).map(({ state }) => state).sort(), ['sent', 'suppressed'])
  t.equal(sent.length, 1)
  t.match(sent[0]?.message, {
    language: 'de',
    facts: { authorName: 'Mira', title: 'Graduation', excerpt: 'Look at this' },
    mail: { subject: 'Mira hat dich erwähnt: Graduation' },
  })
})

t.test('a temporary failure is retried by the schedule, and then it has failed', async (t) => {
  const { part, sent } = scriptedChannel(() => ({ is: 'later', reason: 'busy' }))
  const counted: Record<string, string>[] = []
  const worker = notifying(t, database, [part], { onCount: (labels) => counted.push(labels) })
  const one = await world.invitation()
  await world.consume(worker, [world.due(one)])
  const [row] = await settled(one.email ?? '', 'failed')
  t.match(row, { attempts: 3, reason: 'busy' })
  t.strictSame(
    sent.map(({ to }) => to.attempt),
    [1, 2, 3],
  )
  t.equal(new Set(sent.map(({ message }) => message.id)).size, 1)
  t.strictSame(counted, Array(3).fill({ channel: 'email', outcome: 'later' }))
})

t.test('an attempt without an answer is repeated once', async (t) => {
  const answers: Outcome[] = [{ is: 'unknown', reason: 'silence' }, { is: 'sent' }]
  const { part, sent } = scriptedChannel(({ to }) =>
    to.address.startsWith('guest')
      ? (answers.shift() ?? { is: 'unknown', reason: 'x' })
      : { is: 'unknown', reason: 'y' },
  )
  const worker = notifying(t, database, [part])
  const one = await world.invitation()
  const never = await world.invitation({ email: 'never@example.org' })
  await world.consume(worker, [world.due(one)])
  await eventually('the first attempt', async () => (await world.deliveries(one.email ?? ''))[0]?.may_have_arrived)
  await world.consume(worker, [world.due(never)])
  await eventually('the first attempt', async () => (await world.deliveries('never@example.org'))[0]?.may_have_arrived)
  t.equal(sent.length, 2, 'not at once')
  await world.makeDue(one.email ?? '')
  await world.makeDue('never@example.org')
  worker.wake()
  await settled(one.email ?? '', 'sent')
  t.match((await settled('never@example.org', 'uncertain'))[0], { attempts: 2, reason: 'y' })
  t.equal(sent.length, 4)
})

t.test(
  'a channel that cannot send waits alone and as a whole, and one attempt finds out whether it can again',
  async (t) => {
    let isDown = true
    const { part, sent } = scriptedChannel(() => (isDown ? { is: 'paused', reason: 'password' } : { is: 'sent' }))
    const push = scriptedChannel(() => ({ is: 'sent' }), { name: 'push' })
    const worker = notifying(t, database, [part, push.part])
    const all: { email: string | null }[] = []
    /** Both senders are woken, and that of the channel that works has sent. */
    const oneMore = async () => {
      const one = await world.invitation()
      all.push(one)
      await world.consume(worker, [world.due(one)])
      await eventually('the push message', () => push.sent.length === all.length)
    }
    const paused = () => world.rowsOf('select failures, paused_until > now() as waits from notification_channels')
    await oneMore()
    await eventually('the pause', async () => (await paused())[0]?.waits)
    const before = sent.length
    for (let n = 0; n < 5; n++) await oneMore()
    t.equal(sent.length, before, 'nothing is sent during the pause')
    for (const failures of [2, 3]) {
      await database.admin.query(`update notification_channels set paused_until = now() - interval '1 second'`)
      await oneMore()
      await eventually('the next pause', async () => (await paused())[0]?.failures === failures)
      await oneMore()
      t.equal(sent.length, before + failures - 1, 'one attempt')
    }
    isDown = false
    await database.admin.query(`update notification_channels set paused_until = now() - interval '1 second'`)
    worker.wake()
    for (const { email } of all) {
      const rows = await eventually('all sent', async () => {
        const found = await world.deliveries(email ?? '')
        return found.every(({ state }) => state === 'sent') ? found : undefined
      })
      t.strictSame(
        rows.map(({ attempts }) => attempts),
        [1, 1],
        'the recipients are not blamed',
      )
    }
    t.strictSame(await paused(), [{ failures: 0, waits: null }])
  },
)

t.test('a destination gets one message at a time, from all workers, and a slow one holds up no other', async (t) => {
  let flying = 0
  let most = 0
  const release: (() => void)[] = []
  const slow = 'slow@example.org'
  const { part, sent } = scriptedChannel(async ({ to }) => {
    if (to.address !== slow) return { is: 'sent' }
    flying += 1
    most = Math.max(most, flying)
    await new Promise<void>((resolve) => release.push(resolve))
    flying -= 1
    return { is: 'sent' }
  })
  const workers = [notifying(t, database, [part]), notifying(t, database, [part]), notifying(t, database, [part])]
  const many = await Promise.all(Array.from({ length: 4 }, () => world.invitation({ email: slow })))
  const others = await Promise.all(Array.from({ length: 6 }, () => world.invitation()))
  const [worker] = workers
  if (!worker) throw new Error('no worker')
  await world.consume(
    worker,
    [...many, ...others].map((one) => world.due(one)),
  )
  for (const one of workers) one.wake()
  for (const { email } of others) await settled(email ?? '', 'sent')
  t.equal(flying, 1)
  for (let n = 1; n <= many.length; n++) {
    await eventually('the next one', () => {
      for (const one of workers) one.wake()
      return release.length === n
    })
    release[n - 1]?.()
  }
  await settled(slow, 'sent', many.length)
  t.equal(most, 1)
  t.equal(sent.length, many.length + others.length, 'nothing twice')
})

t.test('a receiver that asks for patience rests with all its deliveries, also later ones', async (t) => {
  const busy = 'busy@example.org'
  let isBusy = true
  const { part, sent } = scriptedChannel(
    ({ to }) => (to.address === busy && isBusy ? { is: 'later', of: 'destination', reason: '503' } : { is: 'sent' }),
    { schedule: [0, 0, 0, 0], concurrency: 1 },
  )
  const worker = notifying(t, database, [part])
  const tell = async (email?: string) => {
    const one = await world.invitation(email === undefined ? {} : { email })
    await world.consume(worker, [world.due(one)])
    return one.email ?? ''
  }
  const pause = async () =>
    (
      await world.rowsOf(
        `select failures, reason, round(extract(epoch from paused_until - now()))::int as waits from notification_pauses
         where receiver = $1`,
        [busy],
      )
    )[0]
  const attempts = () => sent.filter(({ to }) => to.address === busy).length
  await tell(busy)
  await eventually('a failure', pause)
  await tell(busy)
  await settled(await tell(), 'sent')
  t.equal(attempts(), 1)
  t.match(await pause(), { failures: 1, reason: '503' })
  const [first] = await world.rowsOf(
    `select next_attempt_at >= (select paused_until from notification_pauses where receiver = $1) as waits
      from notification_deliveries where destination = $1 and attempts = 1`,
    [busy],
  )
  t.strictSame(first, { waits: true }, 'no claim looks at the delivery before the receiver can be tried again')
  await world.endRest(busy)
  worker.wake()
  const again = await eventually('another failure', async () => {
    const now = await pause()
    return now?.failures === 2 ? now : undefined
  })
  t.ok(again.waits > 5 && again.waits <= 10, `${again.waits} s`)
  await settled(await tell(), 'sent')
  t.equal(attempts(), 2, 'one attempt finds out whether it works again')
  isBusy = false
  await world.endRest(busy)
  worker.wake()
  await settled(busy, 'sent', 2)
  t.equal(await pause(), undefined)
  t.equal(attempts(), 4)
})

t.test('a claim looks receivers that rest up in a hash table, as thousands of them may rest', async (t) => {
  const plan = await planOf(database, {}, (tx) => claimDelivery(tx, 'push'), undefined, 'keepsake_worker')
  const filters = plan.flatMap(({ Filter }) => Filter ?? []).filter((filter) => filter.includes('destination'))
  t.match(filters, [/NOT .*destination.*hashed SubPlan/])
})

const serviceOfApps: ChannelPart['services'] = {
  of: async (_, to) => (to.startsWith('app') ? 'service-of-apps' : undefined),
  isBehind: () => sql`d.destination like 'app%'`,
}

t.test('ten thousand deliveries behind a service that rests are put off together, and hold up no other', async (t) => {
  const { part, sent } = scriptedChannel(() => ({ is: 'sent' }), { services: serviceOfApps })
  const idle = notifying(t, database, [part])
  await idle.stop()
  const [one, other] = [await world.invitation({ email: 'app-0@example.org' }), await world.invitation()]
  await world.consume(idle, [world.due(one), world.due(other)])
  await database.admin.query(
    `insert into notification_deliveries (id, org_id, notification_id, channel, destination, next_attempt_at)
      select gen_random_uuid(), org_id, notification_id, channel, 'app-' || n || '@example.org', now() - interval '1 hour'
      from notification_deliveries, generate_series(1, 9999) n where destination = 'app-0@example.org'`,
  )
  await database.admin.query(
    `insert into notification_pauses (channel, receiver, failures, paused_until)
      values ('email', 'service-of-apps', 1, now() + interval '10 minutes')`,
  )
  const began = performance.now()
  const worker = notifying(t, database, [part])
  await settled(other.email ?? '', 'sent')
  t.comment(`${Math.round(performance.now() - began)} ms until the other one was sent`)
  await worker.stop()
  t.equal(sent.length, 1)
  const waiting = await world.rowsOf(
    `select count(*)::int as n, count(distinct xmin::text)::int as statements, min(next_attempt_at) > now() + interval '9 minutes' as all
      from notification_deliveries where destination like 'app-%' and reason = 'service-of-apps rests'`,
  )
  t.match(waiting, [{ n: 10_000, all: true }])
  t.ok(waiting[0].statements <= 4, `${waiting[0].statements} statements`)
  await world.rowsOf(`delete from notification_deliveries where destination like 'app-%'`)
  await world.rowsOf(`delete from notification_pauses where receiver = 'service-of-apps'`)
})

t.test('a service that refuses rests for all destinations behind it, and for no other', async (t) => {
  let isBusy = true
  const { part, sent } = scriptedChannel(
    ({ to }) =>
      to.address.startsWith('app') && isBusy
        ? { is: 'later', of: 'service', afterSeconds: 600, reason: '429' }
        : { is: 'sent' },
    { services: serviceOfApps },
  )
  const worker = notifying(t, database, [part])
  const tell = async (email: string) => world.consume(worker, [world.due(await world.invitation({ email }))])
  await tell('app-1@example.org')
  await eventually('a pause', async () => {
    const rows = await world.rowsOf(`select 1 from notification_pauses where receiver = 'service-of-apps'
      and paused_until > now() + interval '9 minutes'`)
    return rows.length === 1
  })
  await tell('app-2@example.org')
  const [waiting] = await eventually('the second waits', async () => {
    const rows = await world.deliveries('app-2@example.org')
    return rows[0]?.reason ? rows : undefined
  })
  t.match(waiting, { state: 'pending', attempts: 0, reason: 'service-of-apps rests' })
  await tell('browser@example.org')
  await settled('browser@example.org', 'sent')
  t.equal(sent.filter(({ to }) => to.address.startsWith('app')).length, 1)
  isBusy = false
  await world.endRest('service-of-apps')
  for (const one of ['app-1@example.org', 'app-2@example.org']) await world.makeDue(one)
  worker.wake()
  for (const one of ['app-1@example.org', 'app-2@example.org']) await settled(one, 'sent')
  t.strictSame(await world.rowsOf(`select 1 from notification_pauses where receiver = 'service-of-apps'`), [])
})

t.test('an attempt whose worker died counts as one without an answer', async (t) => {
  const { part, sent } = accepting()
  const idle = notifying(t, database, [part])
  await idle.stop()
  const [once, twice] = [await world.invitation(), await world.invitation()]
  await world.consume(idle, [world.due(once), world.due(twice)])
  await database.admin.query(
    `update notification_deliveries set state = 'sending', attempts = 1, next_attempt_at = now() - interval '1 second',
       may_have_arrived = destination = $2 where destination in ($1, $2)`,
    [once.email, twice.email],
  )
  notifying(t, database, [part])
  await settled(once.email ?? '', 'sent')
  await settled(twice.email ?? '', 'uncertain')
  t.strictSame(
    sent.map(({ to }) => [to.address, to.attempt]),
    [[once.email, 2]],
  )
})

t.test('a destination that is gone is dropped with its delivery, and a refused one is not', async (t) => {
  const dropped: string[] = []
  const { part } = scriptedChannel(
    ({ to }) => (to.address === 'gone@example.org' ? { is: 'gone', reason: '410' } : { is: 'refused', reason: '550' }),
    { drop: async (_, destination) => void dropped.push(destination) },
  )
  const worker = notifying(t, database, [part])
  const [gone, refused] = [await world.invitation({ email: 'gone@example.org' }), await world.invitation()]
  await world.consume(worker, [world.due(gone), world.due(refused)])
  await settled('gone@example.org', 'failed')
  await settled(refused.email ?? '', 'failed')
  t.strictSame(dropped, ['gone@example.org'])
})

t.test('without a channel the deliveries say so, also those from when it was on', async (t) => {
  const { part } = accepting()
  const before = notifying(t, database, [part])
  await before.stop()
  const [old, fresh, aged] = [await world.invitation(), await world.invitation(), await world.invitation()]
  await world.consume(before, [world.due(old), world.due(aged)])
  await database.admin.query(
    `update notification_deliveries set created_at = now() - interval '4 days', channel = 'push' where destination = $1`,
    [aged.email],
  )
  const off = notifying(t, database, [{ ...part, channel: undefined, offReason: 'no mail server' }])
  await world.consume(off, [world.due(fresh)])
  for (const task of off.tasks ?? []) await task.run(0, new AbortController().signal)
  t.match(await settled(old.email ?? '', 'suppressed'), [{ reason: 'no mail server' }])
  t.match(await settled(fresh.email ?? '', 'suppressed'), [{ reason: 'no mail server' }])
  t.match(await settled(aged.email ?? '', 'failed'), [{ reason: 'not sent within 3 days' }])
})

t.test('the last notice before a purge is not given up after three days', async (t) => {
  const { part } = scriptedChannel(() => ({ is: 'paused', reason: 'ECONNREFUSED' }))
  const worker = notifying(t, database, [part])
  const tidy = (worker.tasks ?? []).find(({ name }) => name === 'notifications')
  const soon = new Date(Date.now() + 4 * 86_400_000).toISOString()
  const past = new Date(Date.now() - 31 * 86_400_000).toISOString()
  const noticeOf = async (notice: 'first' | 'last', at: string) => {
    const owner = await world.person({})
    const event = await world.event({ status: 'archived', owner: owner.id })
    await database.admin.query('update events set purge_notice = 2, purge_notice_for = $2 where id = $1', [event, at])
    await world.consume(worker, [world.purgedSoon(event, notice, at)])
    return owner.email
  }
  const [last, first, forgotten] = [
    await noticeOf('last', soon),
    await noticeOf('first', soon),
    await noticeOf('last', past),
  ]
  await worker.stop()
  await database.admin.query(
    `update notification_deliveries set created_at = now() - interval '4 days' where destination = any ($1)`,
    [[last, first, forgotten]],
  )
  await tidy?.run(0, new AbortController().signal)
  await settled(first, 'failed')
  await settled(forgotten, 'failed')
  t.match(await world.deliveries(last), [{ state: 'pending' }])
  await database.admin.query('delete from notification_channels')
})

t.test('a channel that throws or never answers is an attempt without an answer', async (t) => {
  const { part } = scriptedChannel(() => {
    throw new Error('broken')
  })
  const worker = notifying(t, database, [part])
  const one = await world.invitation()
  await world.consume(worker, [world.due(one)])
  await eventually('the attempt', async () => (await world.deliveries(one.email ?? ''))[0]?.may_have_arrived)
  t.match(await world.deliveries(one.email ?? ''), [{ state: 'pending', reason: /broken/ }])
  await worker.stop()
  await database.admin.query('delete from notifications')
})

t.test('after a restore nothing is sent before the ledger of erasures is read and replayed', async (t) => {
  const ERASURE_KEY = 'a-key-of-the-tests-which-names-users-in-the-ledger'
  const { store } = await testStore(t)
  const [erased, kept] = [await world.person({}), await world.person({})]
  await writeEntry(store, ERASURE_KEY, { userId: erased.id, at: new Date() })
  const [byId, byMail, other] = [
    await world.invitation({ userId: erased.id }),
    await world.invitation({ email: erased.email }),
    await world.invitation({ userId: kept.id }),
  ]
  let isAway = true
  const looks: boolean[] = []
  const list: typeof store.list = (...given) => {
    looks.push(isAway)
    if (isAway) throw new Error('away')
    return store.list(...given)
  }
  const { worker: db } = database
  const config = { ERASURE_KEY } as Parameters<typeof erasureGate>[0]['config']
  const gate = erasureGate({ db, store: { ...store, list }, log: quietLog(), config } as Parameters<
    typeof erasureGate
  >[0])
  t.teardown(() => gate.stop())
  const { part, sent } = accepting()
  const worker = notifying(t, database, [part], { opened: gate.opened })
  await world.consume(worker, [world.due(byId), world.due(byMail), world.due(other)])
  await eventually('a second look', () => looks.length > 1)
  await t.rejects(gate.ready())
  t.equal(sent.length, 0, 'as long as the store is away')
  isAway = false
  await settled(kept.email, 'sent')
  const suppressed = await settled(erased.email, 'suppressed', 2)
  for (const { reason } of suppressed) t.match(reason, /account of the recipient is closed/)
  t.equal(sent.length, 1)
  await gate.ready()

  // An invitation that a host sends to the address afterwards is for the person who has it now.
  await world.consume(worker, [world.due(await world.invitation({ email: erased.email }))])
  await eventually('one more', async () => (await world.deliveries(erased.email)).some(({ state }) => state === 'sent'))
})

t.test(
  'an invitation to an address that an open account has, too, is sent when another account is closed',
  async (t) => {
    const close = (ids: Uuid[]) => database.admin.query('update users set closed_at = now() where id = any($1)', [ids])
    const [closed, open] = [await world.person({}), await world.person({})]
    await database.admin.query('update users set email = $1 where id = $2', [closed.email, open.id])
    const consuming = notifying(t, database, [accepting().part])
    await consuming.stop()
    const send = async (...alsoClosed: Uuid[]) => {
      await world.consume(consuming, [world.due(await world.invitation({ email: closed.email }))])
      await close([closed.id, ...alsoClosed])
      return notifying(t, database, [accepting().part])
    }
    const first = await send()
    await settled(closed.email, 'sent')
    await first.stop()
    await database.admin.query('delete from notifications')
    await send(open.id)
    const [{ reason }] = (await settled(closed.email, 'suppressed')) as [{ reason: string }]
    t.match(reason, /account of the recipient is closed/)
  },
)

t.test('a worker that stops before the ledger is read sends nothing', async (t) => {
  const { part, sent } = accepting()
  const opened = Promise.withResolvers<boolean>()
  const worker = notifying(t, database, [part], { opened: opened.promise })
  const one = await world.invitation()
  await world.consume(worker, [world.due(one)])
  opened.resolve(false)
  await worker.stop()
  t.equal(sent.length, 0)
  t.match(await world.deliveries(one.email ?? ''), [{ state: 'pending' }])
})
