import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { openDatabase, type Tx } from '../../../api/db/db.ts'
import { listenForNotifications } from '../../../api/db/notification-listener.ts'
import { sql } from '../../../api/db/orm.ts'
import { toProblem } from '../../../api/http/problems.ts'
import { replay } from '../../../api/worker/consumers/administration.ts'
import type { Consumer } from '../../../api/worker/consumers/consumer.ts'
import { handlerOf } from '../../../api/worker/consumers/handler.ts'
import { startConsumers } from '../../../api/worker/consumers/start.ts'
import { openWorkerMetrics } from '../../../api/worker/metrics.ts'
import {
  type CloudEvent,
  EVENTS,
  type EventType,
  type ReceivedEvent,
  subjectOf,
  toCloudEvent,
} from '../../../lib/contract/events.ts'
import { formatId, newUuid, parseId, type Uuid } from '../../../lib/contract/ids.ts'
import { type EventBus, PoisonMessage } from '../../../lib/runtime/event-bus/event-bus.ts'
import { openMemoryBus } from '../../../lib/runtime/event-bus/memory.ts'
import { commandLine, type Outcome } from '../../support/command-line.ts'
import { testDatabase } from '../../support/database.ts'
import { eventually } from '../../support/eventually.ts'
import { asOlderVersion } from '../../support/older-version.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { readableLog } from '../../support/readable-log.ts'

const { worker, admin, url } = await testDatabase(t)
await admin.query(`create table effects (place bigint generated always as identity, consumer text, id uuid, version int);
  grant insert, select on effects to keepsake_worker`)
const log = quietLog()
let names = 0

/** A consumer whose effect is one row per event; `fail` may throw for some. */
function recorder(fail: (event: ReceivedEvent) => void = () => {}): Consumer & { batches: number[] } {
  const name = `recorder-${names++}`
  const batches: number[] = []
  return {
    name,
    types: ['MediaPurged'],
    batches,
    async handle(tx: Tx, events) {
      batches.push(events.length)
      await tx.execute(sql`insert into effects (consumer, id, version)
        select ${name}, * from unnest(${sql.param(events.map((e) => e.id))}::uuid[], ${sql.param(events.map((e) => e.aggregateVersion))}::int[])`)
      events.forEach(fail)
    },
  }
}

const org = newUuid()
const ofMedia = (aggregate: Uuid, version: number, of: { type: EventType; payload: object }): CloudEvent =>
  toCloudEvent({
    ...{ id: newUuid(), orgId: org, area: 'media', aggregateId: aggregate, aggregateVersion: version },
    ...{ ...of, createdAt: new Date(), traceparent: null },
  })
const purged = (aggregate: Uuid, version: number) =>
  ofMedia(aggregate, version, { type: 'MediaPurged', payload: { media_id: aggregate, org_id: org } })
const subject = subjectOf({ area: 'media', org, aggregate: newUuid(), type: 'MediaPurged' })
const publish = (bus: EventBus, event: CloudEvent) => bus.publish(subject, event)
const publishAll = (bus: EventBus, events: readonly CloudEvent[]) => Promise.all(events.map((e) => publish(bus, e)))
const uuidOf = (event: CloudEvent) => parseId('message', event.id) as Uuid

function start(t: Test, bus: EventBus, ...consumers: Consumer[]) {
  const running = startConsumers({ db: worker, url, bus, log, ...openWorkerMetrics(worker) }, consumers)
  t.teardown(() => running.stop())
  return running
}
const effectsOf = async ({ name }: Consumer) =>
  (await admin.query('select id, version from effects where consumer = $1 order by place', [name])).rows as {
    id: Uuid
    version: number
  }[]
const auditsOf = async (event: CloudEvent) =>
  (await admin.query('select * from audit_log where resource_id = $1', [uuidOf(event)])).rows
const parkedOf = async ({ name }: Consumer) =>
  (await admin.query('select * from parked_events where consumer = $1 order by position', [name])).rows

