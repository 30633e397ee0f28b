import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { AckPolicy, connect, createInbox, DeliverPolicy, type JetStreamManager, nanos } from 'nats'
import t from 'tap'
import { STREAM } from '../../../../lib/contract/events.ts'
import type { EventBus } from '../../../../lib/runtime/event-bus/event-bus.ts'
import { openNatsBus } from '../../../../lib/runtime/event-bus/nats.ts'
import { eraseMessages } from '../../../../lib/runtime/event-bus/nats-erasure.ts'
import { claimStream, ensureStream } from '../../../../lib/runtime/event-bus/nats-streams.ts'
import { findInFolder } from '../../../support/erasure.ts'
import {
  each,
  eventBusContract,
  freshConsumer,
  relay,
  type Sample,
  sample,
  soon,
} from '../../../support/event-bus-contract.ts'
import { quietLog } from '../../../support/quiet-log.ts'
import { natsOf } from '../../../support/services/nats.ts'
import { swallowingProxy } from '../../../support/swallowing-proxy.ts'
import { tcpProxy } from '../../../support/tcp-proxy.ts'

const server = await natsOf(t)
const publish = (bus: EventBus) => {
  const { subject, event } = sample()
  return bus.publish(subject, event)
}
const openWith = (ackWaitMs: number) => openNatsBus({ url: server.url, ackWaitMs, log: quietLog() })
/** A process that is not let run for as long as its ack wait gets a message twice: where deliveries are counted, it is long. */
const open = () => openWith(30_000)
/** Where messages that were on their way when the server went come again. */
const openHasty = () => openWith(300)

t.test('many programs that start at once make the same streams', async (t) => {
  const buses = Array.from({ length: 6 }, open)
  t.teardown(() => Promise.all(buses.map((bus) => bus.close())))
  await Promise.all(buses.map((bus) => bus.check()))
  await Promise.all(buses.map((bus) => bus.close()))
  const nc = await connect({ servers: server.url })
  t.teardown(() => nc.close())
  const jsm = await nc.jetstreamManager()
  const { config } = await jsm.streams.info(STREAM)
  t.match(config, { subjects: ['memory.v1.>'], storage: 'file', duplicate_window: 600e9, max_age: 7 * 86400e9 })
  await jsm.streams.update(STREAM, { ...config, max_age: 86400e9, max_msgs: 1_000_000 })
  const bus = open()
  t.teardown(() => bus.close())
  await bus.check()
  const repaired = (await jsm.streams.info(STREAM)).config
  t.match(repaired, { max_age: 7 * 86400e9, max_msgs: 1_000_000 }, 'repairs what it needs, keeps what is not its own')
  await bus.close()
  await nc.close()
})

t.test('again and again where there are none', async (t) => {
  const nc = await connect({ servers: server.url })
  t.teardown(() => nc.close())
  const { streams } = await nc.jetstreamManager()
  for (let round = 0; round < 15; round++) {
    await streams.delete(STREAM)
    const buses = Array.from({ length: 8 }, open)
    t.teardown(() => Promise.all(buses.map((bus) => bus.close())))
    await Promise.all(buses.map((bus) => bus.check()))
    await Promise.all(buses.map((bus) => bus.close()))
  }
  t.equal((await streams.info(STREAM)).config.name, STREAM)
})

t.test('what was claimed before the stream was made anew has to be claimed again', async (t) => {
  const bus = open()
  t.teardown(() => bus.close())
  bus.onStoreReady(async () => true)
  const before = bus.era()
  const { subject, event } = sample()
  await bus.check()
  await t.rejects(bus.publish(subject, event, before), { message: /may have to be published first/ })
  await bus.publish(subject, event, bus.era())
})

t.test(
  'a stream that goes back while the server is there is looked at again, before anything is published',
  async (t) => {
    const bus = open()
    t.teardown(() => bus.close())
    let looks = 0
    bus.onStoreReady(async () => {
      looks += 1
      return false
    })
    const nc = await connect({ servers: server.url })
    t.teardown(() => nc.close())
    const { streams } = await nc.jetstreamManager()
    for (let i = 0; i < 3; i++) await publish(bus)
    t.equal(looks, 1)
    const { config } = await streams.info(STREAM)
    await streams.delete(STREAM)
    await streams.add(config)
    await t.rejects(publish(bus), { message: /has gone back/ })
    t.equal(await publish(bus), 2)
    t.equal(looks, 2)
  },
)

