import { setTimeout as sleep } from 'node:timers/promises'
import { Registry } from 'prom-client'
import t from 'tap'
import { ClusterError, type ObjectKey } from '../../../lib/runtime/kube/cluster.ts'
import {
  type Controller,
  createController,
  type Reconcile,
  TerminalError,
} from '../../../operator/runtime/controller.ts'
import { controllerMetrics } from '../../../operator/runtime/metrics.ts'
import { ObjectQueue } from '../../../operator/runtime/object-queue.ts'
import { WorkQueue } from '../../../operator/runtime/queue.ts'
import { eventually } from '../../support/eventually.ts'
import { quietLog } from '../../support/quiet-log.ts'

const key = (name: string): ObjectKey => ({ namespace: 'media', name })
const ready = [{ synced: async () => {} }]

async function start(
  t: { teardown(fn: () => Promise<void>): unknown },
  reconcile: Reconcile,
  options: Partial<Parameters<typeof createController>[0]> = {},
) {
  const registry = new Registry()
  const metrics = controllerMetrics(registry)('test')
  const queue = new ObjectQueue(new WorkQueue({ minBackoffMs: 5, watcher: metrics.queue }))
  const controller: Controller = createController({
    name: 'test',
    reconcile,
    concurrency: 2,
    caches: ready,
    log: quietLog(),
    metrics,
    queue,
    ...options,
  })
  const leading = new AbortController()
  const started = controller.start(leading.signal)
  started.catch(() => {})
  t.teardown(() => controller.stop())
  const value = async (name: string, labels: Record<string, string> = {}) => {
    const metric = await registry.getSingleMetric(name)?.get()
    const found = metric?.values.find((v) => Object.entries(labels).every(([k, x]) => v.labels[k] === x))
    return found?.value
  }
  return { controller, queue, leading, started, value, registry }
}

t.test('no worker starts before all caches are complete', async (t) => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const seen: string[] = []
  const { controller, queue } = await start(t, async (k) => void seen.push(k.name), {
    caches: [...ready, { synced: () => promise }],
  })
  queue.changed(key('a'))
  await sleep(30)
  t.strictSame(seen, [])
  t.notOk(controller.isSynced())
  resolve()
  await eventually('a', () => seen.length === 1)
  t.ok(controller.isSynced())
})

t.test('caches that never fill are an error, and stopping does not wait for them', async (t) => {
  const never = [{ synced: () => new Promise<void>(() => {}) }]
  const slow = await start(t, async () => undefined, { caches: never, cacheSyncTimeoutMs: 20 })
  await t.rejects(slow.started, /caches were not complete/)
  const stopped = await start(t, async () => undefined, { caches: never })
  await stopped.controller.stop()
  await stopped.started
})

t.test('what can wait comes after the whole initial list, whatever changes meanwhile', async (t) => {
  const seen: string[] = []
  const names = Array.from({ length: 40 }, (_, i) => `n${i}`)
  const filled = Promise.withResolvers<void>()
  const { queue } = await start(
    t,
    async ({ name }) => {
      const visit = seen.push(name) && seen.filter((n) => n === name).length
      // A cache reports what the first reconcile made.
      if (visit === 1) setTimeout(() => queue.changed(key(name)), 1)
      await sleep(3)
      return visit < 3 ? { requeueAfterMs: 10, requeueLast: true } : undefined
    },
    { concurrency: 1, caches: [{ synced: () => filled.promise }] },
  )
  for (const name of names) queue.changed(key(name))
  filled.resolve()
  await eventually('three visits each', () => seen.length >= 3 * names.length)
  const lastFirst = Math.max(...names.map((n) => seen.indexOf(n)))
  const firstThird = Math.min(...names.map((n) => seen.lastIndexOf(n)))
  t.ok(lastFirst < firstThird, `the last one began at ${lastFirst}, the first one was done at ${firstThird}`)
})

t.test('one key is never worked on twice at once, different keys are', async (t) => {
  const busy = new Map<string, number>()
  let most = 0
  let overlaps = 0
  const { controller, queue } = await start(t, async ({ name }) => {
    if (busy.has(name)) overlaps += 1
    busy.set(name, 1)
    most = Math.max(most, busy.size)
    await sleep(15)
    busy.delete(name)
    return undefined
  })
  for (let i = 0; i < 5; i++) {
    for (const name of ['a', 'b', 'c']) queue.changed(key(name))
    await sleep(10)
  }
  await controller.stop()
  t.equal(overlaps, 0)
  t.equal(most, 2)
})

