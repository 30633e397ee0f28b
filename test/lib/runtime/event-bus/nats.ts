import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'nats'
import t from 'tap'
import { STREAM } from '../../../../lib/contract/events.ts'
import { openNatsBus } from '../../../../lib/runtime/event-bus/nats.ts'
import { eventBusContract, freshConsumer, relay, sample, soon } from '../../../support/event-bus-contract.ts'
import { quietLog } from '../../../support/quiet-log.ts'
import { startNats } from '../../../support/services/nats.ts'

const started = await startNats()
if (!started) {
  t.plan(0, 'nats-server is not installed')
  process.exit()
}
const server = started
t.teardown(() => server.stop())
const open = () => openNatsBus({ url: server.url, log: quietLog() })

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

eventBusContract(t, open)

t.test('a consumer that comes later gets what was published before', async (t) => {
  const bus = open()
  t.teardown(() => bus.close())
  const one = sample()
  await bus.publish(one.subject, one.event)
  let got = 0
  await bus.subscribe({ consumer: freshConsumer(), types: ['MediaUploaded'] }, async ({ event }) => {
    if (event.id === one.event.id) got++
  })
  await soon('the old event', () => got === 1)
})

t.test('a consumer goes on where it was after the program was restarted', async (t) => {
  const consumer = freshConsumer()
  const [first, second] = [sample(), sample()]
  const seen: string[] = []
  for (const one of [first, second]) {
    const bus = open()
    await bus.subscribe({ consumer, types: ['MediaUploaded'] }, async ({ event }) => void seen.push(event.id))
    await bus.publish(one.subject, one.event)
    await soon('the event', () => seen.includes(one.event.id))
    await bus.close()
  }
  t.equal(seen.filter((id) => id === first.event.id).length, 1)
})

t.test('what is not a CloudEvent becomes a dead letter, and does not stop the rest', async (t) => {
  const consumer = freshConsumer()
  const bus = open()
  t.teardown(() => bus.close())
  const nc = await connect({ servers: server.url })
  t.teardown(() => nc.close())
  const one = sample()
  await nc.jetstream().publish(one.subject, '{ not json')
  await nc.jetstream().publish(one.subject, '{"type":"MediaUploaded"}')
  let got = 0
  await bus.subscribe({ consumer, types: ['MediaUploaded'] }, async ({ event }) => {
    if (event.id === one.event.id) got++
  })
  await bus.publish(one.subject, one.event)
  await soon('the good event', () => got === 1)
  const jsm = await nc.jetstreamManager()
  const info = await jsm.streams.info('MEMORY_DLQ', { subjects_filter: `memory-dlq.${consumer}` })
  t.strictSame(info.state.subjects, { [`memory-dlq.${consumer}`]: 2 })
  t.strictSame(await bus.deadLetters(consumer), [])
})

t.test('publishes and consumes again after the server was restarted, and after it was killed', async (t) => {
  const bus = open()
  t.teardown(() => bus.close())
  const seen: string[] = []
  await bus.subscribe({ consumer: freshConsumer(), types: ['MediaUploaded'] }, async ({ event }) => {
    seen.push(event.id)
  })
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
  await bus.subscribe({ consumer: freshConsumer(), types: ['MediaUploaded'] }, async ({ event }) => {
    if (event.id === one.event.id) got++
  })
  await soon('the event', () => got === 1)
})

t.test('a program may start before its server', async (t) => {
  await server.down()
  const bus = open()
  t.teardown(() => bus.close())
  const one = sample()
  let got = 0
  const subscribed = bus.subscribe({ consumer: freshConsumer(), types: ['MediaUploaded'] }, async ({ event }) => {
    if (event.id === one.event.id) got++
  })
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
  await t.rejects(bus.check())
  await bus.close()
  const never = open()
  await never.close()
  await server.up()
})

t.test('a message whose handler kills the process every time becomes a dead letter', async (t) => {
  const consumer = freshConsumer()
  const one = sample()
  const bus = openNatsBus({ url: server.url, ackWaitMs: 200, log: quietLog() })
  t.teardown(() => bus.close())
  await bus.publish(one.subject, one.event)
  const program = new URL('../../../support/dying-consumer.ts', import.meta.url).pathname
  for (const attempt of [1, 2]) {
    const child = spawn(process.execPath, [program, server.url, consumer, one.event.id, '2'])
    const [, signal] = await once(child, 'exit')
    t.equal(signal, 'SIGKILL', `attempt ${attempt}`)
  }
  let called = 0
  await bus.subscribe({ consumer, types: ['MediaUploaded'], maxDeliver: 2 }, async ({ event }) => {
    if (event.id === one.event.id) called++
  })
  await soon('the dead letter', async () => (await bus.deadLetters(consumer)).some((e) => e.id === one.event.id))
  t.equal(called, 0)
})

t.test('makes the streams again when a server has lost everything', async (t) => {
  const bus = open()
  t.teardown(() => bus.close())
  const seen: string[] = []
  await bus.subscribe({ consumer: freshConsumer(), types: ['MediaUploaded'] }, async ({ event }) => {
    seen.push(event.id)
  })
  const nc = await connect({ servers: server.url })
  t.teardown(() => nc.close())
  await (await nc.jetstreamManager()).streams.delete(STREAM)
  const one = sample()
  await relay(bus, one)
  await soon('the event', () => seen.includes(one.event.id))
})

t.test('a handler may take longer than the time to acknowledge', async (t) => {
  const ackWaitMs = 1000
  const bus = openNatsBus({ url: server.url, ackWaitMs, log: quietLog() })
  t.teardown(() => bus.close())
  const one = sample()
  const attempts: number[] = []
  let finished = 0
  const pauses = monitorEventLoopDelay()
  pauses.enable()
  for (const _ of [1, 2]) {
    // Two of them, so that the message could go to the other one.
    await bus.subscribe({ consumer: 'slow', types: ['MediaUploaded'] }, async ({ event, attempt }) => {
      if (event.id !== one.event.id) return
      attempts.push(attempt)
      await sleep(2.5 * ackWaitMs)
      finished++
    })
  }
  await bus.publish(one.subject, one.event)
  await soon('the handler', () => finished > 0)
  await sleep(500)
  // Who is frozen for so long cannot say that it lives: the other one rightly gets the message.
  if (pauses.max / 1e6 > ackWaitMs / 2) t.comment('this process was not let run; nothing can be said')
  else t.strictSame(attempts, [1])
})
