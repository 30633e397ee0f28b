import t from 'tap'
import type { RepairOptions } from '../../../../api/worker/feature-worker.ts'
import { failRun } from '../../../../api/worker/runs/commands.ts'
import type { RunObject } from '../../../../api/worker/runs/kind.ts'
import { followRuns } from '../../../../api/worker/runs/project.ts'
import { openSightings } from '../../../../api/worker/runs/sightings.ts'
import { startAdmitted } from '../../../../api/worker/runs/start.ts'
import { type SweepDeps, sweepRuns } from '../../../../api/worker/runs/sweep.ts'
import { workedKind } from '../../../../api/worker/runs/worked-kind.ts'
import type { Uuid } from '../../../../lib/contract/ids.ts'
import { ClusterError } from '../../../../lib/runtime/kube/cluster.ts'
import { failed, running } from '../../../support/conversion-world.ts'
import { eventually } from '../../../support/eventually.ts'
import { eachKindOfRuns } from '../../../support/run-worlds.ts'

const HOUR = 3600

eachKindOfRuns(t, (t, world) => {
  const { kind, cluster, base, row, set, resource, keyOf, started, show, done } = world
  const { db } = base

  /** A sweep with a follower of its own. Like one of several workers. */
  async function sweeper(
    t: { teardown(fn: () => Promise<void>): void },
    change: Partial<SweepDeps<RunObject> & { cluster: typeof cluster }> = {},
  ) {
    const mine = { ...base, ...change }
    const follower = followRuns(mine, kind, { progressMs: 0, backoffMs: () => 10 })
    const admission = world.startSlots(mine, { maxPerOrganization: 100, backoffMs: () => 10 })
    t.teardown(async () => void (await Promise.all([follower.stop(), admission.stop()])))
    await follower.reflection.synced()
    const repairs: string[] = []
    let aliveMs = 0
    const seen = { queue: () => follower.reflection.list(), sightings: openSightings(() => aliveMs) }
    const onRepaired = (_: string, repair: string) => repairs.push(repair)
    const deps = { ...base, follower, ...seen, fillers: [admission], onRepaired, ...change }
    const options = { idleSeconds: 0, marginSeconds: HOUR, giveUpSeconds: 72 * HOUR, batch: 3 }
    const sweep = (o: Partial<RepairOptions> = {}) => sweepRuns(deps, kind, { ...options, ...o })
    /** A sweep at which this worker is so many hours older than at the last one. */
    async function sweepAfter(hours: number): Promise<void> {
      aliveMs += hours * HOUR * 1000
      await sweep()
    }
    return { follower, repairs, sweep, sweepAfter }
  }
  /** The time of day, so many hours from now. */
  const after = (hours: number) => ({ now: () => new Date(Date.now() + hours * HOUR * 1000) })
  const suspend = (id: Uuid, isSuspended: boolean) =>
    keyOf(id).then((key) => cluster.patch(kind.resource, key, { spec: { suspend: isSuspended } }))
  const away = async () => {
    throw new ClusterError('Unavailable', 'away')
  }
  const until = (id: Uuid, status: string) => eventually(status, async () => (await row(id)).status === status)

  /** A row with a slot whose resource is gone. */
  async function orphaned(): Promise<Uuid> {
    const id = await world.wanted()
    await world.admit(id)
    return id
  }

  t.test('rows that nothing works on get their resource, once, by however many sweeps', async (t) => {
    const ids: Uuid[] = []
    for (let i = 0; i < 8; i++) ids.push(await world.wanted())
    const several = await Promise.all([sweeper(t), sweeper(t), sweeper(t)])
    await Promise.all(several.map((s) => s.sweep()))
    await Promise.all(several.map((s) => s.sweep()))
    t.strictSame((await started()).sort(), ids.sort())
  })

  t.test('a row that was admitted just now is left alone', async (t) => {
    await orphaned()
    const { sweep } = await sweeper(t)
    await sweep({ idleSeconds: 60 })
    t.strictSame(await started(), [])
  })

  t.test('of any number of starts one makes the resource', async (t) => {
    const id = await orphaned()
    await Promise.all([1, 2, 3].map(() => startAdmitted(base, kind, id)))
    const uid = (await resource(id))?.metadata.uid
    await startAdmitted(base, kind, id)
    t.equal((await resource(id))?.metadata.uid, uid)
    t.strictSame(await started(), [id])
  })

  t.test('a resource that the reflection has not seen yet is not made again', async (t) => {
    const id = await world.running()
    await show(id, running(5))
    const blind = { get: () => undefined, list: () => [], synced: async () => {}, stop: async () => {} }
    const { sweep, repairs } = await sweeper(t, { follower: { reflection: blind, lookAgain: () => {} } })
    await sweep()
    t.strictSame(repairs, [])
    await world.writeOutput(id)
    await show(id, done)
    await sweep()
    await until(id, 'completed')
    t.equal(await world.announced(id), 1)
  })

  t.test('what finished while no worker watched is recorded', async (t) => {
    const [good, bad] = [await world.running(), await world.running()]
    await world.writeOutput(good)
    await show(good, done)
    await show(bad, failed('StoreUnavailable'))
    const { sweep } = await sweeper(t)
    await sweep()
    await until(good, 'completed')
    await until(bad, 'failed')
    t.strictSame([await world.announced(good), await world.announced(bad)], [1, 0])
  })

  t.test('a resource that has been cleaned up is not missed when its manifest is there', async (t) => {
    const id = await orphaned()
    await world.writeOutput(id)
    const { sweep, repairs } = await sweeper(t)
    await sweep()
    t.equal((await row(id)).status, 'completed')
    t.strictSame(await started(), [])
    t.strictSame(repairs, ['project'])
  })

  t.test('a manifest without a resource that cannot be used is made again', async (t) => {
    const id = await orphaned()
    await world.writeOutput(id, { hls: null })
    const { sweep } = await sweeper(t)
    await sweep()
    t.equal((await row(id)).status, 'processing')
    t.strictSame(await started(), [id])
  })

  t.test('a resource that was deleted in the middle is made again, and its progress counts', async (t) => {
    const id = await world.running()
    const { follower, sweep } = await sweeper(t)
    await show(id, running(80, { attempts: 2 }))
    await eventually('progress', async () => (await row(id)).progress?.percent === 80)
    const key = await world.keyOf(id)
    await world.removeResource(id)
    // Before that the sweep believes that it is there, and leaves the row to the next one.
    await eventually('the reflection to see it', async () => follower.reflection.get(key) === undefined)
    await sweep()
    await show(id, running(3, { startTime: '2026-05-02T00:00:00Z' }))
    await eventually('progress from the beginning', async () => (await row(id)).progress?.percent === 3)
    t.equal((await row(id)).attempts, 1)
  })

  t.test('a resource that has the name of another run gives way', async (t) => {
    const [id, other] = [await orphaned(), await world.running()]
    const foreign = await resource(other)
    if (!foreign) throw new Error('no resource')
    const { name, namespace } = await world.keyOf(id)
    const { apiVersion, kind: kindName, spec } = foreign
    await cluster.create(kind.resource, { apiVersion, kind: kindName, spec, metadata: { name, namespace } } as never)
    const { sweep, repairs } = await sweeper(t)
    await sweep()
    await eventually('the right one', async () => {
      await sweep()
      const made = await resource(id)
      return made && kind.factsOf(made)[0]?.id === id
    })
    t.equal(repairs[0], 'replace')
    await world.writeOutput(id)
    await show(id, done)
    await sweep()
    await until(id, 'completed')
    t.equal((await row(other)).status, 'processing')
  })

  t.test('a run without a sign of life is given up and its resource removed', async (t) => {
    const [silent, suspended] = [await world.running(), await world.running()]
    await suspend(suspended, true)
    // Three attempts of two hours, one hour of margin.
    const early = await sweeper(t, { clock: after(6.9) })
    await early.sweep()
    await early.sweepAfter(2)
    t.equal((await row(silent)).status, 'processing')
    const { sweep, sweepAfter, repairs } = await sweeper(t, { clock: after(7.1) })
    await sweep()
    await sweepAfter(0.9)
    t.equal((await row(silent)).status, 'processing', 'this worker has not watched it for an hour')
    t.strictSame(repairs, [])
    await sweepAfter(0.2)
    t.match(await row(silent), { status: 'failed', error: { code: 'TIMEOUT' } })
    t.equal((await row(suspended)).status, 'processing')
    t.strictSame(await started(), [suspended])
    t.strictSame(repairs, ['give-up'])
  })

  t.test(
    'after an outage longer than any deadline, what comes back goes on and what does not is given up',
    async (t) => {
      const [back, gone] = [await world.running(), await world.running()]
      for (const id of [back, gone]) await show(id, running(40))
      const clock = after(31)
      const { sweep, sweepAfter, follower } = await sweeper(t, { clock })
      await sweep()
      t.strictSame([(await row(back)).status, (await row(gone)).status], ['processing', 'processing'])
      await show(back, running(41, { startTime: clock.now().toISOString() }))
      await eventually(
        'it to be seen',
        async () => follower.reflection.get(await keyOf(back))?.status?.progress?.percent === 41,
      )
      await sweepAfter(1.1)
      t.strictSame([(await row(back)).status, (await row(gone)).status], ['processing', 'failed'])
      t.strictSame(await started(), [back])
    },
  )

  t.test('a worker remembers from one sweep to the next what it watches', async (t) => {
    const id = await world.running()
    const { follower } = await sweeper(t)
    const worked = workedKind({ ...base, clock: after(31) } as never, kind, { name: 'runs', fillers: [] })
    const seen = { follower, queue: () => follower.reflection.list() }
    const options = { idleSeconds: 0, marginSeconds: HOUR, giveUpSeconds: 72 * HOUR }
    await worked.sweep(seen, options)
    t.equal((await row(id)).status, 'processing')
    const now = performance.now.bind(performance)
    t.intercept(performance, 'now', { value: () => now() + 1.1 * HOUR * 1000 })
    await worked.sweep(seen, options)
    t.equal((await row(id)).status, 'failed')
  })

  t.test('a clock that is a day ahead fails nothing that moves', async (t) => {
    const [first, waiting] = [await world.running(), await world.running()]
    await show(waiting, { phase: 'Pending' })
    const { sweepAfter, follower } = await sweeper(t, { clock: after(31) })
    for (let percent = 1; percent < 5; percent++) {
      const { progress, ...status } = running(percent)
      // By the clock of the operator, which is right.
      const updatedAt = new Date(Date.now() + percent).toISOString()
      await show(first, { ...status, progress: { ...progress, updatedAt } })
      const key = await keyOf(first)
      await eventually('it to be seen', () => follower.reflection.get(key)?.status?.progress?.percent === percent)
      await sweepAfter(1.1)
    }
    t.strictSame([(await row(first)).status, (await row(waiting)).status], ['processing', 'processing'])
  })

  t.test('the time in which a resource was suspended does not count', async (t) => {
    const [resumed, unknown] = [await world.running(), await world.running()]
    for (const id of [resumed, unknown]) await suspend(id, true)
    const witness = await sweeper(t, { clock: after(31) })
    await witness.sweep()
    for (const id of [resumed, unknown]) await suspend(id, false)
    for (const id of [resumed, unknown]) {
      await eventually(
        'it to be seen',
        async () => !kind.runFieldsOf(witness.follower.reflection.get(await keyOf(id))?.spec).suspend,
      )
    }
    await witness.sweepAfter(0)
    await witness.sweepAfter(6.9)
    t.strictSame([(await row(resumed)).status, (await row(unknown)).status], ['processing', 'processing'])
    const late = await sweeper(t, { clock: after(31) })
    await late.sweep()
    t.equal((await row(unknown)).status, 'processing', 'a worker that did not see it suspended watches it first')
    await witness.sweepAfter(0.2)
    await witness.sweepAfter(1.1)
    t.strictSame([(await row(resumed)).status, (await row(unknown)).status], ['failed', 'failed'])
  })

  t.test('a worker that cannot hear the cluster does not take that for silence', async (t) => {
    const id = await world.running()
    let isAway = false
    const get: typeof cluster.get = (...of) => (isAway ? away() : cluster.get(...of))
    const { sweep, sweepAfter } = await sweeper(t, { clock: after(31), cluster: { ...cluster, get } })
    await sweep()
    isAway = true
    await sweepAfter(0.5)
    isAway = false
    await sweepAfter(0.6)
    t.equal((await row(id)).status, 'processing', 'the hour begins when the cluster answers again')
    await sweepAfter(1.1)
    t.equal((await row(id)).status, 'failed')
  })

  t.test('a silent run that has committed its output is complete', async (t) => {
    const [good, bad] = [await world.running(), await world.running()]
    for (const id of [good, bad]) await show(id, running(99))
    await world.writeOutput(good)
    await world.writeOutput(bad, { hls: null })
    const { sweep, sweepAfter } = await sweeper(t, { clock: after(31) })
    await sweep()
    await sweepAfter(1.1)
    t.strictSame([(await row(good)).status, (await row(bad)).status], ['completed', 'failed'])
    t.strictSame([await world.announced(good), await world.announced(bad)], [1, 0])
    t.strictSame(await started(), [])
  })

  t.test('a row whose resource cannot be created fails after days of this worker, and not before', async (t) => {
    const [first, second] = [await orphaned(), await orphaned()]
    for (const id of [first, second]) await set(id, `updated_at = now() - interval '80 hours'`)
    const mayCreate = new Set<string>()
    const create: typeof cluster.create = (resource, object) => {
      if (mayCreate.has(object.metadata.name)) return cluster.create(resource, object)
      throw new ClusterError('Forbidden', 'exceeded quota')
    }
    const { sweep, sweepAfter, follower } = await sweeper(t, { cluster: { ...cluster, create } })
    await sweep()
    await sweepAfter(71)
    t.strictSame([(await row(first)).status, (await row(second)).status], ['processing', 'processing'])
    const key = await keyOf(second)
    mayCreate.add(key.name)
    await sweepAfter(0)
    mayCreate.delete(key.name)
    await cluster.delete(kind.resource, key)
    await eventually('it to be gone', () => follower.reflection.get(key) === undefined)
    await sweepAfter(2)
    t.match(await row(first), { status: 'failed', error: { code: 'TIMEOUT' } })
    t.equal((await row(second)).status, 'processing', 'it had a resource in between')
    t.strictSame(await started(), [])
  })

  t.test('a cluster that cannot be asked fails no row, however long it has not changed', async (t) => {
    const [healthy, suspended, none] = [await world.running(), await world.running(), await orphaned()]
    await show(healthy, { phase: 'Pending' })
    await suspend(suspended, true)
    const ids = [healthy, suspended, none]
    for (const id of ids) await set(id, `updated_at = now() - interval '80 hours'`)
    const blind = { get: () => undefined, list: () => [], synced: async () => {}, stop: async () => {} }
    const follower = { reflection: blind, lookAgain: () => {} }
    const forbidden = async () => {
      throw new ClusterError('Forbidden', 'forbidden')
    }
    for (const get of [away, forbidden]) {
      const { sweep, sweepAfter } = await sweeper(t, { cluster: { ...cluster, get, create: get }, follower })
      await sweep()
      await sweepAfter(80)
    }
    for (const id of ids) t.equal((await row(id)).status, 'processing')
    t.equal((await started()).length, 2)
  })

  t.test('a deleted row gets nothing, and a run that is over is not failed again', async (t) => {
    const [deleted, over] = [await orphaned(), await orphaned()]
    await set(deleted, 'deleted_at = now()')
    t.equal(await failRun(db, kind, world.keyIn(over), world.failure), true)
    t.equal(await failRun(db, kind, world.keyIn(over), world.failure), false)
    t.equal(await failRun(db, kind, world.keyIn(deleted), world.failure), false)
    const { sweep } = await sweeper(t)
    await sweep()
    t.strictSame(await started(), [])
  })
})