t.test('what is delivered many times has one effect, also after a restart', async (t) => {
  const consumer = recorder()
  const events = Array.from({ length: 30 }, (_, i) => purged(newUuid(), i))
  for (const _ of [1, 2]) {
    const bus = openMemoryBus({ log })
    const running = start(t, bus, consumer)
    await Promise.all([...events, ...events].sort(() => Math.random() - 0.5).map((event) => publish(bus, event)))
    await running.stop()
  }
  t.strictSame((await effectsOf(consumer)).map(({ id }) => id).sort(), events.map(uuidOf).sort())
  t.ok(consumer.batches.length < events.length, 'in batches')
})

t.test(
  'an event that fails is parked with what follows it in its aggregate; the others are handled, and it follows',
  async (t) => {
    const [sick, well] = [newUuid(), newUuid()]
    const events = [1, 2, 3, 4, 5].flatMap((version) => [purged(sick, version), purged(well, version)])
    const guilty = uuidOf(events[2] as CloudEvent)
    let isFixed = false
    const consumer = recorder(({ id }) => {
      if (id === guilty && !isFixed) throw new PoisonMessage('bad picture')
    })
    const bus = openMemoryBus({ log })
    const running = start(t, bus, consumer)
    await Promise.all(events.map((event) => publish(bus, event)))
    const handled = (await effectsOf(consumer)).map(({ id }) => id)
    const idsOf = (aggregate: Uuid) => events.filter((e) => e.subject === `media/${aggregate}`).map(uuidOf)
    t.strictSame(
      handled.filter((id) => idsOf(well).includes(id)),
      idsOf(well),
    )
    t.strictSame(
      handled.filter((id) => idsOf(sick).includes(id)),
      idsOf(sick).slice(0, 1),
    )
    t.match(await parkedOf(consumer), [
      { message_id: guilty, reason: 'bad picture', attempts: 1, aggregate_id: sick, event: events[2] },
      { reason: null },
      { reason: null },
      { reason: null },
    ])
    isFixed = true
    await admin.query('update parked_events set replay_at = now() where message_id = $1', [guilty])
    running.wake()
    await eventually('nothing parked', async () => (await parkedOf(consumer)).length === 0)
    t.strictSame(
      (await effectsOf(consumer)).filter(({ id }) => idsOf(sick).includes(id)).map(({ version }) => version),
      [1, 2, 3, 4, 5],
    )
  },
)

t.test('a replay that fails stays parked, with the new reason', async (t) => {
  let reason = 'first'
  const consumer = recorder(() => {
    throw new Error(reason)
  })
  const bus = openMemoryBus({ log })
  const running = start(t, bus, consumer)
  const event = purged(newUuid(), 1)
  await publish(bus, event)
  t.match(await parkedOf(consumer), [{ reason: 'first', attempts: 3 }])
  reason = 'second'
  await admin.query('update parked_events set replay_at = now() where consumer = $1', [consumer.name])
  running.wake()
  await eventually('the attempt', async () => (await parkedOf(consumer))[0].reason === 'second')
  t.match(await parkedOf(consumer), [{ attempts: 4, replay_at: null }])
  t.strictSame(await effectsOf(consumer), [])
})

t.test('what the database refuses for a while is tried again, and never parked', async (t) => {
  let failures = 0
  const consumer = recorder(() => {
    if (failures++ < 5) throw Object.assign(new Error('deadlock detected'), { code: '40P01' })
  })
  const bus = openMemoryBus({ log })
  start(t, bus, consumer)
  await publish(bus, purged(newUuid(), 1))
  t.equal((await effectsOf(consumer)).length, 1)
  t.strictSame(await parkedOf(consumer), [])
})

