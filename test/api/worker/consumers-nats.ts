import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'nats'
import t, { type Test } from 'tap'
import type { Database } from '../../../api/db/db.ts'
import { appendEvent } from '../../../api/outbox/queries.ts'
import { startConsumers } from '../../../api/worker/consumers/start.ts'
import { openTurns } from '../../../api/worker/consumers/turns.ts'
import { openWorkerMetrics } from '../../../api/worker/metrics.ts'
import { startRelay } from '../../../api/worker/relay.ts'
import { STREAM } from '../../../lib/contract/events.ts'
import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { openNatsBus } from '../../../lib/runtime/event-bus/nats.ts'
import { overTcp, testDatabase } from '../../support/database.ts'
import { relay as publishAgain, sample } from '../../support/event-bus-contract.ts'
import { eventually } from '../../support/eventually.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { EFFECTS, POISON, recordingConsumer } from '../../support/recording-consumer.ts'
import { natsOf } from '../../support/services/nats.ts'
import { tcpProxy } from '../../support/tcp-proxy.ts'

// Takes over 20 s, most of them waiting: for a publication that fails, and for messages that a worker has left unanswered.
// Relay and consumers of several workers over a real NATS server that is away, is lost, or loses its worker.
const server = await natsOf(t)
const { db, worker, admin, url } = await testDatabase(t)
await admin.query(EFFECTS)
const log = quietLog()

interface Worker {
  metrics(): Promise<string>
  stop(): Promise<void>
}

function startWorker(t: Test): Worker {
  const bus = openNatsBus({ url: server.url, ackWaitMs: 1000, log })
  const metrics = openWorkerMetrics(worker)
  const consumers = startConsumers({ db: worker, url, bus, log, ...metrics }, [recordingConsumer])
  const relay = startRelay({ db: worker, bus, log, react: async () => {} }, { pollMs: 20 })
  let stopped: Promise<void> | undefined
  const stop = async () => {
    await relay.stop()
    await consumers.stop()
    await bus.close()
  }
  const one = {
    metrics: async () => (await metrics.text()).body,
    stop() {
      stopped ??= stop()
      return stopped
    },
  }
  t.teardown(one.stop)
  return one
}

const org = newUuid()
/** As a request of the API does it. */
const append = (to: Database, aggregate: Uuid, version: number) =>
  to.inTransaction({ org }, (tx) =>
    appendEvent(tx, {
      orgId: org,
      aggregateId: aggregate,
      aggregateVersion: version,
      type: 'MediaPurged',
      payload: { media_id: aggregate, org_id: org },
      traceparent: null,
    }),
  )
const write = (aggregate: Uuid, version: number) => append(db, aggregate, version)
async function writeAll(aggregates: readonly Uuid[], versions: readonly number[]): Promise<void> {
  for (const version of versions) for (const aggregate of aggregates) await write(aggregate, version)
}
const versionsOf = async (aggregate: Uuid): Promise<number[]> =>
  (await admin.query('select version from effects where id = $1 order by place', [aggregate])).rows.map(
    (r) => r.version,
  )
const effects = async (aggregates: readonly Uuid[]) =>
  (await admin.query('select count(*)::int as n from effects where id = any ($1)', [aggregates])).rows[0].n as number
const countOutbox = async (where: string) =>
  (await admin.query(`select count(*)::int as n from outbox where ${where}`)).rows[0].n as number
const handled = (aggregates: readonly Uuid[], n: number) =>
  eventually('all effects', async () => (await effects(aggregates)) >= n)
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i + 1)

async function isInOrder(t: Test, aggregates: readonly Uuid[], versions: readonly number[]): Promise<void> {
  for (const aggregate of aggregates) t.strictSame(await versionsOf(aggregate), versions)
}

