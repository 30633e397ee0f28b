import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { type CloudEvent, type EventType, subjectOf, toCloudEvent } from '../../lib/contract/events.ts'
import { newUuid } from '../../lib/contract/ids.ts'
import { type Delivery, type EventBus, PoisonMessage } from '../../lib/runtime/event-bus/event-bus.ts'
import { eventually } from './eventually.ts'

export interface Sample {
  subject: string
  event: CloudEvent
}

type SampleType = Extract<EventType, `Media${string}` | 'LivePhotoPaired'>

export function sample(type: SampleType = 'MediaUploaded', filename = 'clip.mp4'): Sample {
  const [org, aggregate] = [newUuid(), newUuid()]
  const ofMedia = { media_id: aggregate, org_id: org }
  const payloads = {
    MediaUploaded: { ...ofMedia, uploader_id: newUuid(), filename, mime_type: 'video/mp4', file_size: 1 },
    MediaTranscoded: { media_id: aggregate, variants: { hls_master_url: null } },
    LivePhotoPaired: { media_id: aggregate, asset_identifier: null, paired_media_id: newUuid() },
    MediaDeleted: { ...ofMedia, uploader_id: newUuid(), deleted_at: '2026-01-02T03:04:05.678Z' },
    MediaPurged: ofMedia,
  }
  const event = toCloudEvent({
    id: newUuid(),
    orgId: org,
    area: 'media',
    aggregateId: aggregate,
    aggregateVersion: 1,
    type,
    payload: payloads[type],
    createdAt: new Date(),
    traceparent: null,
  })
  return { subject: subjectOf({ area: 'media', org, aggregate, type }), event }
}

/** As the relay does it: again until the bus has taken it. */
export async function relay(bus: EventBus, { subject, event }: Sample): Promise<void> {
  for (const end = Date.now() + 60_000; ; await sleep(20)) {
    try {
      return await bus.publish(subject, event)
    } catch (error) {
      if (Date.now() > end) throw error
    }
  }
}

/** Patient: a server may be starting, on a machine that is busy. */
export const soon = (what: string, look: () => boolean | Promise<boolean>) => eventually(what, look)

const BACKOFF = [30, 60]
let consumers = 0
/** Names of their own, so that tests on one server do not meet. */
export const freshConsumer = () => `test-${process.pid}-${consumers++}`

