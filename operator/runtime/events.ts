import { type Cluster, EVENTS_V1, type KubeObject } from '../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { TokenBucket } from '../../lib/runtime/token-bucket.ts'
import { microTime } from './micro-time.ts'

export interface KubeEvent {
  type: 'Normal' | 'Warning'
  /** CamelCase. */
  reason: string
  /** CamelCase; the action during which the event happened. */
  action: string
  note: string
}

export interface EventRecorder {
  /** Records an event about an object. Returns at once and never fails: events are best effort. */
  record(about: KubeObject, event: KubeEvent): void
  /** Resolves when all events recorded so far have been sent or dropped. */
  flush(): Promise<void>
}

interface StoredEvent extends KubeObject {
  series?: { count: number; lastObservedTime: string }
}
/** One kind of event about one object, as this process has counted it. */
interface Known {
  name: string | undefined
  count: number
  notes: Set<string>
  at: number
}

const WINDOW_MS = 600_000
const MAX_SIMILAR = 10
const MAX_WAITING = 1000
const PER_OBJECT = { burst: 25, perSecond: 1 / 300 }

/**
 * events.k8s.io/v1 with the limits of client-go: the same event within ten minutes becomes a series, more than ten
 * with different notes become one, and each object has a budget.
 */
export function eventRecorder(options: {
  cluster: Pick<Cluster, 'create' | 'patch'>
  log: Log
  controller: string
  instance: string
  now?: () => Date
}): EventRecorder {
  const { cluster, log, controller } = options
  const instance = options.instance.slice(0, 128)
  const now = options.now ?? (() => new Date())
  const known = new Map<string, Known>()
  const budgets = new Map<string, { bucket: TokenBucket; at: number }>()
  let waiting = 0
  let sweptAt = now().getTime()
  let sending = Promise.resolve()

  function record(about: KubeObject, event: KubeEvent): void {
    const uid = about.metadata.uid ?? ''
    const time = now().getTime()
    forgetOld(time)
    if (waiting >= MAX_WAITING || !hasBudget(uid, time)) {
      log.debug({ object: about.metadata.name, reason: event.reason }, 'event dropped')
      return
    }
    waiting += 1
    const entry = correlate(`${uid}/${event.type}/${event.reason}/${event.action}`, event.note, time)
    sending = sending
      .then(() => send(about, event, entry))
      .catch((error: unknown) => log.warn({ err: error, reason: event.reason }, 'event not recorded'))
      .finally(() => {
        waiting -= 1
      })
  }

  /** The entry that counts this event: its own, or the group's when there are too many similar events. */
  function correlate(kind: string, note: string, time: number): Known {
    const group = known.get(kind) ?? { name: undefined, count: 0, notes: new Set<string>(), at: time }
    known.set(kind, group)
    group.notes.add(note)
    group.at = time
    if (group.notes.size > MAX_SIMILAR) {
      group.notes = new Set([...group.notes].slice(0, MAX_SIMILAR + 1))
      return group
    }
    const own = known.get(`${kind}/${note}`) ?? { name: undefined, count: 0, notes: new Set<string>(), at: time }
    known.set(`${kind}/${note}`, own)
    own.at = time
    return own
  }

  async function send(about: KubeObject, event: KubeEvent, entry: Known): Promise<void> {
    const { namespace = '', name } = about.metadata
    const time = microTime(now())
    entry.count += 1
    if (entry.name !== undefined) {
      const series = { count: entry.count, lastObservedTime: time }
      await cluster.patch<StoredEvent>(EVENTS_V1, { namespace, name: entry.name }, { series })
      return
    }
    const body = {
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: { generateName: `${name.slice(0, 200)}-`, namespace },
      eventTime: time,
      type: event.type,
      reason: event.reason.slice(0, 128),
      action: event.action.slice(0, 128),
      note: event.note.slice(0, 1024),
      regarding: { apiVersion: about.apiVersion, kind: about.kind, namespace, name, uid: about.metadata.uid },
      reportingController: controller,
      reportingInstance: instance,
    }
    const made = await cluster.create(EVENTS_V1, body as unknown as KubeObject)
    entry.name = made.metadata.name
  }

  function hasBudget(uid: string, time: number): boolean {
    const budget = budgets.get(uid) ?? { bucket: new TokenBucket(PER_OBJECT), at: time }
    budgets.set(uid, budget)
    budget.at = time
    return budget.bucket.tryTake()
  }

  function forgetOld(time: number): void {
    if (time - sweptAt < WINDOW_MS / 10) return
    sweptAt = time
    for (const map of [known, budgets]) {
      for (const [key, { at }] of map) if (time - at > WINDOW_MS) map.delete(key)
    }
  }

  return { record, flush: () => sending }
}