t.test('an installation has the stream once it is claimed, unless another one has claimed it meanwhile', async (t) => {
  const nc = await connect({ servers: server.url })
  t.teardown(() => nc.close())
  const jsm = await nc.jetstreamManager()
  const { streams } = jsm
  const [ours, theirs] = ['2026-03-01T08:00:00.000001Z', '2026-03-01T08:00:00.000002Z']
  const describe = async (description: string) =>
    streams.update(STREAM, { ...(await streams.info(STREAM)).config, description })
  const describedAs = async () => (await streams.info(STREAM)).config.description
  await ensureStream(jsm, 1)
  await describe('Events of installation prod')
  t.equal((await ensureStream(jsm, 1)).owner, undefined, 'words of an administrator name no owner')
  await claimStream(jsm, ours)
  t.equal((await ensureStream(jsm, 1)).owner, ours)
  await claimStream(jsm, ours)
  t.equal(await describedAs(), `Events of installation prod, installation ${ours}`)
  await t.rejects(claimStream(jsm, theirs), { message: /belongs to another installation/ })
  t.equal((await ensureStream(jsm, 1)).owner, ours, 'it is not taken from its owner')

  // The other one has looked before, and writes after this one.
  await describe('')
  const update: typeof streams.update = async (name, config) => {
    const updated = await streams.update(name, config)
    await describe(`installation ${theirs}`)
    return updated
  }
  const overtaken = { streams: { info: () => streams.info(STREAM), update } } as unknown as JetStreamManager
  await t.rejects(claimStream(overtaken, ours), { message: /belongs to another installation/ })
  await describe('')
})

eventBusContract(t, open)

t.test('a consumer that comes later gets what was published before', async (t) => {
  const bus = open()
  t.teardown(() => bus.close())
  const one = sample()
  await bus.publish(one.subject, one.event)
  let got = 0
  await bus.subscribe(
    { consumer: freshConsumer(), types: ['MediaUploaded'] },
    each(({ event }) => {
      if (event?.id === one.event.id) got++
    }),
  )
  await soon('the old event', () => got === 1)
})

t.test('a consumer goes on where it was after the program was restarted', async (t) => {
  const consumer = freshConsumer()
  const [first, second] = [sample(), sample()]
  const seen: string[] = []
  for (const one of [first, second]) {
    const bus = open()
    await bus.subscribe(
      { consumer, types: ['MediaUploaded'] },
      each(({ event }) => void seen.push(event?.id ?? '')),
    )
    await bus.publish(one.subject, one.event)
    await soon('the event', () => seen.includes(one.event.id))
    await bus.close()
  }
  t.equal(seen.filter((id) => id === first.event.id).length, 1)
})

t.test(
  'a consumer that is put back gets what is behind the position, or all of a stream that does not reach it',
  async (t) => {
    const bus = open()
    t.teardown(() => bus.close())
    const consumer = freshConsumer()
    const events = [sample('MediaDeleted'), sample('MediaDeleted'), sample('MediaDeleted')]
    const at: number[] = []
    for (const one of events) at.push(Number(await bus.publish(one.subject, one.event)))
    const read = async () => {
      const seen: (string | undefined)[] = []
      const stop = await bus.subscribe(
        { consumer, types: ['MediaDeleted'] },
        each(({ event }) => void seen.push(event?.id)),
      )
      await soon('all', async () => (await bus.lag(consumer))?.messages === 0)
      await stop()
      return seen.filter((id) => ids.includes(id ?? ''))
    }
    const ids = events.map(({ event }) => event.id)
    const [first, second, third] = ids
    t.equal(await bus.handledTo(consumer), 0)
    t.strictSame(await read(), [first, second, third])
    await soon('the position', async () => (await bus.handledTo(consumer)) === at[2])
    t.strictSame(await read(), [])
    t.equal(await bus.rewind(consumer, at[0] ?? 0), at[2], 'the end of the stream')
    t.strictSame(await read(), [second, third])
    await bus.rewind(consumer, at[2] ?? 0)
    t.strictSame(await read(), [])
    await bus.rewind(consumer, (at[2] ?? 0) + 100)
    t.strictSame(await read(), [first, second, third])
  },
)

t.test('a subscriber hears of positions that it has passed, also of what it skips', async (t) => {
  const bus = open()
  t.teardown(() => bus.close())
  const passed: number[] = []
  await bus.subscribe(
    { consumer: freshConsumer(), types: ['MediaDeleted'], passed: async (seq) => void passed.push(seq) },
    async () => {},
  )
  const skipped = sample('MediaTranscoded')
  const seq = Number(await bus.publish(skipped.subject, skipped.event))
  await soon('the position of what it skips', () => passed.at(-1) === seq)
  t.strictSame(
    passed,
    passed.toSorted((a, b) => a - b),
  )
})

