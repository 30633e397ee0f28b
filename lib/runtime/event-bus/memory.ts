import type { CloudEvent } from '../../contract/events.ts'
import type { Log } from '../log.ts'
import { type Delivery, type EventBus, PoisonMessage, type SubscribeOptions } from './event-bus.ts'
import { checkConsumer, checkSubject, MAX_DELIVER } from './names.ts'

/** The number of finished events, and of dead letters, that the bus remembers per consumer. */
const REMEMBERED = 10_000

interface Consumer {
  options: SubscribeOptions
  handlers: ((d: Delivery) => Promise<void>)[]
  turn: number
  /** Ids that were handled or became dead letters, oldest first. */
  finished: Set<string>
  running: Map<string, Promise<void>>
  attempts: Map<string, number>
}

/**
 * Delivers events within this process, directly from the publisher. The bus stores nothing; the outbox does. `publish`
 * resolves when every subscriber of the type has handled the event or made it a dead letter, and rejects when one
 * failed, so that the relay keeps the row and publishes again later (which is also the backoff). Consumers that have
 * finished are then skipped. Subscribe before the first publish: earlier events are not redelivered.
 */
export function openMemoryBus(options: { log: Log }): EventBus {
  const { log } = options
  const consumers = new Map<string, Consumer>()
  const dead = new Map<string, CloudEvent[]>()
  let closed = false

  async function publish(subject: string, event: CloudEvent): Promise<void> {
    checkSubject(subject)
    if (closed) throw new Error('The event bus is closed')
    const wanted = [...consumers.values()].filter((c) => c.handlers.length > 0 && c.options.types.includes(event.type))
    const results = await Promise.allSettled(wanted.map((consumer) => deliverOnce(consumer, event)))
    const failures = results.flatMap((r) => (r.status === 'rejected' ? [r.reason as unknown] : []))
    if (failures.length > 0) throw new AggregateError(failures, `${failures.length} consumers of ${event.id} failed`)
  }

  /** Two publishers of the same id share one delivery. */
  function deliverOnce(consumer: Consumer, event: CloudEvent): Promise<void> {
    if (consumer.finished.has(event.id)) return Promise.resolve()
    const known = consumer.running.get(event.id)
    if (known) return known
    const running = deliver(consumer, event).finally(() => consumer.running.delete(event.id))
    consumer.running.set(event.id, running)
    return running
  }

  async function deliver(consumer: Consumer, event: CloudEvent): Promise<void> {
    const attempt = (consumer.attempts.get(event.id) ?? 0) + 1
    consumer.attempts.set(event.id, attempt)
    const handle = consumer.handlers[consumer.turn++ % consumer.handlers.length]
    try {
      // A copy, as over a network: changes by one handler must not reach the next.
      await handle?.({ event: JSON.parse(JSON.stringify(event)) as CloudEvent, attempt })
    } catch (error) {
      const name = consumer.options.consumer
      const last = error instanceof PoisonMessage || attempt >= (consumer.options.maxDeliver ?? MAX_DELIVER)
      log[last ? 'error' : 'warn'](
        { err: error, consumer: name, event: event.id, attempt, deadLetter: last },
        'not handled',
      )
      if (!last) throw error
      dead.set(name, [...(dead.get(name) ?? []), event].slice(-REMEMBERED))
    }
    consumer.attempts.delete(event.id)
    consumer.finished.add(event.id)
    if (consumer.finished.size > REMEMBERED) consumer.finished.delete(consumer.finished.values().next().value ?? '')
  }

  function subscribe(subscription: SubscribeOptions, handle: (d: Delivery) => Promise<void>) {
    checkConsumer(subscription.consumer)
    const consumer: Consumer = consumers.get(subscription.consumer) ?? {
      options: subscription,
      handlers: [],
      turn: 0,
      finished: new Set(),
      running: new Map(),
      attempts: new Map(),
    }
    consumers.set(subscription.consumer, consumer)
    consumer.handlers.push(handle)
    return Promise.resolve(async () => {
      consumer.handlers = consumer.handlers.filter((h) => h !== handle)
      await Promise.allSettled(consumer.running.values())
    })
  }

  return {
    publish,
    subscribe,
    deadLetters: (consumer) => Promise.resolve([...(dead.get(consumer) ?? [])]),
    check: () => (closed ? Promise.reject(new Error('The event bus is closed')) : Promise.resolve()),
    async close() {
      closed = true
      await Promise.allSettled([...consumers.values()].flatMap((c) => [...c.running.values()]))
    },
  }
}
