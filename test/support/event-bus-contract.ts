import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { type CloudEvent, type EventType, subjectOf, toCloudEvent } from '../../lib/contract/events.ts'
import { newUuid } from '../../lib/contract/ids.ts'
import type { Delivery, EventBus, HandleBatch } from '../../lib/runtime/event-bus/event-bus.ts'
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

/** An event of a type that only a later version knows. */
export function laterSample(): Sample {
  const { subject, event } = sample()
  return {
    subject: subject.replace(/[^.]+$/, 'MediaFramed'),
    event: { ...event, type: 'MediaFramed', data: { frame: 'gold' } },
  }
}

/** As the relay does it: again until the bus has taken it. */
export async function relay(bus: EventBus, { subject, event }: Sample): Promise<void> {
  for (const end = Date.now() + 60_000; ; await sleep(20)) {
    try {
      await bus.publish(subject, event)
      return
    } catch (error) {
      if (Date.now() > end) throw error
    }
  }
}

/** Patient: a server may be starting, on a machine that is busy. */
export const soon = (what: string, look: () => boolean | Promise<boolean>) => eventually(what, look)

let consumers = 0
/** Names of their own, so that tests on one server do not meet. */
export const freshConsumer = () => `test-${process.pid}-${consumers++}`

/** Handles the deliveries of a batch one after the other. */
export const each =
  (handle: (d: Delivery) => void | Promise<void>): HandleBatch =>
  async (batch) => {
    for (const delivery of batch) await handle(delivery)
  }