t.test('what is not a CloudEvent is delivered as it is', async (t) => {
  const bus = open()
  t.teardown(() => bus.close())
  const nc = await connect({ servers: server.url })
  t.teardown(() => nc.close())
  const one = sample()
  const strange = ['{ not json', '{"type":"MediaUploaded"}']
  for (const text of strange) await nc.jetstream().publish(one.subject, text)
  await bus.publish(one.subject, one.event)
  const seen: unknown[] = []
  await bus.subscribe(
    { consumer: freshConsumer(), types: ['MediaUploaded'] },
    each(({ subject, event, text }) => {
      if (subject === one.subject) seen.push(event?.id ?? text())
    }),
  )
  await soon('the good event', () => seen.includes(one.event.id))
  t.strictSame(seen, [...strange, one.event.id])
})

t.test('a consumer of an earlier version, which had a filter, loses it', async (t) => {
  const bus = open()
  t.teardown(() => bus.close())
  const nc = await connect({ servers: server.url })
  t.teardown(() => nc.close())
  const { consumers } = await nc.jetstreamManager()
  const consumer = freshConsumer()
  await bus.check()
  await consumers.add(STREAM, {
    ...{ durable_name: consumer, ack_policy: AckPolicy.Explicit, deliver_policy: DeliverPolicy.All },
    filter_subject: 'memory.v1.*.*.*.MediaPurged',
  })
  const [one, two] = [sample('MediaUploaded'), sample('MediaTranscoded')]
  const seen: string[] = []
  await bus.subscribe(
    { consumer, types: ['MediaUploaded', 'MediaTranscoded'] },
    each(({ event }) => void seen.push(event?.id ?? '')),
  )
  for (const { subject, event } of [one, two]) await bus.publish(subject, event)
  await soon('both', () => seen.includes(one.event.id) && seen.includes(two.event.id))
  await soon('no lag', async () => (await bus.lag(consumer))?.messages === 0)
  t.strictSame(await bus.lag(consumer), { messages: 0, oldestSeconds: 0 })
  t.notOk((await consumers.info(STREAM, consumer)).config.filter_subject)
})

t.test('publishes and consumes again after the server was restarted, and after it was killed', async (t) => {
  const bus = openHasty()
  t.teardown(() => bus.close())
  const seen: string[] = []
  await bus.subscribe(
    { consumer: freshConsumer(), types: ['MediaUploaded'] },
    each(({ event }) => void seen.push(event?.id ?? '')),
  )
  for (const kill of [false, true]) {
    const [before, after] = [sample(), sample()]
    await bus.publish(before.subject, before.event)
    await soon('the event before', () => seen.includes(before.event.id))
    await server.restart({ kill, downMs: 300 })
    await relay(bus, after)
    await soon('the event after', () => seen.includes(after.event.id))
  }
})

t.test('an event stored before the server was killed is still there', async (t) => {
  const bus = open()
  t.teardown(() => bus.close())
  const one = sample()
  await bus.publish(one.subject, one.event)
  await server.restart({ kill: true })
  let got = 0
  await bus.subscribe(
    { consumer: freshConsumer(), types: ['MediaUploaded'] },
    each(({ event }) => {
      if (event?.id === one.event.id) got++
    }),
  )
  await soon('the event', () => got === 1)
})

t.test('a program may start before its server', async (t) => {
  await server.down()
  const bus = open()
  t.teardown(() => bus.close())
  const one = sample()
  let got = 0
  const subscribed = bus.subscribe(
    { consumer: freshConsumer(), types: ['MediaUploaded'] },
    each(({ event }) => {
      if (event?.id === one.event.id) got++
    }),
  )
  await sleep(200)
  await server.up()
  await subscribed
  await relay(bus, one)
  await soon('the event', () => got === 1)
})

t.test('a check fails while the server is away, and a program can be closed meanwhile', async (t) => {
  const bus = open()
  t.teardown(() => bus.close())
  await bus.check()
  await server.down()
  await soon('the loss', () =>
    bus.check().then(
      () => false,
      () => true,
    ),
  )
  t.notOk(bus.isAway(), 'it may be back soon')
  // The time may pass before the first call begins.
  await t.rejects(publish(bus), { message: /did not answer in time|has been away/ })
  await t.rejects(publish(bus), { message: /has been away/ }, 'no other call waits as long')
  t.ok(bus.isAway())
  await bus.close()
  const never = open()
  await never.close()
  await server.up()
})

