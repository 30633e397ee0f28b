import t from 'tap'
import { retryMedia } from '../../../../../api/features/media/commands.ts'
import { startVideoAdmission } from '../../../../../api/features/media/conversion/admission.ts'
import { startBatches } from '../../../../../api/features/media/conversion/batches.ts'
import { CONVERSIONS } from '../../../../../api/features/media/conversion/kind.ts'
import { conversionReactions } from '../../../../../api/features/media/conversion/reactions.ts'
import type { AdmissionOptions } from '../../../../../api/worker/admission.ts'
import { listenForNotifications } from '../../../../../api/worker/notification-listener.ts'
import { runReactions } from '../../../../../api/worker/reactions.ts'
import { completeRun, failRun, recordProgress } from '../../../../../api/worker/runs/commands.ts'
import { followRuns } from '../../../../../api/worker/runs/project.ts'
import { sweepRuns } from '../../../../../api/worker/runs/sweep.ts'
import { TRANSCODE_JOBS } from '../../../../../crds/transcode-job.ts'
import { parseId, type Uuid } from '../../../../../lib/contract/ids.ts'
import { type Cluster, ClusterError } from '../../../../../lib/runtime/kube/cluster.ts'
import { conversionWorld, emptyQueue, mediaEvent, startConversionTest } from '../../../../support/conversion-world.ts'
import { eventually } from '../../../../support/eventually.ts'
import { inTurn, locksInOrder } from '../../../../support/in-turn.ts'
import { quietLog } from '../../../../support/quiet-log.ts'

const { database, place, cluster, world, base, clear } = await startConversionTest(t)
const other = await conversionWorld(database, place, cluster)
const { worker: db, admin, url } = database
const log = quietLog()

interface Teardown {
  teardown(fn: () => Promise<void>): void
}

/** What one of several workers does about admission. */
function worker(t: Teardown, max: number, on: Partial<Cluster> = {}, options: Partial<AdmissionOptions> = {}) {
  const deps = { ...base, cluster: { ...cluster, ...on } }
  const admission = startVideoAdmission(deps, { maxPerOrganization: max, backoffMs: () => 10, ...options })
  const batches = startBatches(deps, { interactive: max, backfill: max })
  t.teardown(async () => void (await Promise.all([admission.stop(), batches.stop()])))
  const react = (id: Uuid, orgId = world.org) =>
    runReactions([conversionReactions({ ...deps, admission, batches })])(mediaEvent('MediaUploaded', id, orgId))
  return { admission, react, deps: { ...deps, batches } }
}

async function uploads(n: number, of = world): Promise<Uuid[]> {
  const ids: Uuid[] = []
  for (let i = 0; i < n; i++) ids.push(await of.upload())
  return ids
}
/** Media ids that have a TranscodeJob, in the order in which they got it. */
async function started(): Promise<Uuid[]> {
  const jobs = await world.jobs()
  const version = (job: (typeof jobs)[number]) => Number(job.metadata.resourceVersion)
  const inputs = jobs
    .sort((a, b) => version(a) - version(b))
    .map((job) => job as never as { spec: { inputs: { id: string }[] } })
  return inputs.map((job) => parseId('media', job.spec.inputs[0]?.id ?? '') as Uuid)
}
const remove = (id: Uuid) => cluster.delete(TRANSCODE_JOBS, world.keyOf(id))
const end = async (id: Uuid) => {
  await failRun(db, CONVERSIONS, { id, generation: 1 }, { code: 'CORRUPT_INPUT', message: 'over' })
  await remove(id)
}
/** How many videos have a slot. */
async function admitted(orgId = world.org): Promise<number> {
  const { rows } = await admin.query(
    `select count(*)::int as n from media where org_id = $1 and conversion_admitted_at is not null
      and upload_status = 'processing' and deleted_at is null`,
    [orgId],
  )
  return rows[0].n
}

t.beforeEach(clear)

t.test('the reaction for a video above the cap succeeds, and the video waits as queued', async (t) => {
  const { react } = worker(t, 2)
  const ids = await uploads(3)
  for (const id of ids) await react(id)
  t.strictSame(await started(), ids.slice(0, 2))
  t.match(await world.row(ids[2] as Uuid), {
    upload_status: 'processing',
    conversion_state: 'queued',
    conversion_admitted_at: null,
    version: 1,
  })
})

t.test('a reaction that is repeated admits nothing twice', async (t) => {
  const { react } = worker(t, 2)
  const ids = await uploads(4)
  for (const id of [...ids, ...ids]) await react(id)
  await Promise.all(ids.map((id) => react(id)))
  t.strictSame(await started(), ids.slice(0, 2))
  t.equal(await admitted(), 2)
})

t.test('the reaction for a newer video gives the slot to the oldest', async (t) => {
  const { react } = worker(t, 1)
  const [oldest, newer] = await uploads(2)
  await react(newer as Uuid)
  t.strictSame(await started(), [oldest])
})

