import { loadavg } from 'node:os'
import { timelineConsumer } from '../../api/features/timeline/consumer.ts'
import type { Consumer } from '../../api/worker/consumers/consumer.ts'
import { startConsumers } from '../../api/worker/consumers/start.ts'
import { openWorkerMetrics } from '../../api/worker/metrics.ts'
import {
  type CloudEvent,
  type EventPayload,
  type EventType,
  subjectOf,
  toCloudEvent,
} from '../../lib/contract/events.ts'
import { newUuid, type Uuid } from '../../lib/contract/ids.ts'
import type { EventBus } from '../../lib/runtime/event-bus/event-bus.ts'
import { openNatsBus } from '../../lib/runtime/event-bus/nats.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { quietLog } from '../support/quiet-log.ts'
import { type NatsServer, startNats } from '../support/services/nats.ts'

/**
 * How fast the consumer of timelines catches up: events that lie in a real NATS server, into a real Postgres, in batches
 * and one at a time. Half of the aggregates are albums that grow, half are media items.
 */
const EVENTS = Number(process.env['EVENTS'] ?? 10_000)
const ALONE = Number(process.env['ALONE'] ?? 1000)
const ROUNDS = Number(process.env['ROUNDS'] ?? 3)
const TARGET = 2000
const ORGANIZATIONS = 20
const PUBLISHED_AT_ONCE = 500
const log = quietLog()
let names = 0

interface Rate {
  perSecond: number
  /** Of this process, milliseconds per event. */
  cpu: number
}

async function measure(database: TestDatabase, nats: NatsServer): Promise<string> {
  const lines = [
    `| aggregates | events/s in batches (${EVENTS} events) | CPU (ms per event) | events/s one at a time (${ALONE} events) | ratio | load |`,
    '|---|---|---|---|---|---|',
  ]
  for (const aggregates of [200, 5000]) {
    const bus = openNatsBus({ url: nats.url, log })
    await publishAll(bus, await eventsOf(database, aggregates))
    const alone: EventBus = { ...bus, subscribe: (o, handle) => bus.subscribe({ ...o, batch: 1 }, handle) }
    const rates: { together: Rate; alone: Rate }[] = []
    for (let round = 0; round < ROUNDS; round++) {
      rates.push({ together: await catchUp(database, bus, EVENTS), alone: await catchUp(database, alone, ALONE) })
    }
    const [together, one] = [median(rates.map((r) => r.together)), median(rates.map((r) => r.alone))]
    const verdict = together.perSecond >= TARGET ? 'met' : 'missed'
    const load = loadavg()[0]?.toFixed(0)
    lines.push(
      `| ${aggregates} | ${Math.round(together.perSecond)}, ${verdict} | ${together.cpu.toFixed(2)} | ${Math.round(one.perSecond)} | ${(together.perSecond / one.perSecond).toFixed(0)} | ${load} |`,
    )
    await bus.close()
    // The next has a stream of its own.
    await nats.stop()
    Object.assign(nats, await startNats())
  }
  return lines.join('\n')
}

const median = (rates: readonly Rate[]): Rate =>
  rates.toSorted((a, b) => a.perSecond - b.perSecond)[rates.length >> 1] ?? { perSecond: 0, cpu: 0 }

/** From the start of a consumer that has handled nothing until it has handled so many. */
async function catchUp({ worker, url, admin }: TestDatabase, bus: EventBus, events: number): Promise<Rate> {
  await admin.query('truncate timeline_items, feed_versions')
  await admin.query('checkpoint')
  const { promise: done, resolve } = Promise.withResolvers<void>()
  let handled = 0
  let latest = 0
  const consumer: Consumer = {
    ...timelineConsumer,
    name: `bench-${names++}`,
    handle(tx, batch) {
      latest = batch.length
      return timelineConsumer.handle(tx, batch)
    },
    committed() {
      handled += latest
      if (handled >= events) resolve()
    },
  }
  const before = process.cpuUsage()
  const began = performance.now()
  const running = startConsumers({ db: worker, url, bus, log, ...openWorkerMetrics(worker) }, [consumer])
  await done
  const seconds = (performance.now() - began) / 1000
  const { user, system } = process.cpuUsage(before)
  await running.stop()
  return { perSecond: handled / seconds, cpu: (user + system) / 1000 / handled }
}

