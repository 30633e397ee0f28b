import type { CloudEvent } from '../../contract/events.ts'
import type { Log } from '../log.ts'
import { isFor } from './delivered.ts'
import type { Delivery, EventBus, HandleBatch, SubscribeOptions } from './event-bus.ts'
import { BATCH, checkConsumer, checkSubject } from './names.ts'

/** The number of handled events that the bus remembers per consumer. */
const REMEMBERED = 10_000

interface Waiting {
  delivery: Delivery & { event: CloudEvent }
  settled: PromiseWithResolvers<void>
}

interface Consumer {
  name: string
  /** Of those who have subscribed, each with what it wants. */
  subscriptions: { options: SubscribeOptions; handle: HandleBatch }[]
  waiting: Waiting[]
  /** Promises of the events that wait or run, by id. */
  known: Map<string, Promise<void>>
  /** Ids that were handled, oldest first. */
  finished: Set<string>
  attempts: Map<string, number>
  running: Promise<void> | undefined
  stopped: AbortController
}

/**
 * Delivers events within this process, directly from the publisher. The bus stores nothing; the outbox does. `publish`
 * resolves when every subscriber of the type has handled the event, and rejects when one failed, so that the relay keeps
 * the row and publishes again later (which is also the backoff). Consumers that have finished are then skipped. A batch
 * is what was published while the handler was busy. Subscribe before the first publish: earlier events are not
 * delivered again.
 */
export function openMemoryBus(options: { log: Log }): EventBus {
  const { log } = options
  const consumers = new Map<string, Consumer>()
  let closed = false

  async function publish(subject: string, event: CloudEvent): Promise<undefined> {
    checkSubject(subject)
    if (closed) throw new Error('The event bus is closed')
    const wanted = [...consumers.values()].filter((c) => isFor(c.subscriptions[0]?.options.types ?? [], event))
    const results = await Promise.allSettled(wanted.map((consumer) => deliverOnce(consumer, subject, event)))
    const failures = results.flatMap((r) => (r.status === 'rejected' ? [r.reason as unknown] : []))
    if (failures.length > 0) throw new AggregateError(failures, `${failures.length} consumers of ${event.id} failed`)
  }

  /** Two publishers of the same id share one delivery. */
  function deliverOnce(consumer: Consumer, subject: string, event: CloudEvent): Promise<void> {
    const { finished, known, attempts, waiting } = consumer
    if (finished.has(event.id)) return Promise.resolve()
    const underWay = known.get(event.id)
    if (underWay) return underWay
    const text = JSON.stringify(event)
    const attempt = (attempts.get(event.id) ?? 0) + 1
    attempts.set(event.id, attempt)
    const settled = Promise.withResolvers<void>()
    // A copy, as over a network: changes by one handler must not reach the next.
    const copy = JSON.parse(text) as CloudEvent
    waiting.push({ delivery: { event: copy, subject, seq: 0, attempt, text: () => text }, settled })
    const delivered = settled.promise.finally(() => known.delete(event.id))
    known.set(event.id, delivered)
    run(consumer)
    return delivered
  }

  function run(consumer: Consumer): void {
    consumer.running ??= handleWaiting(consumer).finally(() => {
      consumer.running = undefined
    })
  }

  async function handleWaiting(consumer: Consumer): Promise<void> {
    // The events of one tick are one batch.
    await Promise.resolve()
    while (consumer.waiting.length > 0) {
      const [subscription] = consumer.subscriptions
      if (!subscription) return refuse(consumer.waiting.splice(0))
      const batch = consumer.waiting.splice(0, subscription.options.batch ?? BATCH)
      await handle(consumer, subscription.handle, batch)
    }
  }

  async function handle(consumer: Consumer, handler: HandleBatch, batch: Waiting[]): Promise<void> {
    const deliveries = batch.map(({ delivery }) => delivery)
    try {
      await handler(deliveries, consumer.stopped.signal)
    } catch (error) {
      log.warn({ err: error, consumer: consumer.name, events: batch.length }, 'not handled')
      for (const { settled } of batch) settled.reject(error)
      return
    }
    for (const { delivery, settled } of batch) {
      consumer.attempts.delete(delivery.event.id)
      remember(consumer.finished, delivery.event.id)
      settled.resolve()
    }
  }

  function subscribe(subscription: SubscribeOptions, handler: HandleBatch) {
    checkConsumer(subscription.consumer)
    const consumer = consumers.get(subscription.consumer) ?? newConsumer(subscription.consumer)
    consumers.set(subscription.consumer, consumer)
    const mine = { options: subscription, handle: handler }
    consumer.subscriptions.push(mine)
    return Promise.resolve(async () => {
      consumer.subscriptions = consumer.subscriptions.filter((s) => s !== mine)
      if (consumer.subscriptions.length === 0) await end(consumer)
    })
  }

  async function end(consumer: Consumer): Promise<void> {
    consumer.stopped.abort()
    refuse(consumer.waiting.splice(0))
    await consumer.running
    consumer.stopped = new AbortController()
  }

  return {
    isShared: false,
    era: () => 0,
    isAway: () => false,
    publish,
    subscribe,
    onStoreReady: () => {},
    rewind: async () => 0,
    handledTo: async () => 0,
    lag: () => Promise.resolve(undefined),
    erase: () => Promise.resolve(0),
    check: () => (closed ? Promise.reject(new Error('The event bus is closed')) : Promise.resolve()),
    async close() {
      closed = true
      await Promise.all([...consumers.values()].map(end))
    },
  }
}

const newConsumer = (name: string): Consumer => ({
  name,
  subscriptions: [],
  waiting: [],
  known: new Map(),
  finished: new Set(),
  attempts: new Map(),
  running: undefined,
  stopped: new AbortController(),
})

function refuse(waiting: Waiting[]): void {
  for (const { settled } of waiting) settled.reject(new Error('The subscription was stopped'))
}

function remember(finished: Set<string>, id: string): void {
  finished.add(id)
  if (finished.size > REMEMBERED) finished.delete(finished.values().next().value ?? '')
}