t.test('two workers never exceed the cap, and every video gets its turn', async (t) => {
  const max = 3
  const workers = [worker(t, max), worker(t, max)]
  const ids = await uploads(24)
  const seen: number[] = []
  const watching = new AbortController()
  const watch = (async () => {
    while (!watching.signal.aborted) seen.push(await admitted())
  })()
  await Promise.all(workers.flatMap(({ react }) => ids.map((id) => react(id))))
  const done = new Set<Uuid>()
  while (done.size < ids.length) {
    const running = (await started()).filter((id) => !done.has(id))
    t.ok(running.length > 0 && running.length <= max, `${running.length} at once`)
    // Several end at the same moment, and both workers hear of it.
    await Promise.all(running.map(end))
    for (const id of running) done.add(id)
    await Promise.all(workers.flatMap(({ admission }) => [admission.fill([world.org]), admission.fill()]))
  }
  watching.abort()
  await watch
  t.ok(seen.length > 10)
  t.ok(Math.max(...seen) <= max, `at most ${Math.max(...seen)} had a slot`)
  t.equal(await admitted(), 0)
})

t.test('a worker that is overtaken while it admits a video does not exceed the cap', async (t) => {
  const [slow, fast] = [worker(t, 1), worker(t, 1)]
  const [newer] = (await uploads(1)) as [Uuid]
  const holder = await admin.connect()
  await holder.query('begin')
  await holder.query('select from media where id = $1 for update', [newer])
  const first = slow.admission.fill([world.org])
  const blocked = async () =>
    (await admin.query(`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`))
      .rowCount
  await eventually('the slow one to have chosen', async () => (await blocked()) === 1)
  const [older] = (await uploads(1)) as [Uuid]
  await admin.query(`update media set created_at = now() - interval '1 hour' where id = $1`, [older])
  let isDone = false
  const second = fast.admission.fill([world.org]).finally(() => {
    isDone = true
  })
  await eventually('the fast one', async () => isDone || (await blocked()) === 2)
  await holder.query('commit')
  holder.release()
  await Promise.all([first, second])
  t.equal(await admitted(), 1)
  t.strictSame(await started(), [newer])
})

t.test('a video of another organization does not wait behind a long line', async (t) => {
  const { admission } = worker(t, 2)
  const many = await uploads(5)
  const [late] = await uploads(1, other)
  await admission.fill()
  t.strictSame(await started(), [many[0], late, many[1]])
})

const ends: [string, (id: Uuid) => Promise<unknown>][] = [
  ['failed', (id) => failRun(db, CONVERSIONS, { id, generation: 1 }, { code: 'INTERNAL', message: 'x' })],
  ['is completed', (id) => completeRun(db, CONVERSIONS, { id, generation: 1 }, null)],
  ['was deleted', (id) => admin.query('update media set deleted_at = now() where id = $1', [id])],
]
for (const [what, act] of ends) {
  t.test(`when a conversion ${what} the next one starts, without a sweep`, async (t) => {
    const { react, admission } = worker(t, 1)
    const [first, second] = (await uploads(2)) as [Uuid, Uuid]
    await react(first)
    const listener = listenForNotifications({
      url,
      channels: { conversions: (org) => org && admission.wake(org as Uuid) },
      log,
    })
    t.teardown(() => listener.close())
    await listening()
    await act(first)
    await eventually('the next one', () => world.job(second))
  })
}

/** Notifications that are sent before this are lost. */
const listening = () =>
  eventually('a listener', async () => {
    const { rowCount } = await admin.query(
      `select from pg_stat_activity where datname = current_database() and query like '%listen conversions%' and state = 'idle'`,
    )
    return rowCount
  })

t.test('after a connection that was lost everything is looked at', async (t) => {
  const { admission } = worker(t, 1)
  const [id] = (await uploads(1)) as [Uuid]
  const listener = listenForNotifications({ url, channels: { conversions: (org) => admission.wake(org as Uuid) }, log })
  t.teardown(() => listener.close())
  await eventually('a TranscodeJob', () => world.job(id))
})

t.test('a retry waits for a slot like any other, and is woken at once', async (t) => {
  const { react, admission } = worker(t, 1)
  const [first, second] = (await uploads(2)) as [Uuid, Uuid]
  await react(first)
  await end(first)
  await admission.fill()
  t.ok(await world.job(second))
  const listener = listenForNotifications({
    url,
    channels: { conversions: (org) => org && admission.wake(org as Uuid) },
    log,
  })
  t.teardown(() => listener.close())
  await listening()
  await retryMedia(db, first)
  await admission.fill()
  t.equal(await world.job(first, 2), undefined)
  t.match(await world.row(first), { conversion_state: 'queued', conversion_admitted_at: null })
  await end(second)
  await eventually('the second generation', () => world.job(first, 2))
})

t.test('a specification that the cluster refuses frees its slot', async (t) => {
  const invalid = async () => {
    throw new ClusterError('Invalid', 'no')
  }
  const { react } = worker(t, 1, { create: invalid })
  const [first, second] = (await uploads(2)) as [Uuid, Uuid]
  await react(first)
  t.equal((await world.row(first)).upload_status, 'failed')
  const { admission } = worker(t, 1)
  await admission.fill()
  t.ok(await world.job(second))
})