t.test(
  'what is written while the event server is away arrives once it is back: in order, each with one effect',
  async (t) => {
    const aggregates = Array.from({ length: 5 }, newUuid)
    const [first, second] = [startWorker(t), startWorker(t)]
    await writeAll(aggregates, [1, 2])
    await handled(aggregates, 10)
    await server.down()
    await writeAll(aggregates, [3, 4, 5])
    // A worker that is replaced meanwhile starts without the event server.
    const replaced = first.stop()
    startWorker(t)
    await eventually('attempts in vain', async () => (await countOutbox(`last_error like 'publish:%'`)) === 5)
    t.equal(await countOutbox('published_at is null'), 15, 'the events wait in the outbox')
    await writeAll(aggregates, [6, 7])
    await replaced
    t.equal(await effects(aggregates), 10)
    await server.up()
    await handled(aggregates, 35)
    await isInOrder(t, aggregates, upTo(7))
    await eventually('an empty outbox', async () => (await countOutbox('published_at is null')) === 0)
    await eventually('no lag', async () => /^consumer_pending\{consumer="recorder"\} 0$/m.test(await second.metrics()))
    t.match(await second.metrics(), /^consumer_oldest_seconds\{consumer="recorder"\} 0$/m)
    t.equal(await effects(aggregates), 35)
  },
)

t.test(
  'one worker handles the events at a time; another takes over when it loses its turn, and order holds',
  async (t) => {
    const aggregates = Array.from({ length: 3 }, newUuid)
    const workers = [startWorker(t), startWorker(t)]
    const active = async () =>
      (await Promise.all(workers.map((one) => one.metrics()))).map((text) =>
        Number(/^consumer_active\{consumer="recorder"\} (\d)$/m.exec(text)?.[1]),
      )
    await eventually('a turn', async () => (await active()).includes(1))
    t.strictSame((await active()).toSorted(), [0, 1])
    const versions = upTo(60)
    const writing = writeAll(aggregates, versions)
    for (const after of [30, 90]) {
      await handled(aggregates, after)
      const ended = await eventually('a connection that holds the turn', async () => {
        const { rowCount } = await admin.query(
          `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted and objsubid = 2
             and database = (select oid from pg_database where datname = current_database())`,
        )
        return rowCount
      })
      t.equal(ended, 1, 'one connection holds the turn')
    }
    await writing
    await handled(aggregates, 180)
    await isInOrder(t, aggregates, versions)
  },
)

t.test(
  'when the stream is lost, what it had is published again, and only what was not handled takes effect',
  async (t) => {
    const [known, lost] = [newUuid(), newUuid()]
    const first = startWorker(t)
    await writeAll([known], [1, 2, 3])
    await handled([known], 3)
    await first.stop()
    // Published, and lost before a consumer has seen it.
    const bus = openNatsBus({ url: server.url, log })
    const relay = startRelay({ db: worker, bus, log, react: async () => {} }, { pollMs: 20 })
    await writeAll([lost], [1, 2, 3])
    await eventually('published', async () => (await countOutbox('published_at is null')) === 0)
    await relay.stop()
    await bus.close()
    const nc = await connect({ servers: server.url })
    await (await nc.jetstreamManager()).streams.delete(STREAM)
    await nc.close()
    await writeAll([lost], [4])
    startWorker(t)
    await handled([lost], 4)
    await eventually('all published again', async () => (await countOutbox('published_at is null')) === 0)
    await isInOrder(t, [known], upTo(3))
    await isInOrder(t, [lost], upTo(4))
  },
)

t.test(
  'a promoted standby that lacks the latest effects gets them, and none of an event whose transaction it lacks',
  async (t) => {
    const [known, lost, gone] = [newUuid(), newUuid(), newUuid()]
    const position = async () => (await admin.query('select * from consumer_positions')).rows[0]
    const first = startWorker(t)
    await writeAll([known], [1, 2])
    await handled([known], 2)
    await eventually('a position', async () => position())
    const { history } = await position()
    await writeAll([lost], [1, 2])
    await writeAll([gone], [1])
    await handled([lost, gone], 3)
    await eventually('all marked', async () => (await countOutbox('published_at is null')) === 0)
    await first.stop()
    // The log of the primary ended here, before the last transactions.
    await admin.query('delete from effects where id = any ($1)', [[lost, gone]])
    await admin.query('delete from inbox where message_id in (select id from outbox where aggregate_id = any ($1))', [
      [lost, gone],
    ])
    await admin.query('update outbox set published_at = null, stream_seq = null where aggregate_id = $1', [lost])
    await admin.query('delete from outbox where aggregate_id = $1', [gone])
    await admin.query(
      `update consumer_positions set history = 'of the primary',
         stream_seq = (select max(stream_seq) from outbox where aggregate_id = $1)`,
      [known],
    )
    startWorker(t)
    await handled([lost], 2)
    await writeAll([lost], [3])
    await handled([lost], 3)
    await isInOrder(t, [known], [1, 2])
    await isInOrder(t, [lost], [1, 2, 3])
    t.equal(await effects([gone]), 0)
    t.equal((await position()).history, history)
  },
)