t.test('no event is parked because the database refuses a login', async (t) => {
  const user = `login_${process.pid}`
  await admin.query(`create role ${user} login password 'x'; grant keepsake_worker to ${user}`)
  const theirs = new URL(url)
  Object.assign(theirs, { username: user, password: 'x' })
  const { log, logged } = readableLog()
  const db = openDatabase({
    ...{ url: theirs.href, role: 'keepsake_worker', statementTimeoutMs: 10_000, maxConnections: 2 },
    log: quietLog(),
  })
  t.teardown(async () => {
    await db.close()
    await admin.query(`drop role ${user}`)
  })
  await admin.query(`alter role ${user} nologin`)
  const consumer = recorder()
  const event = purged(newUuid(), 1)
  const delivery = { event, subject, seq: 1, attempt: 1, text: () => JSON.stringify(event) }
  const { signal } = new AbortController()
  const handled = handlerOf({ db, log }, consumer).handle([delivery], { pid: undefined, signal })
  const refused = () => logged.filter(({ msg }) => msg === 'the database stopped a consumer').length
  await Promise.race([eventually('refused logins', () => refused() >= 4), handled])
  t.equal(toProblem(await db.read({}, async () => {}).catch((error: unknown) => error)).code, 'SERVICE_UNAVAILABLE')
  await admin.query(`alter role ${user} login`)
  await handled
  t.equal((await effectsOf(consumer)).length, 1)
  t.strictSame(await parkedOf(consumer), [])
})

t.test(
  'an event whose statement takes too long holds up only its aggregate, and is handled by a later attempt',
  async (t) => {
    const [slow, well] = [newUuid(), newUuid()]
    let isSlow = true
    const consumer = recorder(({ payload }) => {
      if ((payload as { media_id: Uuid }).media_id === slow && isSlow)
        throw Object.assign(new Error('statement timeout'), { code: '57014' })
    })
    const bus = openMemoryBus({ log })
    const running = start(t, bus, consumer)
    await Promise.all([purged(slow, 1), purged(well, 1), purged(slow, 2)].map((event) => publish(bus, event)))
    t.equal((await effectsOf(consumer)).length, 1)
    const due = `select reason, attempts, round(extract(epoch from replay_at - last_at))::int as again from parked_events
    where consumer = $1 order by position`
    const waiting = async () => (await admin.query(due, [consumer.name])).rows
    t.strictSame(await waiting(), [
      { reason: 'statement timeout', attempts: 3, again: 60 },
      { reason: null, attempts: 0, again: null },
    ])
    running.wake()
    const pass = () =>
      admin.query('update parked_events set replay_at = now() where reason is not null and consumer = $1', [
        consumer.name,
      ])
    await pass()
    running.wake()
    await eventually('an attempt in vain', async () => (await waiting())[0].again === 120)
    isSlow = false
    await pass()
    running.wake()
    await eventually('nothing parked', async () => (await parkedOf(consumer)).length === 0)
    const versions = (await effectsOf(consumer)).map(({ version }) => version)
    t.strictSame(versions, [1, 1, 2])
  },
)

t.test('an event of a form that this version cannot read is parked', async (t) => {
  const consumer = recorder()
  const bus = openMemoryBus({ log })
  start(t, bus, consumer)
  const aggregate = newUuid()
  const strange = { ...purged(aggregate, 2), data: { media_id: formatId('media', aggregate), org_id: 'x\0y' } }
  const events = [purged(aggregate, 1), strange, purged(aggregate, 3)]
  await Promise.all(events.map((event) => publish(bus, event)))
  t.equal((await effectsOf(consumer)).length, 1)
  t.match(await parkedOf(consumer), [{ reason: /^Not readable/, event: String }, { reason: null }])
})

const transcoded = (aggregate: Uuid, version: number) =>
  ofMedia(aggregate, version, { type: 'MediaTranscoded', payload: { media_id: aggregate, variants: {} } })
/** The consumer of a later version, which wants one more type. */
const grown = (consumer: Consumer): Consumer => ({ ...consumer, types: [...consumer.types, 'MediaTranscoded'] })
const versionsOf = async (consumer: Consumer) => (await effectsOf(consumer)).map(({ version }) => version)