/** What every EventBus must do. `open` gives a new bus; two of them see the same events where `shared`. */
export function eventBusContract(t: Test, open: () => EventBus): void {
  async function listening(t: Test, types: EventType[], handle: HandleBatch, batch?: number) {
    const bus = open()
    t.teardown(() => bus.close())
    const consumer = freshConsumer()
    const stop = await bus.subscribe({ consumer, types, ...(batch !== undefined && { batch }) }, handle)
    return { bus, consumer, stop }
  }
  const only = (s: Sample, handle: (d: Delivery) => void | Promise<void>) =>
    each(async (d) => {
      if (d.event?.id === s.event.id) await handle(d)
    })

  t.test('delivers an event whole, once, with attempt 1', async (t) => {
    const one = sample()
    const seen: Delivery[] = []
    const { bus } = await listening(
      t,
      ['MediaUploaded'],
      only(one, (d) => void seen.push(d)),
    )
    await relay(bus, one)
    await soon('the delivery', () => seen.length > 0)
    await sleep(100)
    t.equal(seen.length, 1)
    t.match(seen[0], { event: one.event, subject: one.subject, attempt: 1 })
    t.strictSame(JSON.parse(seen[0]?.text() ?? ''), one.event)
  })

  t.test('delivers the types that were asked for, and no others', async (t) => {
    const samples = [sample('MediaPurged'), sample('MediaTranscoded'), sample('MediaUploaded')]
    const seen: string[] = []
    const { bus } = await listening(
      t,
      ['MediaUploaded', 'MediaTranscoded'],
      each(({ event }) => void seen.push(event?.id ?? '')),
    )
    for (const s of samples) await relay(bus, s)
    await soon('both', () => samples.slice(1).every((s) => seen.includes(s.event.id)))
    t.notOk(seen.includes(samples[0]?.event.id ?? ''))
  })

  t.test(
    'delivers an event of a type that this version does not know, however many types were asked for',
    async (t) => {
      for (const types of [['MediaUploaded'], ['MediaUploaded', 'MediaTranscoded']] as const) {
        const samples = [laterSample(), sample('MediaPurged'), sample()] as const
        const [later, unwanted, last] = samples
        const seen: Delivery[] = []
        const { bus } = await listening(t, [...types], async (batch) => {
          seen.push(...batch.filter(({ event }) => samples.some((s) => s.event.id === event?.id)))
        })
        for (const s of samples) await relay(bus, s)
        await soon('the last', () => seen.some(({ event }) => event?.id === last.event.id))
        t.strictSame(
          seen.map(({ event }) => event?.id),
          [later.event.id, last.event.id],
          `without ${unwanted.event.type}, for ${types.join()}`,
        )
        t.match(seen[0], { event: later.event, subject: later.subject, attempt: 1 })
      }
    },
  )

  t.test('drops the same id published again', async (t) => {
    const one = sample()
    let count = 0
    const { bus } = await listening(
      t,
      ['MediaUploaded'],
      only(one, () => void count++),
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
      const handle = only(one, ({ event }) => {
        if (!event) return
        seen.push(event.source)
        event.source = 'changed by a handler'
      })
      await bus.subscribe({ consumer, types: ['MediaUploaded'] }, handle)
    }
    await relay(bus, one)
    await soon('both', () => seen.length === 2)
    t.strictSame(seen, ['/keepsake/api', '/keepsake/api'])
  })

  t.test('what arrives while the handler is busy is a batch, no larger than asked for, in order', async (t) => {
    const samples = Array.from({ length: 9 }, () => sample())
    const ids = samples.map((s) => s.event.id)
    const release = Promise.withResolvers<void>()
    const batches: string[][] = []
    const handle: HandleBatch = async (batch) => {
      const mine = batch.flatMap(({ event }) => (event && ids.includes(event.id) ? [event.id] : []))
      if (mine.length === 0) return
      batches.push(mine)
      await release.promise
    }
    const { bus } = await listening(t, ['MediaUploaded'], handle, 4)
    const published = []
    for (const one of samples) {
      published.push(relay(bus, one))
      await sleep(10)
      if (one === samples[0]) await soon('the first', () => batches.length === 1)
    }
    release.resolve()
    await Promise.all(published)
    await soon('all', () => batches.flat().length >= ids.length)
    t.strictSame(batches.flat(), ids)
    t.ok(
      batches.length < ids.length && Math.max(...batches.map((b) => b.length)) <= 4,
      JSON.stringify(batches.map((b) => b.length)),
    )
  })

  t.test('delivers a batch again, with a growing attempt number, until the handler returns', async (t) => {
    const one = sample()
    const attempts: number[] = []
    const handle = only(one, ({ attempt }) => {
      attempts.push(attempt)
      if (attempt < 3) throw new Error('not yet')
    })
    const { bus } = await listening(t, ['MediaUploaded'], handle)
    await relay(bus, one)
    await soon('the third attempt', () => attempts.length >= 3)
    await sleep(150)
    t.strictSame(attempts, [1, 2, 3])
  })

  t.test('does not call a consumer again because another one failed', async (t) => {
    const one = sample()
    const bus = open()
    t.teardown(() => bus.close())
    const calls = { good: 0, bad: 0 }
    const types = ['MediaUploaded']
    await bus.subscribe(
      { types, consumer: freshConsumer() },
      only(one, () => void calls.good++),
    )
    const failsOnce = only(one, () => {
      calls.bad++
      if (calls.bad === 1) throw new Error('not yet')
    })
    await bus.subscribe({ types, consumer: freshConsumer() }, failsOnce)
    await relay(bus, one)
    await soon('the second attempt', () => calls.bad === 2)
    t.strictSame(calls, { good: 1, bad: 2 })
  })

  t.test('stopping a subscription and closing wait for the handler that is running, and tell it', async (t) => {
    for (const how of ['stop', 'close'] as const) {
      const one = sample()
      let state: 'idle' | 'running' | 'finished' = 'idle'
      let isTold = false
      const release = Promise.withResolvers<void>()
      const handle: HandleBatch = async (batch, signal) => {
        if (!batch.some(({ event }) => event?.id === one.event.id)) return
        state = 'running'
        await release.promise
        isTold = signal.aborted
        state = 'finished'
      }
      const { bus, stop } = await listening(t, ['MediaUploaded'], handle)
      const published = relay(bus, one)
      await soon('the handler', () => state === 'running')
      const stopped = how === 'stop' ? stop() : bus.close()
      setTimeout(release.resolve, 200)
      await stopped
      t.equal(state, 'finished', how)
      t.ok(isTold)
      await published
    }
  })

  t.test('delivers nothing more to a subscription that was stopped', async (t) => {
    const before = sample()
    const after = sample()
    const seen: string[] = []
    const { bus, stop } = await listening(
      t,
      ['MediaUploaded'],
      each(({ event }) => void seen.push(event?.id ?? '')),
    )
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