/** What every EventBus must do. `open` gives a new bus; two of them see the same events where `shared`. */
export function eventBusContract(t: Test, open: () => EventBus): void {
  async function listening(t: Test, types: EventType[], handle: (d: Delivery) => Promise<void>, maxDeliver = 3) {
    const bus = open()
    t.teardown(() => bus.close())
    const consumer = freshConsumer()
    const stop = await bus.subscribe({ consumer, types, maxDeliver, backoffMs: BACKOFF }, handle)
    return { bus, consumer, stop }
  }
  const only = (s: Sample, handle: (d: Delivery) => Promise<void>) => async (d: Delivery) => {
    if (d.event.id === s.event.id) await handle(d)
  }

  t.test('delivers an event whole, once, with attempt 1', async (t) => {
    const one = sample()
    const seen: Delivery[] = []
    const { bus } = await listening(
      t,
      ['MediaUploaded'],
      only(one, async (d) => void seen.push(d)),
    )
    await relay(bus, one)
    await soon('the delivery', () => seen.length > 0)
    await sleep(100)
    t.strictSame(seen, [{ event: one.event, attempt: 1 }])
  })

  t.test('skips types that were not asked for', async (t) => {
    const other = sample('MediaTranscoded')
    const wanted = sample('MediaUploaded')
    const seen: string[] = []
    const { bus } = await listening(t, ['MediaUploaded'], async (d) => void seen.push(d.event.id))
    await relay(bus, other)
    await relay(bus, wanted)
    await soon('the wanted one', () => seen.includes(wanted.event.id))
    t.notOk(seen.includes(other.event.id))
  })

  t.test('takes several types with one consumer', async (t) => {
    const samples = [sample('MediaTranscoded'), sample('MediaUploaded')]
    const seen: string[] = []
    const types: EventType[] = ['MediaUploaded', 'MediaTranscoded']
    const { bus } = await listening(t, types, async (d) => void seen.push(d.event.id))
    for (const s of samples) await relay(bus, s)
    await soon('both', () => samples.every((s) => seen.includes(s.event.id)))
  })

  t.test('drops the same id published again', async (t) => {
    const one = sample()
    let count = 0
    const { bus } = await listening(
      t,
      ['MediaUploaded'],
      only(one, async () => void count++),
    )
    await Promise.all([relay(bus, one), relay(bus, one)])
    await relay(bus, one)
    await soon('the delivery', () => count > 0)
    await sleep(150)
    t.equal(count, 1)
  })

  t.test('gives every consumer its own copy of every event', async (t) => {
    const one = sample()
    const bus = open()
    t.teardown(() => bus.close())
    const seen: string[] = []
    for (const consumer of [freshConsumer(), freshConsumer()]) {
      const handle = only(one, async ({ event }) => {
        seen.push(event.source)
        event.source = 'changed by a handler'
      })
      await bus.subscribe({ consumer, types: ['MediaUploaded'] }, handle)
    }
    await relay(bus, one)
    await soon('both', () => seen.length === 2)
    t.strictSame(seen, ['/keepsake/api', '/keepsake/api'])
  })

  t.test('shares the work among subscribers with the same name', async (t) => {
    const samples = Array.from({ length: 12 }, () => sample())
    const ids = new Set(samples.map((s) => s.event.id))
    const bus = open()
    t.teardown(() => bus.close())
    const consumer = freshConsumer()
    const seen: string[] = []
    for (let i = 0; i < 2; i++) {
      await bus.subscribe({ consumer, types: ['MediaUploaded'] }, async ({ event }) => {
        if (ids.has(event.id)) seen.push(event.id)
      })
    }
    await Promise.all(samples.map((s) => relay(bus, s)))
    await soon('all', () => seen.length >= samples.length)
    t.strictSame([...seen].sort(), [...ids].sort())
  })

  t.test('delivers again, with a growing attempt number, until the handler returns', async (t) => {
    const one = sample()
    const attempts: number[] = []
    const handle = only(one, async ({ attempt }) => {
      attempts.push(attempt)
      if (attempt < 3) throw new Error('not yet')
    })
    const { bus, consumer } = await listening(t, ['MediaUploaded'], handle)
    await relay(bus, one)
    await soon('the third attempt', () => attempts.length >= 3)
    await sleep(150)
    t.strictSame(attempts, [1, 2, 3])
    t.strictSame(await bus.deadLetters(consumer), [])
  })

  t.test('does not call a consumer again because another one failed', async (t) => {
    const one = sample()
    const bus = open()
    t.teardown(() => bus.close())
    const calls = { good: 0, bad: 0 }
    const options = { types: ['MediaUploaded'], backoffMs: BACKOFF }
    await bus.subscribe(
      { ...options, consumer: freshConsumer() },
      only(one, async () => void calls.good++),
    )
    const failsOnce = only(one, async () => {
      calls.bad++
      if (calls.bad === 1) throw new Error('not yet')
    })
    await bus.subscribe({ ...options, consumer: freshConsumer() }, failsOnce)
    await relay(bus, one)
    await soon('the second attempt', () => calls.bad === 2)
    t.strictSame(calls, { good: 1, bad: 2 })
  })

  t.test('puts an event aside after the last attempt, and goes on with the next', async (t) => {
    const bad = sample()
    const good = sample()
    let tries = 0
    let done = false
    const handle = async ({ event }: Delivery) => {
      if (event.id === good.event.id) done = true
      if (event.id !== bad.event.id) return
      tries++
      throw new Error('never')
    }
    const { bus, consumer } = await listening(t, ['MediaUploaded'], handle)
    await relay(bus, bad)
    await relay(bus, good)
    await soon('the dead letter', async () => (await bus.deadLetters(consumer)).length > 0)
    await soon('the good one', () => done)
    await sleep(150)
    t.equal(tries, 3)
    t.strictSame(await bus.deadLetters(consumer), [bad.event])
    t.strictSame(await bus.deadLetters(freshConsumer()), [], 'dead letters belong to one consumer')
  })

  t.test('puts a poison message aside at once', async (t) => {
    const bad = sample()
    let tries = 0
    const handle = only(bad, async () => {
      tries++
      throw new PoisonMessage('no such version')
    })
    const { bus, consumer } = await listening(t, ['MediaUploaded'], handle)
    await relay(bus, bad)
    await soon('the dead letter', async () => (await bus.deadLetters(consumer)).length > 0)
    await sleep(150)
    t.equal(tries, 1)
    t.strictSame(await bus.deadLetters(consumer), [bad.event])
  })

  t.test('keeps dead letters in order', async (t) => {
    const bad = [sample(), sample(), sample()]
    const ids = bad.map((s) => s.event.id)
    const handle = async ({ event }: Delivery) => {
      if (ids.includes(event.id)) throw new PoisonMessage('bad')
    }
    const { bus, consumer } = await listening(t, ['MediaUploaded'], handle)
    for (const s of bad) await relay(bus, s)
    await soon('all of them', async () => (await bus.deadLetters(consumer)).length === 3)
    t.strictSame(
      (await bus.deadLetters(consumer)).map((e) => e.id),
      ids,
    )
  })

  t.test('stopping a subscription and closing wait for the handler that is running', async (t) => {
    for (const how of ['stop', 'close'] as const) {
      const one = sample()
      let state: 'idle' | 'running' | 'finished' = 'idle'
      const release = Promise.withResolvers<void>()
      const handle = only(one, async () => {
        state = 'running'
        await release.promise
        state = 'finished'
      })
      const { bus, stop } = await listening(t, ['MediaUploaded'], handle)
      const published = relay(bus, one)
      await soon('the handler', () => state === 'running')
      const stopped = how === 'stop' ? stop() : bus.close()
      setTimeout(release.resolve, 200)
      await stopped
      t.equal(state, 'finished', how)
      await published
    }
  })

  t.test('delivers nothing more to a subscription that was stopped', async (t) => {
    const before = sample()
    const after = sample()
    const seen: string[] = []
    const { bus, stop } = await listening(t, ['MediaUploaded'], async (d) => void seen.push(d.event.id))
    await relay(bus, before)
    await soon('the first', () => seen.includes(before.event.id))
    await stop()
    await relay(bus, after)
    await sleep(200)
    t.notOk(seen.includes(after.event.id))
  })

  t.test('refuses subjects and consumer names that are none, and everything once closed', async (t) => {
    const bus = open()
    for (const subject of ['', 'memory.*', 'memory.>', 'a..b', 'a b'])
      await t.rejects(bus.publish(subject, sample().event), TypeError, subject)
    for (const consumer of ['', 'a.b', 'a b', '>'])
      await t.rejects(async () => bus.subscribe({ consumer, types: ['MediaUploaded'] }, async () => {}), TypeError)
    await t.resolves(bus.check())
    await bus.close()
    const { subject, event } = sample()
    await t.rejects(bus.publish(subject, event), /closed/)
    await t.rejects(bus.check(), /closed/)
    await t.resolves(bus.close(), 'closing twice is harmless')
  })
}