t.test('a type that only a later version knows waits for it, which handles each event once and in order', async (t) => {
  const [consumer, other] = [recorder(), recorder()]
  const [changed, same] = [newUuid(), newUuid()]
  const first = transcoded(changed, 1)
  const events = [first, purged(changed, 2), transcoded(changed, 3), purged(same, 9)]
  const reason = /^Not readable: This version knows no event type MediaTranscoded$/
  const waiting = [
    { message_id: uuidOf(first), event: first, aggregate_id: changed, reason, attempts: 1, replay_at: null },
    { reason: null },
    { reason, attempts: 1, replay_at: null },
  ]
  const restore = asOlderVersion('MediaTranscoded')
  t.teardown(restore)
  for (const round of ['the first', 'another pod']) {
    const bus = openMemoryBus({ log })
    const running = start(t, bus, consumer, other)
    if (round === 'the first') await publishAll(bus, events)
    running.wake()
    await running.stop()
    for (const one of [consumer, other]) {
      t.match(await parkedOf(one), waiting, round)
      t.strictSame(await versionsOf(one), [9], 'the other aggregate goes on')
    }
  }
  restore()
  for (const round of ['upgraded', 'delivered again']) {
    const bus = openMemoryBus({ log })
    const running = start(t, bus, grown(consumer), other)
    await eventually(
      'nothing parked',
      async () => [...(await parkedOf(consumer)), ...(await parkedOf(other))].length === 0,
    )
    if (round === 'delivered again') await publishAll(bus, events)
    t.strictSame(await versionsOf(consumer), [9, 1, 2, 3], round)
    t.strictSame(await versionsOf(other), [9, 2], 'what it does not want is gone without effect')
    await running.stop()
  }
  t.strictSame(await auditsOf(first), [], 'no administrator has asked for it')
})

t.test('a form of the payload that only a later version can read waits for it too', async (t) => {
  const consumer = recorder()
  const event = purged(newUuid(), 1)
  const restore = asOlderVersion('MediaPurged', { area: 'media', payload: EVENTS.MediaTranscoded.payload })
  t.teardown(restore)
  const bus = openMemoryBus({ log })
  const running = start(t, bus, consumer)
  await publish(bus, event)
  t.match(await parkedOf(consumer), [{ reason: /^Not readable/, attempts: 1 }])
  // A later version had asked for it before this one got the turn back.
  await admin.query('update parked_events set replay_at = now() where consumer = $1', [consumer.name])
  running.wake()
  await eventually('an attempt in vain', async () => (await parkedOf(consumer))[0].attempts === 2)
  await running.stop()
  t.match(await parkedOf(consumer), [{ reason: /^Not readable/, replay_at: null }])
  restore()
  start(t, openMemoryBus({ log }), consumer)
  await eventually('nothing parked', async () => (await parkedOf(consumer)).length === 0)
  t.strictSame(await versionsOf(consumer), [1])
})

t.test('many of them are handled once each, also when two processes start at once and none has the turn', async (t) => {
  const consumer = recorder()
  const events = Array.from({ length: 210 }, (_, i) => transcoded(newUuid(), i))
  const restore = asOlderVersion('MediaTranscoded')
  t.teardown(restore)
  const bus = openMemoryBus({ log })
  const running = start(t, bus, consumer)
  await publishAll(bus, events)
  await running.stop()
  t.equal((await parkedOf(consumer)).length, events.length)
  restore()
  for (const _ of [1, 2]) start(t, openMemoryBus({ log }), grown(consumer))
  await eventually('nothing parked', async () => (await parkedOf(consumer)).length === 0)
  t.strictSame((await effectsOf(consumer)).map(({ id }) => id).sort(), events.map(uuidOf).sort())
})

t.test('what could not be read is logged once for each reason', async (t) => {
  const { log, logged } = readableLog()
  const consumer = recorder()
  const strange = [1, 2].map((version) => ({ ...purged(newUuid(), version), org_id: 'x' }))
  const later = [1, 2, 3].map((version) => transcoded(newUuid(), version))
  t.teardown(asOlderVersion('MediaTranscoded'))
  const bus = openMemoryBus({ log })
  const running = startConsumers({ db: worker, url, bus, log, ...openWorkerMetrics(worker) }, [consumer])
  t.teardown(() => running.stop())
  await publishAll(bus, [...strange, ...later])
  const lines = logged.filter(({ msg }) => /^an event was parked/.test(String(msg)))
  t.match(lines, [{ reason: /Not an event of ours/ }, { reason: /knows no event type/, consumer: consumer.name }])
  t.equal(lines.length, 2)
})

