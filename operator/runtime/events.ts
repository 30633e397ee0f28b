import { setTimeout as sleep } from 'node:timers/promises'
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
  /** Resolves when all events recorded so far have been sent or, after five seconds, dropped. */
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
/** Above this many, only warnings are accepted. */
const MAX_NORMAL_WAITING = 500
const FLUSH_MS = 5000
/** After each request, events leave the API server to others for this many times as long as the request took. */
const REST = 4
const MAX_REST_MS = 1000
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
  let flushing = false
  let dropping = false
  let sweptAt = now().getTime()
  let sending = Promise.resolve()

  function record(about: KubeObject, event: KubeEvent): void {
    const uid = about.metadata.uid ?? ''
    const time = now().getTime()
    forgetOld(time)
    const most = event.type === 'Normal' ? MAX_NORMAL_WAITING : MAX_WAITING
    if (waiting >= most || !hasBudget(uid, time)) {
      log.debug({ object: about.metadata.name, reason: event.reason }, 'event dropped')
      return
    }
    waiting += 1
    const entry = correlate(`${uid}/${event.type}/${event.reason}/${event.action}`, event.note, time)
    sending = sending
      .then(() => (dropping ? undefined : unhurried(() => send(about, event, entry, time))))
      .catch((error: unknown) => log.warn({ err: error, reason: event.reason }, 'event not recorded'))
      .finally(() => {
        waiting -= 1
      })
  }

  /** On a busy API server, events must not delay the writes that move resources forward. */
  async function unhurried(request: () => Promise<void>): Promise<void> {
    const startedAt = performance.now()
    try {
      await request()
    } finally {
      if (!flushing && waiting > 1) await sleep(Math.min(MAX_REST_MS, (performance.now() - startedAt) * REST))
    }
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

  async function send(about: KubeObject, event: KubeEvent, entry: Known, at: number): Promise<void> {
    const { namespace = '', name } = about.metadata
    const time = microTime(new Date(at)) // when it happened, not when its turn came
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

  return {
    record,
    async flush() {
      flushing = true
      const late = setTimeout(() => {
        dropping = true
      }, FLUSH_MS)
      await sending
      clearTimeout(late)
      flushing = false
      dropping = false
    },
  }
}