t.test('publishes and consumes again after the server has refused its login for a while', async (t) => {
  const url = new URL(server.url)
  Object.assign(url, { username: 'app', password: 'good' })
  const bus = openNatsBus({ url: url.href, ackWaitMs: 300, log: quietLog() })
  t.teardown(() => bus.close())
  const [before, after] = [sample(), sample()]
  const seen: string[] = []
  const arrived = ({ event }: Sample) => soon('the event', () => seen.includes(event.id))
  const { promise: finished, resolve: finish } = Promise.withResolvers<void>()
  await bus.subscribe(
    { consumer: freshConsumer(), types: ['MediaUploaded'] },
    each(async ({ event }) => {
      seen.push(event?.id ?? '')
      // A message that is under way when the connection ends.
      if (event?.id === before.event.id) await finished
    }),
  )
  await bus.publish(before.subject, before.event)
  await arrived(before)
  await server.down()
  const refused = await server.refused()
  await server.up({ user: 'app', password: 'other' })
  await soon('refused logins', async () => (await server.refused()) >= refused + 4)
  await t.rejects(bus.check())
  await server.down()
  await server.up()
  finish()
  await relay(bus, after)
  await arrived(after)
  await bus.check()
})

t.test('a message whose handler killed the process comes again, before newer ones of another process', async (t) => {
  const consumer = freshConsumer()
  const [bad, newer] = [sample(), sample()]
  const ackWaitMs = 3000
  const bus = openWith(ackWaitMs)
  t.teardown(() => bus.close())
  await bus.publish(bad.subject, bad.event)
  const program = new URL('../../../support/dying-consumer.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [program, server.url, String(ackWaitMs), consumer, bad.event.id])
  const [, signal] = await once(child, 'exit')
  t.equal(signal, 'SIGKILL')
  await bus.publish(newer.subject, newer.event)
  const seen: [string, number][] = []
  const ids = [bad.event.id, newer.event.id]
  await bus.subscribe(
    { consumer, types: ['MediaUploaded'] },
    each(({ event, attempt }) => {
      if (event && ids.includes(event.id)) seen.push([event.id, attempt])
    }),
  )
  await soon('both', () => seen.length === 2)
  t.strictSame(
    seen.map(([id]) => id),
    ids,
  )
  // The newer one was published as the process ended: the server may have sent it there, which counts as a delivery.
  t.ok((seen[0]?.[1] ?? 0) >= 2, 'the first is delivered again')
})

t.test('makes the streams again when a server has lost everything', async (t) => {
  const bus = open()
  t.teardown(() => bus.close())
  const seen: string[] = []
  await bus.subscribe(
    { consumer: freshConsumer(), types: ['MediaUploaded'] },
    each(({ event }) => void seen.push(event?.id ?? '')),
  )
  const nc = await connect({ servers: server.url })
  t.teardown(() => nc.close())
  await (await nc.jetstreamManager()).streams.delete(STREAM)
  const one = sample()
  await relay(bus, one)
  await soon('the event', () => seen.includes(one.event.id))
})

t.test('a handler may take longer than the time to acknowledge', async (t) => {
  const ackWaitMs = 1000
  const bus = openWith(ackWaitMs)
  t.teardown(() => bus.close())
  const samples = [sample(), sample()]
  const attempts: number[] = []
  const pauses = monitorEventLoopDelay()
  pauses.enable()
  await bus.subscribe({ consumer: freshConsumer(), types: ['MediaUploaded'], batch: 2 }, async (batch) => {
    const mine = batch.filter(({ event }) => samples.some((s) => s.event.id === event?.id))
    for (const { attempt } of mine) attempts.push(attempt)
    if (mine.length > 0) await sleep(1.6 * ackWaitMs)
  })
  for (const { subject, event } of samples) await bus.publish(subject, event)
  await soon('both', () => attempts.length >= 2)
  await sleep(2.2 * ackWaitMs)
  // Who is frozen for so long cannot say that it lives: the server rightly delivers again.
  if (pauses.max / 1e6 > ackWaitMs / 2) t.comment('this process was not let run; nothing can be said')
  else t.strictSame(attempts, [1, 1])
})

t.test('what a broken connection has swallowed comes before what is newer', async (t) => {
  const proxy = await swallowingProxy(new URL(server.url))
  t.teardown(() => proxy.close())
  const bus = openNatsBus({ url: `nats://127.0.0.1:${proxy.port}`, ackWaitMs: 2000, log: quietLog() })
  const direct = open()
  t.teardown(() => Promise.all([bus.close(), direct.close()]))
  const seen: string[] = []
  const consumer = freshConsumer()
  await bus.subscribe(
    { consumer, types: ['MediaTranscoded'] },
    each(({ event }) => void seen.push(event?.id ?? '')),
  )
  const samples = [1, 2, 3].map(() => sample('MediaTranscoded'))
  const [before, swallowed, newer] = samples as [Sample, Sample, Sample]
  await relay(direct, before)
  await soon('the first', () => seen.includes(before.event.id))
  seen.length = 0
  proxy.swallow()
  await relay(direct, swallowed)
  await soon('it was sent', async () => ((await direct.lag(consumer))?.messages ?? 0) > 0 && proxy.swallowed() > 0)
  proxy.breakConnections()
  await soon('the end of the old connection', () => proxy.connections() === 0)
  await soon('the next connection', () => proxy.connections() === 1)
  await relay(direct, newer)
  await soon('both', () => seen.length >= 2)
  t.strictSame(seen, [swallowed.event.id, newer.event.id])
})

t.test('a request that a frozen process has left at the server cannot make newer messages overtake', async (t) => {
  const bus = openWith(3000)
  t.teardown(() => bus.close())
  const consumer = freshConsumer()
  const only = { consumer, types: ['MediaDeleted'] }
  const stop = await bus.subscribe(only, async () => {})
  await soon('what earlier tests have left', async () => (await bus.lag(consumer))?.messages === 0)
  await stop()
  const nc = await connect({ servers: server.url })
  t.teardown(() => nc.close())
  const reply = createInbox()
  nc.subscribe(reply)
  const request = JSON.stringify({ batch: 1, expires: nanos(2000) })
  nc.publish(`$JS.API.CONSUMER.MSG.NEXT.${STREAM}.${consumer}`, request, { reply })
  await soon('its request', async () => {
    const { num_waiting } = await (await nc.jetstreamManager()).consumers.info(STREAM, consumer)
    return num_waiting === 1
  })
  const [first, second] = [sample('MediaDeleted'), sample('MediaDeleted')]
  const seen: string[] = []
  const subscribed = bus.subscribe(
    only,
    each(({ event }) => void seen.push(event?.id ?? '')),
  )
  await subscribed
  // Time to ask for messages too early.
  await sleep(300)
  for (const one of [first, second]) await relay(bus, one)
  await soon('both', () => seen.length >= 2)
  t.strictSame(seen, [first.event.id, second.event.id])
})

t.test('erases stored messages, also from the disk, and no others', async (t) => {
  const bus = open()
  t.teardown(() => bus.close())
  const [theirs, others] = [1, 2].map((n) =>
    Array.from({ length: 2 }, () => sample('MediaUploaded', n === 1 ? 'canary-e7' : 'other')),
  ) as [Sample[], Sample[]]
  for (const one of [theirs[0], others[0], theirs[1], others[1]] as Sample[]) await relay(bus, one)
  const subjects = async () => (await server.stored()).map(({ subject }) => subject)
  const stored = await subjects()
  const [named] = theirs as [Sample, Sample]
  t.ok(theirs.every(({ subject }) => stored.includes(subject)))
  const isTheirs = ({ subject, text }: { subject: string; text: string }) =>
    text.includes('canary-e7') && theirs.some((one) => one.subject === subject)
  t.equal(await bus.erase(isTheirs), 2)
  const gone = theirs.map(({ subject }) => subject)
  t.strictSame(
    await subjects(),
    stored.filter((subject) => !gone.includes(subject)),
  )
  t.equal(await bus.erase(isTheirs), 0)
  await bus.publish(named.subject, named.event)
  t.notOk((await subjects()).includes(named.subject), 'its id is still known: the same event is dropped')
  t.strictSame(await findInFolder(server.data, ['canary-e7']), [])
})

t.test(
  'an erasure that the server keeps waiting fails, and counts as done only at the end of the stream',
  async (t) => {
    const proxy = await tcpProxy(new URL(server.url))
    const nc = await connect({ servers: `nats://127.0.0.1:${proxy.port}` })
    t.teardown(async () => {
      await nc.close()
      await proxy.close()
    })
    const [timeout, { signal: lost }] = [30_000, new AbortController()]
    const wire = { js: nc.jetstream({ timeout }), jsm: await nc.jetstreamManager({ timeout }), lost }
    const { subject } = sample()
    // More than one request asks for.
    await Promise.all(Array.from({ length: 600 }, (_, n) => wire.js.publish(subject, `canary-f8 ${n}`)))
    let seen = 0
    const holding = () => {
      seen += 1
      if (seen === 500) proxy.hold(7000)
      return false
    }
    await t.rejects(eraseMessages(wire, holding, { waitMs: 4000 }), /not read to its end/)
    t.ok(seen < 600)
    t.equal(await eraseMessages(wire, ({ text }) => text.startsWith('canary-f8'), { waitMs: 4000 }), 600)
  },
)