t.test('a consumer that is stopped refuses what it has not handled', async (t) => {
  const consumer = recorder(() => {
    throw Object.assign(new Error('away'), { code: 'ECONNREFUSED' })
  })
  const bus = openMemoryBus({ log })
  const running = start(t, bus, consumer)
  const refused = t.rejects(publish(bus, purged(newUuid(), 1)))
  await sleep(50)
  await running.stop()
  await refused
})

/** Consumers as the worker starts them: a notification of `dead_letters` wakes them for a replay. */
function startListening(t: Test, bus: EventBus, ...consumers: Consumer[]) {
  const running = start(t, bus, ...consumers)
  const listener = listenForNotifications({ url, channels: { dead_letters: running.wake }, log })
  t.teardown(() => listener.close())
  return running
}
const cli = (...args: string[]) => commandLine(['dead-letters', ...args], { DATABASE_URL: url })

t.test('an administrator sees what is parked, and has it replayed in order, however often they ask', async (t) => {
  let isFixed = false
  const consumer = recorder(({ aggregateVersion }) => {
    if (aggregateVersion === 2 && !isFixed) throw new PoisonMessage('bad picture')
  })
  const bus = openMemoryBus({ log })
  startListening(t, bus, consumer)
  const aggregate = newUuid()
  const events = [1, 2, 3, 4].map((version) => purged(aggregate, version))
  await publishAll(bus, events)
  const [, guilty, next] = events as [CloudEvent, CloudEvent, CloudEvent, CloudEvent]
  const listed = await cli('list', '--consumer', consumer.name)
  const about = { consumer: consumer.name, subject, sequence: 0, waits_for: null }
  t.match(listed, { code: 0, out: { dead_letters: [{ id: guilty.id, ...about, reason: 'bad picture', behind: 2 }] } })
  t.equal(listed.out.dead_letters.length, 1)
  t.match((await cli('show', next.id)).out.dead_letters, [
    { reason: null, waits_for: guilty.id, behind: 1, event: next },
  ])
  t.match(await cli('replay', next.id), { code: 3, err: new RegExp(`waits behind ${guilty.id}`) })
  t.match((await cli('replay', guilty.id)).out, {
    ...{ requested: 1, handled: 0, waiting: 0 },
    failed: [{ id: guilty.id, consumer: consumer.name, reason: 'bad picture' }],
  })
  isFixed = true
  const all = await Promise.all([1, 2, 3].map(() => cli('replay', guilty.id)))
  // One may come when it is done already, another one while the attempt is made: then both have asked for it.
  const isLate = ({ code, err }: Outcome) => code === 3 && /No consumer/.test(err)
  const replies = all.filter((reply) => !isLate(reply))
  const requested = replies.reduce((sum, { out }) => sum + out.requested, 0)
  t.ok(requested >= 1)
  t.equal(
    replies.reduce((sum, { out }) => sum + out.handled, 0),
    requested,
  )
  await eventually('nothing parked', async () => (await parkedOf(consumer)).length === 0)
  t.strictSame(
    (await effectsOf(consumer)).map(({ version }) => version),
    [1, 2, 3, 4],
  )
  const audit = { action: 'ADMIN_ACTION', actor_id: null, org_id: org, resource_type: 'message' }
  const entry = { ...audit, details: { operation: 'replay event', consumer: consumer.name } }
  const audits = await auditsOf(guilty)
  t.equal(audits.length, 1 + requested, 'once for each replay')
  for (const one of audits) t.match(one, entry)
  t.match(await cli('replay', guilty.id), { code: 3, err: /No consumer/ })
  t.match(await cli('show', 'msg_1'), { code: 2 })
})