async function publishAll(bus: EventBus, events: readonly { subject: string; event: CloudEvent }[]): Promise<void> {
  for (let i = 0; i < events.length; i += PUBLISHED_AT_ONCE) {
    await Promise.all(events.slice(i, i + PUBLISHED_AT_ONCE).map(({ subject, event }) => bus.publish(subject, event)))
  }
}

interface Row {
  id: Uuid
  org: Uuid
}

/** In the order in which many people would cause them: the next of each aggregate in turn. */
async function eventsOf({ admin }: TestDatabase, aggregates: number) {
  const user = newUuid()
  const orgs = Array.from({ length: ORGANIZATIONS }, newUuid)
  await admin.query('insert into users (id, issuer, subject) values ($1::uuid, $2, $1::text)', [user, 'bench'])
  await admin.query(`insert into organizations (id, name) select unnest($1::uuid[]), 'Bench'`, [orgs])
  await admin.query(`insert into memberships (org_id, user_id, role) select unnest($1::uuid[]), $2, 'owner'`, [
    orgs,
    user,
  ])
  const rows: Row[] = Array.from({ length: aggregates }, (_, i) => ({
    id: newUuid(),
    org: orgs[i % ORGANIZATIONS] ?? '',
  }))
  const [albums, media] = [rows.filter((_, i) => i % 2 === 0), rows.filter((_, i) => i % 2 === 1)]
  const columns = (some: readonly Row[]) => [some.map(({ id }) => id), some.map(({ org }) => org), user]
  await admin.query(
    `insert into albums (id, org_id, owner_id, title) select id, org, $3, 'Bench' from unnest($1::uuid[], $2::uuid[]) t (id, org)`,
    columns(albums),
  )
  await admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
      conversion_state, created_at)
      select id, org, $3, 'a', 'image/jpeg', 'image', 1, 'completed', 'succeeded', now() - random() * interval '60 days'
      from unnest($1::uuid[], $2::uuid[]) t (id, org)`,
    columns(media),
  )
  await admin.query('vacuum analyze')
  return Array.from({ length: EVENTS }, (_, n) => {
    const version = Math.floor(n / aggregates) + 1
    const i = n % aggregates
    const row = rows[i] as Row
    return i % 2 === 0 ? ofAlbum(row, user, version) : ofMedia(row, user, version)
  })
}

function ofAlbum({ id, org }: Row, user: Uuid, version: number) {
  const common = { album_id: id, org_id: org, status: 'PUBLIC', visibility: 'organization' }
  if (version === 1)
    return published('AlbumCreated', { id, org }, version, {
      ...common,
      owner_id: user,
      event_id: null,
      title: 'Bench',
    })
  const change = { change: 'media_added' as const, actor_id: user, media_id: null }
  return published('AlbumUpdated', { id, org }, version, { ...common, ...change })
}

function ofMedia({ id, org }: Row, user: Uuid, version: number) {
  const file = { filename: 'a.jpg', mime_type: 'image/jpeg', file_size: 1 }
  return published('MediaUploaded', { id, org }, version, { media_id: id, org_id: org, uploader_id: user, ...file })
}

function published<T extends EventType>(type: T, { id, org }: Row, version: number, payload: EventPayload<T>) {
  const area = type.startsWith('Album') ? 'album' : 'media'
  const common = { id: newUuid(), orgId: org, area, aggregateId: id, aggregateVersion: version, type }
  const event = toCloudEvent({ ...common, payload, createdAt: new Date(), traceparent: null })
  return { subject: subjectOf({ area, org, aggregate: id, type }), event }
}

const endings: (() => Promise<void>)[] = []
try {
  const nats = await startNats()
  if (!nats) throw new Error('nats-server is not installed')
  endings.unshift(() => nats.stop())
  const database = await testDatabase({ teardown: (done) => void endings.unshift(done) })
  console.log(await measure(database, nats))
} finally {
  for (const end of endings) await end()
}