t.test('while the cluster is unavailable the video keeps its slot, and the start is repeated', async (t) => {
  let isAway = true
  const create: Cluster['create'] = async (...given) => {
    if (isAway) throw new ClusterError('Unavailable', 'away')
    return cluster.create(...given)
  }
  const { react } = worker(t, 1, { create })
  const [first, second] = (await uploads(2)) as [Uuid, Uuid]
  await t.rejects(react(first), { message: 'away' }, 'the event of the admitted one is tried again')
  await react(second)
  t.equal(await admitted(), 1)
  isAway = false
  await eventually('the first one', () => world.job(first))
  t.equal(await world.job(second), undefined)
})

t.test('waiting counts toward no deadline', async (t) => {
  const max = 1
  const { admission, react, deps } = worker(t, max)
  const projector = followRuns(base, CONVERSIONS, { progressMs: 0 })
  t.teardown(() => projector.stop())
  const sweep = () =>
    sweepRuns({ ...deps, follower: projector, queue: emptyQueue, fillers: [deps.batches, admission] }, CONVERSIONS, {
      idleSeconds: 0,
      marginSeconds: 60,
      giveUpSeconds: 60,
    })
  const [first, second] = (await uploads(2)) as [Uuid, Uuid]
  await react(first)
  const before = (await world.row(second))['updated_at']
  await admin.query(
    `update media set updated_at = now() - interval '90 days', created_at = now() - interval '90 days'
    where id = $1`,
    [second],
  )
  await sweep()
  t.match(await world.row(second), { upload_status: 'processing', conversion_state: 'queued' })

  await end(first)
  await sweep()
  t.ok(await world.job(second), 'the sweep fills the slot whose notification was lost')
  t.ok(((await world.row(second))['updated_at'] as Date) >= (before as Date), 'its time begins now')
  await remove(second)
  const broken = { ...deps, cluster: { ...deps.cluster, create: async () => Promise.reject(new Error('away')) } }
  await sweepRuns(
    { ...broken, follower: projector, queue: emptyQueue, fillers: [deps.batches, admission] },
    CONVERSIONS,
    {
      idleSeconds: 0,
      marginSeconds: 60,
      giveUpSeconds: 60,
    },
  )
  t.equal((await world.row(second)).upload_status, 'processing', 'and has not run out')
})

t.test('a sweep makes the TranscodeJob of an admitted video, and none for one that waits', async (t) => {
  const { admission, deps } = worker(t, 1)
  const projector = followRuns(base, CONVERSIONS, { progressMs: 0 })
  t.teardown(() => projector.stop())
  const [first, second] = (await uploads(2)) as [Uuid, Uuid]
  await admin.query('update media set conversion_admitted_at = now() where id = $1', [first])
  const options = { idleSeconds: 0, marginSeconds: 60, giveUpSeconds: 60 }
  await Promise.all(
    [1, 2, 3].map(() =>
      sweepRuns(
        { ...deps, follower: projector, queue: emptyQueue, fillers: [deps.batches, admission] },
        CONVERSIONS,
        options,
      ),
    ),
  )
  t.strictSame(await started(), [first])
  t.match(await world.row(second), { conversion_admitted_at: null })
})

t.test('a video that was seen running has a slot, even when its TranscodeJob was made without one', async (t) => {
  const [id] = (await uploads(1)) as [Uuid]
  await recordProgress(db, CONVERSIONS, { id, generation: 1 }, { startedAt: new Date(), attempts: 1, progress: null })
  t.equal(await admitted(), 1)
})

t.test(
  'a video that is deleted between the decision and its lock gets no slot, and has none when restored',
  async (t) => {
    const { admission } = worker(t, 1)
    const [first, second] = (await uploads(2)) as [Uuid, Uuid]
    const deletion = { text: 'update media set deleted_at = now() where id = $1', values: [first] }
    const [got] = await inTurn(database, deletion, () => admission.fill([world.org]))
    t.strictSame([...(got ?? [])], [])
    t.strictSame([...(await admission.fill([world.org]))], [second], 'the slot is free')
    await admin.query('update media set deleted_at = null where id = $1', [first])
    t.equal(await admitted(), 1)
  },
)

t.test('videos that are admitted are locked in order of id, like those of a highlight', async (t) => {
  const { admission } = worker(t, 2)
  const [low, high] = (await uploads(2)).sort()
  if (!low || !high) throw new Error('no videos')
  // Of a small table Postgres reads the rows in the order of their last change.
  await admin.query('update media set updated_at = now() where id = $1', [low])
  await admin.query('vacuum media')
  const admit = async () => {
    admission.wake(world.org)
    await eventually('both to be admitted', async () => (await admitted()) === 2)
  }
  t.ok(await locksInOrder(database, 'media', [low, high], admit))
})