t.test('when an older copy of the stream is put back, nothing is lost', async (t) => {
  for (const what of ['the stream with its consumers', 'its messages alone']) {
    const [known, later] = [newUuid(), newUuid()]
    const isEmpty = async () => (await countOutbox('published_at is null')) === 0
    const first = startWorker(t)
    await writeAll([known], [1, 2])
    await handled([known], 2)
    await server.down()
    await server.keepCopy()
    await server.up()
    // No outbox has them any more, so that nothing fills their places again.
    const other = openNatsBus({ url: server.url, log })
    for (let i = 0; i < 10; i++) await publishAgain(other, sample('MediaDeleted'))
    await other.close()
    await writeAll([known, later], [3, 4, 5])
    await handled([known, later], 8)
    await first.stop()
    // Published, and lost before a consumer has seen it.
    const bus = openNatsBus({ url: server.url, log })
    const relay = startRelay({ db: worker, bus, log, react: async () => {} }, { pollMs: 20 })
    await writeAll([later], [6, 7])
    await eventually('published', isEmpty)
    await relay.stop()
    await bus.close()
    await server.putCopyBack((part) => what !== 'its messages alone' || part === 'msgs')
    // Waits until the process is back: it does not go before the others.
    await writeAll([later], [8])
    startWorker(t)
    await handled([later], 6)
    await eventually('all published again', isEmpty)
    await isInOrder(t, [known], upTo(5))
    await isInOrder(t, [later], [3, 4, 5, 6, 7, 8])
  }
})

t.test('a second installation on the same server is refused, and takes nothing of the first', async (t) => {
  const other = await testDatabase(t)
  await other.admin.query(EFFECTS)
  await other.admin.query(`update schema_migrations set applied_at = applied_at + interval '1 second'`)
  const nc = await connect({ servers: server.url })
  t.teardown(() => nc.close())
  const { streams } = await nc.jetstreamManager()
  // As an earlier version has left it.
  const made = openNatsBus({ url: server.url, log })
  await made.check()
  await made.close()
  await streams.update(STREAM, { ...(await streams.info(STREAM)).config, description: 'Of ours' })
  const [ours, theirs] = [newUuid(), newUuid()]
  const first = startWorker(t)
  await writeAll([ours], [1])
  await handled([ours], 1)
  t.match((await streams.info(STREAM)).config.description, /^Of ours, installation \d{4}-/)
  const bus = openNatsBus({ url: server.url, ackWaitMs: 1000, log })
  const metrics = openWorkerMetrics(other.worker)
  const consumers = startConsumers({ db: other.worker, url: other.url, bus, log, ...metrics }, [recordingConsumer])
  const relay = startRelay({ db: other.worker, bus, log, react: async () => {} }, { pollMs: 20 })
  await append(other.db, theirs, 1)
  await eventually('a refused publication', async () => {
    const { rows } = await other.admin.query(`select last_error from outbox where published_at is null`)
    return /belongs to another installation/.test(rows[0]?.last_error)
  })
  await t.rejects(bus.check(), /belongs to another installation/)
  await writeAll([ours], [2, 3])
  await handled([ours], 3)
  await relay.stop()
  await consumers.stop()
  await bus.close()
  await first.stop()
  t.strictSame((await other.admin.query('select from inbox')).rows, [])
  await isInOrder(t, [ours], [1, 2, 3])
  // A copy of the database, such as a restored backup, is the same installation.
  startWorker(t)
  await writeAll([ours], [4])
  await handled([ours], 4)
})

