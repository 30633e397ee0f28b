import t from 'tap'
import { listenForNotifications } from '../../../../api/db/notification-listener.ts'
import type { AdmissionOptions } from '../../../../api/worker/runs/admission.ts'
import { completeRun, failRun, recordProgress } from '../../../../api/worker/runs/commands.ts'
import { followRuns } from '../../../../api/worker/runs/project.ts'
import { openSightings } from '../../../../api/worker/runs/sightings.ts'
import { sweepRuns } from '../../../../api/worker/runs/sweep.ts'
import type { Uuid } from '../../../../lib/contract/ids.ts'
import { type Cluster, ClusterError } from '../../../../lib/runtime/kube/cluster.ts'
import { emptyQueue } from '../../../support/conversion-world.ts'
import { eventually } from '../../../support/eventually.ts'
import { inTurn, locksInOrder, waitingIn } from '../../../support/in-turn.ts'
import { eachKindOfRuns } from '../../../support/run-worlds.ts'

interface Teardown {
  teardown(fn: () => Promise<void>): void
}

eachKindOfRuns(t, (t, world) => {
  const { kind, database, cluster, base, orgId, tableName, row, set, resource, started, admitted, keyIn } = world
  const { worker: db, admin, url } = database

  /** What one of several workers does about slots. */
  function worker(t: Teardown, max: number, on: Partial<Cluster> = {}, options: Partial<AdmissionOptions> = {}) {
    const deps = { ...base, cluster: { ...cluster, ...on } }
    const admission = world.startSlots(deps, { maxPerOrganization: max, backoffMs: () => 10, ...options })
    t.teardown(() => admission.stop())
    const react = (id: Uuid) => world.react({ ...deps, admission }, id)
    const sweep = async () => {
      const follower = followRuns(deps, kind, { progressMs: 0 })
      await follower.reflection.synced()
      const options = { idleSeconds: 0, marginSeconds: 60, giveUpSeconds: 60 }
      const seen = { follower, queue: emptyQueue, sightings: openSightings() }
      await sweepRuns({ ...deps, ...seen, fillers: [admission] }, kind, options)
      await follower.stop()
    }
    return { admission, react, sweep }
  }
  async function wanted(n: number): Promise<Uuid[]> {
    const ids: Uuid[] = []
    for (let i = 0; i < n; i++) ids.push(await world.wanted())
    return ids
  }
  const fail = (id: Uuid) => failRun(db, kind, keyIn(id), world.failure)
  const end = async (id: Uuid) => {
    await fail(id)
    await world.removeResource(id)
  }
  /** Resolves when the listener would hear of a notification. */
  const listening = () =>
    eventually('a listener', async () => {
      const { rowCount } = await admin.query(
        `select from pg_stat_activity where datname = current_database() and query like $1 and state = 'idle'`,
        [`%listen ${world.channel}%`],
      )
      return rowCount
    })

  t.test('a row beyond the limit waits as queued, the oldest starts first, and events may come twice', async (t) => {
    const { react } = worker(t, 2)
    const ids = await wanted(4)
    for (const id of [...ids].reverse()) await react(id)
    for (const id of ids) await react(id)
    await Promise.all(ids.map(react))
    t.strictSame(await started(), ids.slice(0, 2))
    t.equal(await admitted(), 2)
    t.match(await row(ids[2] as Uuid), { status: 'processing', state: 'queued', admittedAt: null, version: 1 })
  })

  t.test('two workers never exceed the limit, and every row gets its turn', async (t) => {
    const max = 3
    const workers = [worker(t, max), worker(t, max)]
    const ids = await wanted(24)
    const seen: number[] = []
    const watching = new AbortController()
    const watch = (async () => {
      while (!watching.signal.aborted) seen.push(await admitted())
    })()
    await Promise.all(workers.flatMap(({ react }) => ids.map(react)))
    const done = new Set<Uuid>()
    while (done.size < ids.length) {
      const running = (await started()).filter((id) => !done.has(id))
      t.ok(running.length > 0 && running.length <= max, `${running.length} at once`)
      // Several end at the same moment, and both workers hear of it.
      await Promise.all(running.map(end))
      for (const id of running) done.add(id)
      await Promise.all(workers.flatMap(({ admission }) => [admission.fill([orgId]), admission.fill()]))
    }
    watching.abort()
    await watch
    t.ok(seen.length > 10)
    t.ok(Math.max(...seen) <= max, `at most ${Math.max(...seen)} had a slot`)
    t.equal(await admitted(), 0)
  })

  t.test('of two workers that decide at once, the second sees what the first has admitted', async (t) => {
    const [one, two] = [worker(t, 1), worker(t, 1)]
    const [first] = await wanted(2)
    const lock = { text: 'select from organizations where id = $1 for update', values: [orgId] }
    const fill = (of: typeof one) => () => of.admission.fill([orgId])
    const [by, late] = await inTurn(database, lock, fill(one), fill(two))
    t.strictSame([[...(by ?? [])], [...(late ?? [])]], [[first], []])
  })

  t.test('a worker that is overtaken while it admits a row does not exceed the limit', async (t) => {
    const [slow, fast] = [worker(t, 1), worker(t, 1)]
    const [newer] = (await wanted(1)) as [Uuid]
    const holder = await admin.connect()
    await holder.query('begin')
    await holder.query(`select from ${tableName} where id = $1 for update`, [newer])
    const first = slow.admission.fill([orgId])
    await eventually('the slow one to have chosen', async () => (await waitingIn(database)) === 1)
    const [older] = (await wanted(1)) as [Uuid]
    await set(older, `created_at = now() - interval '1 hour'`)
    let isDone = false
    const second = fast.admission.fill([orgId]).finally(() => {
      isDone = true
    })
    await eventually('the fast one', async () => isDone || (await waitingIn(database)) === 2)
    await holder.query('commit')
    holder.release()
    await Promise.all([first, second])
    t.equal(await admitted(), 1)
    t.strictSame(await started(), [newer])
  })

  t.test('a row of another organization does not wait behind a long line', async (t) => {
    const { admission } = worker(t, 2)
    const many = await wanted(5)
    const late = await world.wantedElsewhere()
    await admission.fill()
    t.strictSame(await started(), [many[0], late, many[1]])
  })

  const ends: [string, (id: Uuid) => Promise<unknown>][] = [
    ['failed', fail],
    ['is completed', (id) => completeRun(db, kind, keyIn(id), null)],
    ['was deleted', (id) => set(id, 'deleted_at = now()')],
  ]
  for (const [what, act] of ends) {
    t.test(`when a run ${what} the next one starts, without a sweep`, async (t) => {
      const { react, admission } = worker(t, 1)
      const [first, second] = (await wanted(2)) as [Uuid, Uuid]
      await react(first)
      const wake = (org?: string) => org && admission.wake(org as Uuid)
      const listener = listenForNotifications({ url, channels: { [world.channel]: wake }, log: base.log })
      t.teardown(() => listener.close())
      await listening()
      await act(first)
      t.ok(await eventually('the next one', () => resource(second)))
    })
  }

  t.test('after a connection that was lost everything is looked at', async (t) => {
    const { admission } = worker(t, 1)
    const [id] = (await wanted(1)) as [Uuid]
    const wake = (org?: string) => admission.wake(org as Uuid)
    const listener = listenForNotifications({ url, channels: { [world.channel]: wake }, log: base.log })
    t.teardown(() => listener.close())
    t.ok(await eventually('a resource', () => resource(id)))
  })

  t.test('a specification that the cluster refuses frees its slot', async (t) => {
    const create = async () => {
      throw new ClusterError('Invalid', 'no')
    }
    const [first, second] = (await wanted(2)) as [Uuid, Uuid]
    await worker(t, 1, { create }).react(first)
    t.match(await row(first), { status: 'failed', error: { code: 'INTERNAL' } })
    await worker(t, 1).admission.fill()
    t.ok(await resource(second))
  })

  t.test('while the cluster is unavailable the row keeps its slot, and the start is repeated', async (t) => {
    let isAway = true
    const create: Cluster['create'] = async (...given) => {
      if (isAway) throw new ClusterError('Unavailable', 'away')
      return cluster.create(...given)
    }
    const { react } = worker(t, 1, { create })
    const [first, second] = (await wanted(2)) as [Uuid, Uuid]
    await t.rejects(react(first), { message: 'away' }, 'the event of the admitted one is tried again')
    await react(second)
    t.equal(await admitted(), 1)
    isAway = false
    t.ok(await eventually('the first one', () => resource(first)))
    t.equal(await resource(second), undefined)
  })

  t.test('waiting counts toward no deadline, and a sweep fills the slot whose notification was lost', async (t) => {
    const { react, sweep } = worker(t, 1)
    const [first, second] = (await wanted(2)) as [Uuid, Uuid]
    await react(first)
    const before = (await row(second)).updatedAt
    await set(second, `updated_at = now() - interval '90 days', created_at = now() - interval '90 days'`)
    await sweep()
    t.match(await row(second), { status: 'processing', state: 'queued' })
    await end(first)
    await sweep()
    t.ok(await resource(second))
    t.ok((await row(second)).updatedAt >= before, 'its time begins now')
    await world.removeResource(second)
    await worker(t, 1, { create: () => Promise.reject(new Error('away')) }).sweep()
    t.equal((await row(second)).status, 'processing', 'and has not run out')
  })

  t.test('sweeps make the resource of an admitted row, once, and none for one that waits', async (t) => {
    const { sweep } = worker(t, 1)
    const [first, second] = (await wanted(2)) as [Uuid, Uuid]
    await world.admit(first)
    await Promise.all([1, 2, 3].map(() => sweep()))
    t.strictSame(await started(), [first])
    t.match(await row(second), { admittedAt: null })
  })

  t.test('a row that was seen running has a slot, even when its resource was made without one', async (t) => {
    const [id] = (await wanted(1)) as [Uuid]
    await recordProgress(db, kind, keyIn(id), { startedAt: new Date(), attempts: 1, progress: null })
    t.equal(await admitted(), 1)
  })

  t.test('a row that is deleted between the decision and its lock gets no slot, not even when restored', async (t) => {
    const { admission } = worker(t, 1)
    const [first, second] = (await wanted(2)) as [Uuid, Uuid]
    const deletion = { text: `update ${tableName} set deleted_at = now() where id = $1`, values: [first] }
    const [got] = await inTurn(database, deletion, () => admission.fill([orgId]))
    t.strictSame([...(got ?? [])], [])
    t.strictSame([...(await admission.fill([orgId]))], [second], 'the slot is free')
    await set(first, 'deleted_at = null')
    t.equal(await admitted(), 1)
  })

  t.test('rows that are admitted are locked in order of id', async (t) => {
    const { admission } = worker(t, 2)
    const [low, high] = (await wanted(2)).sort()
    if (!low || !high) throw new Error('no rows')
    // Of a small table Postgres reads the rows in the order of their last change.
    await set(low, 'updated_at = now()')
    await admin.query(`vacuum ${tableName}`)
    const admit = async () => {
      admission.wake(orgId)
      await eventually('both to be admitted', async () => (await admitted()) === 2)
    }
    t.ok(await locksInOrder(database, tableName, [low, high], admit))
  })
})
