import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Database } from '../../../api/db/db.ts'
import { eq } from '../../../api/db/orm.ts'
import { media } from '../../../api/db/schema/media.ts'
import { markRestored, wakeConversions } from '../../../api/features/media/deletion/queries.ts'
import { FEATURE_WORKERS, FullWorkerConfig } from '../../../api/features.ts'
import { openWorkerMetrics } from '../../../api/worker/metrics.ts'
import { serveAside } from '../../../api/worker/side-server.ts'
import { startWorker } from '../../../api/worker/worker.ts'
import type { CloudEvent } from '../../../lib/contract/events.ts'
import { formatId } from '../../../lib/contract/ids.ts'
import { systemClock } from '../../../lib/runtime/clock.ts'
import { loadConfig } from '../../../lib/runtime/config.ts'
import { openMemoryBus } from '../../../lib/runtime/event-bus/memory.ts'
import {
  conversionWorld,
  NAMESPACE,
  running,
  succeeded,
  testCluster,
  testStore,
} from '../../support/conversion-world.ts'
import { testDatabase } from '../../support/database.ts'
import { eventually } from '../../support/eventually.ts'
import { noIpv6 } from '../../support/ipv6.ts'
import { AUDIT_KEYS } from '../../support/personal-data.ts'
import { quietLog } from '../../support/quiet-log.ts'

const database = await testDatabase(t)
const place = await testStore(t)
const cluster = testCluster(t)
const world = await conversionWorld(database, place, cluster)
const log = quietLog()
const bus = openMemoryBus({ log })
const heard: CloudEvent[] = []
await bus.subscribe(
  { consumer: 'test', types: ['MediaUploaded', 'MediaTranscoded'] },
  async (batch) => void heard.push(...batch.flatMap(({ event }) => event ?? [])),
)
t.teardown(() => bus.close())

const settings = {
  DATABASE_URL: database.url,
  STORE_KIND: 'folder',
  STORE_FOLDER: place.storeFolder,
  BUS_KIND: 'memory',
  AUDIT_KEYS,
  NAMESPACE,
  ERASURE_KEY: 'a-key-of-the-tests-which-names-users-in-the-ledger',
  HOST: '127.0.0.1',
  HEALTH_PORT: '0',
  METRICS_PORT: '0',
  POLL_MS: '60000', // who waited for it would wait in vain
  SWEEP_SECONDS: '3600',
}
const config = loadConfig(FullWorkerConfig, settings)
const parts = {
  config,
  features: FEATURE_WORKERS,
  db: database.worker,
  store: place.store,
  bus,
  cluster,
  log,
  clock: systemClock,
}
const statusOf = async (url: string) => (await fetch(url)).status

t.test('without HOST, probes and scrapes reach it by IPv4 and by IPv6', { skip: noIpv6 }, async (t) => {
  const { HOST: _, ...given } = settings
  const server = await serveAside((_request, response) => response.end(), loadConfig(FullWorkerConfig, given).HOST, 0)
  t.teardown(() => server.close())
  for (const host of ['127.0.0.1', '[::1]']) t.equal(await statusOf(server.url.replace('127.0.0.1', host)), 200, host)
})