t.test(
  'all of a consumer are replayed at once; what fails again is told, and holds up only its own aggregate',
  async (t) => {
    const stuck = newUuid()
    let isFixed = false
    const consumer = recorder(({ payload, aggregateVersion }) => {
      if (aggregateVersion === 1 && (!isFixed || (payload as { media_id: Uuid }).media_id === stuck))
        throw new PoisonMessage('bad picture')
    })
    const bus = openMemoryBus({ log })
    startListening(t, bus, consumer)
    const aggregates = [stuck, ...Array.from({ length: 5 }, newUuid)]
    const events = aggregates.flatMap((aggregate) => [purged(aggregate, 1), purged(aggregate, 2)])
    await publishAll(bus, events)
    isFixed = true
    const { out } = await cli('replay', '--consumer', consumer.name)
    t.match(out, { requested: 6, handled: 5, waiting: 0, failed: [{ id: events[0]?.id, reason: 'bad picture' }] })
    await eventually('only the stuck ones', async () => (await parkedOf(consumer)).length === 2)
    const done = await effectsOf(consumer)
    t.equal(done.length, 10)
    const places = new Map(done.map(({ id }, place) => [id, place]))
    const placeOf = (event: CloudEvent | undefined) => places.get(event ? uuidOf(event) : '') ?? -1
    const early = events.filter((event, i) => i % 2 === 1 && placeOf(event) < placeOf(events[i - 1]))
    t.strictSame(early, [], 'each second version after the first')
  },
)

t.test(
  'an event that is given up has no effect, what waits behind it follows, and it does not come back',
  async (t) => {
    const fails = ({ aggregateVersion }: ReceivedEvent) => {
      if (aggregateVersion === 1) throw new PoisonMessage('bad picture')
    }
    const [one, two, well] = [recorder(fails), recorder(fails), recorder()]
    const bus = openMemoryBus({ log })
    startListening(t, bus, one, two, well)
    const aggregate = newUuid()
    const events = [1, 2, 3].map((version) => purged(aggregate, version))
    const [guilty, next] = events as [CloudEvent, CloudEvent]
    await publishAll(bus, events)
    t.match(await cli('drop', next.id), { code: 3, err: new RegExp(`only waits behind ${guilty.id}`) })
    const replies = await Promise.all([1, 2].map(() => cli('drop', guilty.id)))
    const dropped = replies.flatMap(({ out }) => out?.dropped ?? [])
    t.strictSame(dropped.sort(), [one.name, two.name].sort(), 'once for each consumer, by both commands together')
    await eventually('nothing parked', async () => [...(await parkedOf(one)), ...(await parkedOf(two))].length === 0)
    const again = openMemoryBus({ log })
    startListening(t, again, one, two, well)
    await publishAll(again, events)
    for (const consumer of [one, two]) t.strictSame(await versionsOf(consumer), [2, 3])
    t.strictSame(await versionsOf(well), [1, 2, 3])
    const entry = { action: 'ADMIN_ACTION', org_id: org, details: { operation: 'drop event' } }
    t.match(await auditsOf(guilty), [entry, entry])
    t.equal((await auditsOf(guilty)).length, 2)
    t.match(await cli('drop', guilty.id), { code: 3, err: /No consumer/ })
  },
)

t.test('a replay that no worker hears is made by the next one, and asking again changes nothing', async (t) => {
  let isFixed = false
  const consumer = recorder(() => {
    if (!isFixed) throw new PoisonMessage('bad picture')
  })
  const bus = openMemoryBus({ log })
  const first = start(t, bus, consumer)
  await publish(bus, purged(newUuid(), 1))
  await first.stop()
  isFixed = true
  t.match(await replay(worker, { consumer: consumer.name }, 0), {
    requested: 1,
    waiting: 1,
  })
  t.match(await replay(worker, { consumer: consumer.name }, 0), { requested: 0, waiting: 0 })
  start(t, openMemoryBus({ log }), consumer)
  await eventually('nothing parked', async () => (await parkedOf(consumer)).length === 0)
  t.equal((await effectsOf(consumer)).length, 1)
})

t.test('many are asked for in several transactions', async (t) => {
  await admin.query(`insert into parked_events (consumer, message_id, subject, stream_seq, reason, attempts, event)
    select 'many', gen_random_uuid(), 'memory.v1.strange', n, 'Not a CloudEvent', 1, '"x"' from generate_series(1, 201) n`)
  t.match(await replay(worker, { consumer: 'many' }, 0), { requested: 201, waiting: 201 })
  const audits = await admin.query(`select org_id from audit_log where details->>'consumer' = 'many'`)
  t.equal(audits.rowCount, 201)
})