t.test('a failure is repeated, counted, and forgotten after a success', async (t) => {
  let runs = 0
  const { queue, value } = await start(t, async () => {
    runs += 1
    if (runs < 3) throw new Error('not yet')
    return undefined
  })
  queue.changed(key('a'))
  await eventually('third run', () => runs === 3)
  await sleep(30)
  t.equal(runs, 3)
  t.equal(await value('controller_runtime_reconcile_errors_total'), 2)
  t.equal(await value('controller_runtime_reconcile_total', { result: 'success' }), 1)
  t.equal(await value('controller_runtime_reconcile_panics_total'), 0)
  t.equal(await value('workqueue_retries_total'), 2)
})

t.test('a bug is counted as such and does not stop the workers', async (t) => {
  let runs = 0
  const { queue, value } = await start(t, async () => {
    runs += 1
    if (runs === 1) throw new TypeError('undefined is not a function')
    return undefined
  })
  queue.changed(key('a'))
  await eventually('second run', () => runs === 2)
  t.equal(await value('controller_runtime_reconcile_panics_total'), 1)
})

t.test('a terminal error is not repeated until the object changes', async (t) => {
  let runs = 0
  const { queue, value } = await start(t, async () => {
    runs += 1
    throw new TerminalError('hopeless')
  })
  queue.changed(key('a'))
  await eventually('first run', () => runs === 1)
  await sleep(60)
  t.equal(runs, 1)
  t.equal(await value('controller_runtime_terminal_reconcile_errors_total'), 1)
  queue.changed(key('a'))
  await eventually('second run', () => runs === 2)
})

t.test('asking to be called again is no failure', async (t) => {
  const at: number[] = []
  const { queue, value } = await start(t, async () => {
    at.push(performance.now())
    return at.length < 3 ? { requeueAfterMs: 30 } : {}
  })
  queue.changed(key('a'))
  await eventually('third run', () => at.length === 3)
  t.ok((at[2] ?? 0) - (at[0] ?? 0) >= 55)
  t.equal(await value('controller_runtime_reconcile_total', { result: 'requeue_after' }), 2)
  t.equal(await value('workqueue_retries_total'), 0)
})

t.test('a server that asks for patience gets it', async (t) => {
  const at: number[] = []
  const { queue } = await start(t, async () => {
    at.push(performance.now())
    if (at.length === 1) throw new ClusterError('TooManyRequests', 'slow down', { retryAfterSeconds: 0.2 })
    return undefined
  })
  queue.changed(key('a'))
  await eventually('second run', () => at.length === 2)
  t.ok((at[1] ?? 0) - (at[0] ?? 0) >= 195)
})

t.test('a reconcile that takes too long is told to stop, and awaited before its key is taken again', async (t) => {
  let running = 0
  let overlaps = 0
  const { queue, value } = await start(
    t,
    async (_, signal) => {
      running += 1
      if (running > 1) overlaps += 1
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      queue.changed(key('a'))
      await sleep(20)
      running -= 1
      return undefined
    },
    { reconcileTimeoutMs: 20 },
  )
  queue.changed(key('a'))
  await eventually('two timeouts', async () => ((await value('controller_runtime_reconcile_timeouts_total')) ?? 0) >= 2)
  t.equal(overlaps, 0)
})

t.test('losing the lease stops the workers at once; stopping waits for what is running', async (t) => {
  let finished = 0
  const seen: string[] = []
  const released = Promise.withResolvers<void>()
  const work: Reconcile = async ({ name }) => {
    seen.push(name)
    await released.promise
    finished += 1
    return undefined
  }
  const lost = await start(t, work, { concurrency: 1 })
  for (const name of ['a', 'b', 'c']) lost.queue.changed(key(name))
  await eventually('a', () => seen.length === 1)
  lost.leading.abort()
  const stopping = lost.controller.stop()
  setTimeout(released.resolve, 30)
  await stopping
  t.strictSame(seen, ['a'])
  t.equal(finished, 1)
})

t.test('every series exists from the start', async (t) => {
  const { registry } = await start(t, async () => undefined)
  const text = await registry.metrics()
  for (const line of [
    'controller_runtime_reconcile_total{controller="test",result="requeue"} 0',
    'controller_runtime_terminal_reconcile_errors_total{controller="test"} 0',
    'controller_runtime_reconcile_timeouts_total{controller="test"} 0',
    'controller_runtime_reconcile_time_seconds_bucket{le="60",controller="test"} 0',
    'controller_runtime_max_concurrent_reconciles{controller="test"} 2',
    'controller_runtime_active_workers{controller="test"} 0',
    'workqueue_depth{name="test",controller="test",priority="-100"} 0',
    'workqueue_adds_total{name="test",controller="test"} 0',
    'workqueue_unfinished_work_seconds{name="test",controller="test"} 0',
    'workqueue_longest_running_processor_seconds{name="test",controller="test"} 0',
  ]) {
    t.ok(text.includes(line), line)
  }
})