/** Consumers in a process of their own, perhaps of a version that does not know a type. */
function spawnWorker(t: Test, failpoint: string, unknown = '') {
  const program = new URL('../../support/dying-worker.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [program, server.url, url, failpoint, unknown], { stdio: 'ignore' })
  t.teardown(() => void child.kill('SIGKILL'))
  return child
}
async function dying(t: Test, failpoint: string): Promise<void> {
  t.strictSame(await once(spawnWorker(t, failpoint), 'exit'), [null, 'SIGKILL'], failpoint)
}

t.test(
  'a worker that dies between the effect and the acknowledgement leaves one effect, and order holds',
  async (t) => {
    const [well, sick] = [newUuid(), newUuid()]
    const bus = openNatsBus({ url: server.url, log })
    const relay = startRelay({ db: worker, bus, log, react: async () => {} }, { pollMs: 20 })
    const isEmpty = async () => (await countOutbox('published_at is null')) === 0
    // What an earlier test has left without an answer would be the batch behind which the worker dies.
    const tidy = startWorker(t)
    await eventually(
      'nothing left',
      async () => (await isEmpty()) && (await bus.lag(recordingConsumer.name))?.messages === 0,
    )
    await tidy.stop()
    await writeAll([well], [1, 2])
    await eventually('published', isEmpty)
    await dying(t, 'bus.handled')
    t.ok((await effects([well])) > 0, 'after the commit')
    await writeAll([sick], [1, POISON, POISON + 1])
    await writeAll([well], [3])
    await eventually('published', isEmpty)
    await dying(t, 'consumer.parked')
    await relay.stop()
    await bus.close()
    startWorker(t)
    const parked = async () =>
      (await admin.query('select reason from parked_events where aggregate_id = $1 order by position', [sick])).rows
    await handled([well], 3)
    await eventually('what waits behind', async () => (await parked()).length === 2)
    t.strictSame(await parked(), [{ reason: 'bad picture' }, { reason: null }])
    await isInOrder(t, [well], upTo(3))
    await isInOrder(t, [sick], [1])
  },
)

t.test(
  'in an upgrade, what the version before does not know has its effects once, whenever a worker dies',
  async (t) => {
    const [one, two] = [newUuid(), newUuid()]
    const old = spawnWorker(t, '', 'MediaPurged')
    const ended = once(old, 'exit')
    await eventually('the turn of the version before', async () => {
      const { rowCount } =
        await admin.query(`select from pg_locks where locktype = 'advisory' and granted and objsubid = 2
        and database = (select oid from pg_database where datname = current_database())`)
      return rowCount === 1
    })
    const parked = async () =>
      (
        await admin.query(
          `select reason ~ '^Not readable' as is_unread, replay_at is not null as is_due from parked_events
           where aggregate_id = any ($1) order by position`,
          [[one, two]],
        )
      ).rows
    // A worker of this version publishes, and waits for the turn.
    const waiting = startWorker(t)
    await writeAll([one, two], [1, 2])
    await eventually('all parked', async () => (await parked()).length === 4)
    t.strictSame(await parked(), Array(4).fill({ is_unread: true, is_due: false }))
    await waiting.stop()
    old.kill('SIGKILL')
    await ended
    await dying(t, 'consumer.readable')
    t.strictSame(await parked(), Array(4).fill({ is_unread: true, is_due: true }))
    await dying(t, 'consumer.replaying')
    t.equal(await effects([one, two]), 0)
    await dying(t, 'consumer.replayed')
    t.equal(await effects([one, two]), 1)
    for (const _ of [1, 2]) startWorker(t)
    await writeAll([one, two], [3])
    await handled([one, two], 6)
    await isInOrder(t, [one, two], upTo(3))
    t.strictSame(await parked(), [])
  },
)

t.test('metrics tell how much waits, and since when', async (t) => {
  const bus = openNatsBus({ url: server.url, log })
  t.teardown(() => bus.close())
  const stop = await bus.subscribe({ consumer: 'late', types: ['MediaPurged'] }, async () => {})
  await eventually('nothing to do', async () => (await bus.lag('late'))?.messages === 0)
  await stop()
  const relay = startRelay({ db: worker, bus, log, react: async () => {} }, { pollMs: 20 })
  await writeAll([newUuid()], [1, 2])
  await eventually('published', async () => (await countOutbox('published_at is null')) === 0)
  await relay.stop()
  await sleep(30)
  const lag = await bus.lag('late')
  t.equal(lag?.messages, 2)
  t.ok((lag?.oldestSeconds ?? 0) >= 0.03 && (lag?.oldestSeconds ?? 0) < 120, String(lag?.oldestSeconds))
})

t.test('a process whose connection to the database was cut in silence gives its turn up', async (t) => {
  const proxy = await tcpProxy(overTcp(url))
  t.teardown(() => proxy.close())
  const through = overTcp(url)
  through.port = String(proxy.port)
  const turns = openTurns({ url: through.href, log, patienceMs: 400 })
  t.teardown(() => turns.close())
  const turn = await turns.take('cut-off')
  proxy.cut()
  await turn?.lost
  t.ok(turn)
})
