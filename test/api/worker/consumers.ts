import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import t, { type Test } from 'tap'
import type { Tx } from '../../../api/db/db.ts'
import type { Consumer } from '../../../api/worker/consumers/consumer.ts'
import { startConsumers } from '../../../api/worker/consumers/start.ts'
import { openWorkerMetrics } from '../../../api/worker/metrics.ts'
import { type CloudEvent, type ReceivedEvent, subjectOf, toCloudEvent } from '../../../lib/contract/events.ts'
import { formatId, newUuid, parseId, type Uuid } from '../../../lib/contract/ids.ts'
import { type EventBus, PoisonMessage } from '../../../lib/runtime/event-bus/event-bus.ts'
import { openMemoryBus } from '../../../lib/runtime/event-bus/memory.ts'
import { testDatabase } from '../../support/database.ts'
import { eventually } from '../../support/eventually.ts'
import { quietLog } from '../../support/quiet-log.ts'

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
const purged = (aggregate: Uuid, version: number): CloudEvent =>
  toCloudEvent({
    id: newUuid(),
    orgId: org,
    area: 'media',
    aggregateId: aggregate,
    aggregateVersion: version,
    type: 'MediaPurged',
    payload: { media_id: aggregate, org_id: org },
    createdAt: new Date(),
    traceparent: null,
  })
const subject = subjectOf({ area: 'media', org, aggregate: newUuid(), type: 'MediaPurged' })
const publish = (bus: EventBus, event: CloudEvent) => bus.publish(subject, event)
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