t.test('from the upload to the announcement, with two workers', async (t) => {
  const workers = [await startWorker(parts), await startWorker(parts)]
  t.teardown(() => Promise.all(workers.map((w) => w.close())))
  const ids = await Promise.all([1, 2, 3, 4, 5].map(() => world.upload()))
  for (const id of ids) await eventually('a TranscodeJob', () => world.job(id), 30_000)
  for (const id of ids) {
    await world.setStatus(id, running(50))
    await world.writeOutput(id)
    await world.setStatus(id, succeeded(id))
  }
  await eventually('ten events', () => heard.length === 10)
  const { admin } = database
  await eventually('all marked', async () => {
    return (await admin.query('select from outbox where published_at is null')).rowCount === 0
  })
  for (const id of ids) {
    const mine = heard.filter((e) => e.subject === `media/${id}`)
    t.strictSame(
      mine.map((e) => e.type),
      ['MediaUploaded', 'MediaTranscoded'],
    )
    t.match(mine[1]?.data, { media_id: formatId('media', id) })
  }

  const [first] = workers
  const url = first?.healthUrl ?? ''
  t.equal(await statusOf(`${url}/livez`), 200)
  t.equal(await statusOf(`${url}/readyz`), 200)
  t.equal(await statusOf(`${url}/metrics`), 404)
  const metrics = await (await fetch(`${first?.metricsUrl}/metrics`)).text()
  t.match(metrics, /^outbox_unpublished 0$/m)
  t.match(metrics, /^outbox_oldest_seconds 0$/m)
  for (const kind of ['TranscodeJob', 'HighlightRender'])
    t.match(metrics, new RegExp(`^projector_waiting\\{kind="${kind}"\\} \\d+$`, 'm'))
  t.match(metrics, /^conversions_waiting 0$/m)
  t.match(metrics, /^renders_waiting 0$/m)
  t.match(metrics, /^images_waiting 0$/m)
  t.match(metrics, /^process_cpu_seconds_total /m)
  t.equal(await statusOf(`${first?.metricsUrl}/`), 404)
  const published = async (type: string) => {
    const texts = await Promise.all(workers.map(async (w) => (await fetch(`${w.metricsUrl}/metrics`)).text()))
    const counts = texts.map(
      (text) => new RegExp(`^relay_published_total\\{type="${type}"\\} (\\d+)$`, 'm').exec(text)?.[1],
    )
    return counts.reduce((sum, n) => sum + Number(n ?? 0), 0)
  }
  const written = /^projector_written_total\{kind="TranscodeJob",state="succeeded"\} [1-5]$/m
  await eventually('a conversion recorded', async () => {
    const texts = await Promise.all(workers.map(async (w) => (await fetch(`${w.metricsUrl}/metrics`)).text()))
    return texts.some((text) => written.test(text))
  })
  await eventually('five uploads counted', async () => (await published('MediaUploaded')) === 5)
  await eventually('five conversions counted', async () => (await published('MediaTranscoded')) === 5)
})

t.test('a media item whose conversion ended while it was in the trash is completed when it is restored', async (t) => {
  const worker = await startWorker(parts)
  t.teardown(() => worker.close())
  const { admin } = database
  const id = await world.upload()
  await eventually('a TranscodeJob', () => world.job(id), 30_000)
  await admin.query('update media set deleted_at = now(), deleted_by = uploader_id where id = $1', [id])
  await world.writeOutput(id)
  await world.setStatus(id, succeeded(id))
  const isIdle = async () =>
    /^projector_waiting\{kind="TranscodeJob"\} 0$/m.test(await (await fetch(`${worker.metricsUrl}/metrics`)).text())
  await eventually('the projector has seen it', isIdle)
  t.equal((await world.row(id))['upload_status'], 'processing', 'the result of what is deleted does not count')
  await database.worker.inTransaction({}, async (tx) => {
    const rows = await tx.select().from(media).where(eq(media.id, id))
    await wakeConversions(tx, await markRestored(tx, rows, { givesUpPairId: false }))
  })
  await eventually('completed', async () => (await world.row(id))['upload_status'] === 'completed')
})