t.test('an event at whose replays the process died is not replayed for ever', async (t) => {
  let tries = 0
  const consumer = recorder(() => {
    if (tries++ === 0) throw new PoisonMessage('bad picture')
  })
  const bus = openMemoryBus({ log })
  const running = start(t, bus, consumer)
  const event = purged(newUuid(), 1)
  await publish(bus, event)
  const died = [consumer.name, uuidOf(event), 3]
  await admin.query('insert into suspected_events (consumer, message_id, attempts) values ($1, $2, $3)', died)
  await replay(worker, { consumer: consumer.name }, 0)
  running.wake()
  await eventually('the end of the request', async () => (await parkedOf(consumer))[0].replay_at === null)
  t.equal(tries, 1)
  t.match(await parkedOf(consumer), [{ reason: /ended without an answer/ }])
  await replay(worker, { consumer: consumer.name }, 0)
  running.wake()
  await eventually('the next request counts anew', async () => (await parkedOf(consumer)).length === 0)
})

t.test('a request that comes while a replay fails is not lost', async (t) => {
  let tries = 0
  const consumer = recorder(() => {
    if (tries++ < 2) throw new PoisonMessage('bad picture')
  })
  const { handle } = consumer
  consumer.handle = async (tx, events) => {
    // Another administrator, who has removed the cause meanwhile; the row is locked until the attempt has failed.
    if (tries === 1) asking = askAgain()
    return handle.call(consumer, tx, events)
  }
  let asking: Promise<unknown> = Promise.resolve()
  const askAgain = () =>
    admin.query(`update parked_events set replay_at = now() + interval '1 ms' where consumer = $1`, [consumer.name])
  const bus = openMemoryBus({ log })
  const running = start(t, bus, consumer)
  await publish(bus, purged(newUuid(), 1))
  await replay(worker, { consumer: consumer.name }, 0)
  running.wake()
  await eventually('nothing parked', async () => {
    running.wake()
    return (await parkedOf(consumer)).length === 0
  })
  await asking
  t.equal(tries, 3)
})

t.test('metrics tell what was handled, came again, is parked and waits, in process as well', async (t) => {
  let isAway = true
  const consumer = recorder(({ aggregateVersion }) => {
    if (isAway) throw Object.assign(new Error('away'), { code: 'ECONNREFUSED' })
    if (aggregateVersion === 2) throw new PoisonMessage('bad picture')
  })
  const bus = openMemoryBus({ log })
  const metrics = openWorkerMetrics(worker)
  const startMeasured = (shown: object) =>
    startConsumers({ db: worker, url, bus, log, ...metrics, ...shown }, [consumer])
  const first = startMeasured({ counterOf: () => () => {}, showEach: () => {} })
  const events = [1, 2, 3].map((version) => purged(newUuid(), version))
  const [one] = events as [CloudEvent]
  const refused = t.rejects(publish(bus, one))
  await first.stop()
  await refused
  isAway = false
  const running = startMeasured({})
  t.teardown(() => running.stop())
  await publishAll(bus, events)
  await admin.query(
    `insert into outbox (id, org_id, area, aggregate_id, aggregate_version, type, payload, created_at)
      values (gen_random_uuid(), $1, 'media', $1, 1, 'MediaPurged', '{}', now() - interval '1 minute')`,
    [org],
  )
  const { body } = await metrics.text()
  const shownAs = (name: string) =>
    Number(new RegExp(`^${name}\\{consumer="${consumer.name}"\\} (.+)$`, 'm').exec(body)?.[1])
  t.equal(shownAs('consumer_handled_total'), 2)
  t.equal(shownAs('consumer_redelivered_total'), 1)
  t.equal(shownAs('consumer_parked'), 1)
  t.equal(shownAs('consumer_active'), 1)
  t.equal(shownAs('consumer_pending'), 1)
  t.ok(shownAs('consumer_oldest_seconds') >= 60)
})