t.test('the first sweep repairs what was left, and closing leaves nothing behind', async (t) => {
  const id = await world.upload()
  const image = await world.upload('image/jpeg')
  // As an API of an earlier version leaves the halves of a Live Photo.
  await database.admin.query(`update media set asset_identifier = 'A' where id = any ($1)`, [[id, image]])
  await database.admin.query('update outbox set published_at = now()')
  const worker = await startWorker(parts)
  await eventually('a TranscodeJob', () => world.job(id))
  await eventually('a sweep', async () =>
    /sweep_last_success_timestamp_seconds [1-9]/.test(await (await fetch(`${worker.metricsUrl}/metrics`)).text()),
  )
  t.equal((await world.row(image))['paired_media_id'], id)
  const left = async () => (await database.admin.query('select from outbox where published_at is null')).rowCount
  await eventually('what the sweep announced is published', async () => (await left()) === 0)
  await Promise.all([worker.close(), worker.close()])
  await t.rejects(fetch(worker.healthUrl))
  await world.upload()
  await sleep(50)
  t.equal(await left(), 1, 'nobody works any more')
})

t.test('without its database it is alive, not ready, and still shows metrics', async (t) => {
  const broken = {
    ...parts.db,
    check: async () => Promise.reject(new Error('away')),
    read: async () => Promise.reject(new Error('away')),
  }
  const worker = await startWorker({ ...parts, db: broken })
  t.teardown(() => worker.close())
  t.equal(await statusOf(`${worker.healthUrl}/livez`), 200)
  t.equal(await statusOf(`${worker.healthUrl}/readyz`), 503)
  const metrics = await (await fetch(`${worker.metricsUrl}/metrics`)).text()
  t.match(metrics, /^outbox_unpublished Nan$/im)
  t.match(metrics, /^conversions_waiting Nan$/im)
  t.match(metrics, /^renders_waiting Nan$/im)
  t.match(metrics, /^images_waiting Nan$/im)
  t.match(metrics, /^purge_oldest_due_seconds Nan$/im)
  t.match(metrics, /^highlight_purge_oldest_due_seconds Nan$/im)
  t.match(metrics, /^outbox_oldest_seconds Nan$/im, 'in the first scrape as well')
})

t.test('all figures of the backlog are of the moment of the scrape, for one look at it', async (t) => {
  let looks = 0
  const counting: Database = {
    ...database.worker,
    read: (scope, work) => {
      looks++
      return database.worker.read(scope, work)
    },
  }
  const metrics = openWorkerMetrics(counting)
  const names = ['first', 'second', 'third']
  metrics.showRows(names.map((name, i) => ({ name, help: name, read: async () => looks * 10 ** i })))
  for (const look of [1, 2]) {
    const { body } = await metrics.text()
    t.match(body, /^outbox_unpublished \d+$/m)
    for (const [i, name] of names.entries()) t.match(body, new RegExp(`^${name} ${look * 10 ** i}$`, 'm'))
  }
  t.equal(looks, 2)
})

t.test('repairs are counted by kind', async (t) => {
  const metrics = openWorkerMetrics(database.worker)
  metrics.onRepaired('TranscodeJob', 'create')
  metrics.onRepaired('HighlightRender', 'create')
  const { body } = await metrics.text()
  for (const kind of ['TranscodeJob', 'HighlightRender']) {
    t.match(body, new RegExp(`^sweep_repaired_total\\{kind="${kind}",repair="create"\\} 1$`, 'm'))
  }
})

t.test('a port that is taken is an error at once, and nothing runs', async (t) => {
  const squatter = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => squatter.once('listening', resolve))
  t.teardown(() => void squatter.close())
  const { port } = squatter.address() as { port: number }
  await t.rejects(startWorker({ ...parts, config: { ...config, METRICS_PORT: port } }), { code: 'EADDRINUSE' })
  await t.rejects(startWorker({ ...parts, config: { ...config, HEALTH_PORT: port } }), { code: 'EADDRINUSE' })
})

t.test('a wrong configuration is named, all of it', async (t) => {
  const load = () =>
    loadConfig(FullWorkerConfig, {
      DATABASE_URL: 'mysql://x',
      STORE_KIND: 'folder',
      BUS_KIND: 'nats',
      NAMESPACE: 'a b',
    })
  t.throws(load, { message: /DATABASE_URL[\s\S]*NAMESPACE/ })
})
