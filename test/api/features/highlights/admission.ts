import t from 'tap'
import { startRenderAdmission } from '../../../../api/features/highlights/render/admission.ts'
import { RENDER_LINE } from '../../../../api/features/highlights/render/admission-queries.ts'
import { RENDERS } from '../../../../api/features/highlights/render/kind.ts'
import { highlightReactions } from '../../../../api/features/highlights/render/reactions.ts'
import { HIGHLIGHT_GAUGES } from '../../../../api/features/highlights/worker.ts'
import { findOrganizations, listAdmissible } from '../../../../api/worker/admission-queries.ts'
import { openWorkerMetrics } from '../../../../api/worker/metrics.ts'
import { listenForNotifications } from '../../../../api/worker/notification-listener.ts'
import { completeRun, failRun } from '../../../../api/worker/runs/commands.ts'
import { followRuns } from '../../../../api/worker/runs/project.ts'
import { sweepRuns } from '../../../../api/worker/runs/sweep.ts'
import { HIGHLIGHT_RENDERS } from '../../../../crds/highlight-render.ts'
import type { OutboxMessage } from '../../../../lib/contract/events.ts'
import { HighlightManifest } from '../../../../lib/contract/highlight-manifest.ts'
import { newUuid, parseId, type Uuid } from '../../../../lib/contract/ids.ts'
import { manifestKey, originalKey } from '../../../../lib/contract/object-keys.ts'
import { systemClock } from '../../../../lib/runtime/clock.ts'
import { type Cluster, ClusterError } from '../../../../lib/runtime/kube/cluster.ts'
import { startTestApi, uuidOf } from '../../../support/api.ts'
import { emptyQueue, NAMESPACE, testCluster } from '../../../support/conversion-world.ts'
import { eventually } from '../../../support/eventually.ts'
import { planOf, vacuum } from '../../../support/explain.ts'
import { highlightWorld, renderWorld } from '../../../support/highlights.ts'
import { inTurn, locksInOrder } from '../../../support/in-turn.ts'
import { quietLog } from '../../../support/quiet-log.ts'

/** How many highlights of one organization are in the cluster at once. The mechanism is that of videos, tested there too. */
const api = await startTestApi(t)
const { database, store } = api
const world = highlightWorld(api)
const { aHighlight, aMedia, get, sql, orgId } = world
const cluster = testCluster(t)
const inCluster = renderWorld(api, world, cluster)
const { render, row, deps } = inCluster
const { db } = deps
const log = quietLog()
const uuid = (id: string) => uuidOf('highlight', id)
const keyIn = (id: string) => ({ id: uuid(id), generation: 1 })

interface Teardown {
  teardown(fn: () => Promise<void>): void
}

/** What one of several workers does about inCluster. */
function worker(t: Teardown, max: number, on: Partial<Cluster> = {}) {
  const mine = { ...deps, cluster: { ...cluster, ...on } }
  const admission = startRenderAdmission(mine, { maxPerOrganization: max, backoffMs: () => 10 })
  t.teardown(() => admission.stop())
  const reactions = highlightReactions({ ...mine, admission })
  const react = async (id: string) =>
    reactions.HighlightRequested?.({ aggregateId: uuid(id), type: 'HighlightRequested' } as OutboxMessage)
  const sweep = async (options: object = {}) => {
    const renders = followRuns({ ...mine, clock: systemClock }, RENDERS, { progressMs: 0 })
    await renders.reflection.synced()
    const all = {
      ...mine,
      follower: renders,
      queue: emptyQueue,
      fillers: [admission],
      clock: systemClock,
    }
    await sweepRuns(all, RENDERS, { idleSeconds: 0, marginSeconds: 60, giveUpSeconds: 60, ...options })
    await renders.stop()
  }
  return { admission, react, sweep, reactions }
}

async function wanted(n: number): Promise<string[]> {
  const ids: string[] = []
  for (let i = 0; i < n; i++) ids.push(await aHighlight())
  return ids
}
/** Uuids of highlights that have a HighlightRender, in the order in which they got it. */
async function started(): Promise<Uuid[]> {
  const renders = await cluster.list(HIGHLIGHT_RENDERS, { namespace: NAMESPACE })
  const version = (one: (typeof renders)[number]) => Number(one.metadata.resourceVersion)
  return renders
    .sort((a, b) => version(a) - version(b))
    .map((one) => parseId('highlight', (one as never as { spec: { id: string } }).spec.id) as Uuid)
}
async function admitted(): Promise<number> {
  const [{ n }] = await sql(
    `select count(*)::int as n from highlights where org_id = $1 and render_admitted_at is not null
      and status = 'processing' and deleted_at is null`,
    [orgId],
  )
  return n
}
const fail = (id: string) => failRun(db, RENDERS, keyIn(id), { code: 'INTERNAL', message: 'x', mediaId: null })
const end = async (id: string) => {
  await fail(id)
  await cluster.delete(HIGHLIGHT_RENDERS, inCluster.keyOf(id))
}
async function complete(id: string): Promise<void> {
  await inCluster.writeOutput(id)
  const { body } = await store.get(manifestKey(inCluster.prefixOf(id)))
  const manifest = HighlightManifest.parse(JSON.parse(Buffer.concat(await body.toArray()).toString()))
  await completeRun(db, RENDERS, keyIn(id), { prefix: inCluster.prefixOf(id), manifest })
}

t.beforeEach(async () => {
  await sql('delete from highlights')
  for (const one of await cluster.list(HIGHLIGHT_RENDERS, { namespace: NAMESPACE })) {
    await cluster.delete(HIGHLIGHT_RENDERS, { namespace: NAMESPACE, name: one.metadata.name })
  }
})

t.test(
  'a highlight beyond the limit waits as queued, the oldest is rendered first, and events may come twice',
  async (t) => {
    const { react } = worker(t, 2)
    const ids = await wanted(4)
    for (const id of [...ids].reverse()) await react(id)
    await Promise.all(ids.map(react))
    t.strictSame(await started(), ids.slice(0, 2).map(uuid))
    t.equal(await admitted(), 2)
    const waiting = ids[2] as string
    t.match(await row(waiting), { status: 'processing', render_state: 'queued', render_admitted_at: null, version: 1 })
    t.match((await get(waiting)).data, { status: 'processing', progress: null }, 'as the API shows it')
    const metrics = openWorkerMetrics(db)
    metrics.showRows(HIGHLIGHT_GAUGES)
    const { body } = await metrics.text()
    t.match(body, /^renders_waiting 2$/m)
  },
)

t.test('two workers never exceed the limit, and every highlight gets its turn', async (t) => {
  const max = 2
  const workers = [worker(t, max), worker(t, max)]
  const ids = await wanted(7)
  await Promise.all(workers.flatMap(({ react }) => ids.map(react)))
  const done = new Set<Uuid>()
  while (done.size < ids.length) {
    const running = (await started()).filter((id) => !done.has(id))
    t.ok(running.length > 0 && running.length <= max, `${running.length} at once`)
    t.equal(await admitted(), running.length)
    await Promise.all(ids.filter((id) => running.includes(uuid(id))).map(end))
    for (const id of running) done.add(id)
    await Promise.all(workers.flatMap(({ admission }) => [admission.fill([orgId]), admission.fill()]))
  }
  t.equal(await admitted(), 0)
})

t.test('of two workers that decide at once, the second sees what the first has admitted', async (t) => {
  const [one, two] = [worker(t, 1), worker(t, 1)]
  const [first] = await wanted(2)
  const lock = { text: 'select from organizations where id = $1 for update', values: [orgId] }
  const fill = (of: typeof one) => () => of.admission.fill([orgId])
  const [by, late] = await inTurn(database, lock, fill(one), fill(two))
  t.strictSame([[...(by ?? [])], [...(late ?? [])]], [[uuid(first as string)], []])
})

t.test('a highlight of another organization does not wait behind a long line', async (t) => {
  const { admission } = worker(t, 2)
  const many = await wanted(4)
  const [late, other, person] = [newUuid(), newUuid(), newUuid()]
  await sql(`insert into organizations (id, name) values ($1, 'Others')`, [other])
  await sql(`insert into users (id, issuer, subject) values ($1, 'test', 'other')`, [person])
  await sql(
    `insert into highlights (id, org_id, created_by, title, transition, orientation, fill, ken_burns, show_title,
      captions, skip_broken, estimated_duration_sec) values ($1, $2, $3, 'x', 'cut', 'auto', 'blur', true, true, 'none',
      false, 4)`,
    [late, other, person],
  )
  await sql(
    `insert into highlight_items (highlight_id, position, org_id, media_id, source_id, uploader_id, type, seconds,
      caption) values ($1, 0, $2, $3, $3, $4, 'image', 4, '')`,
    [late, other, newUuid(), person],
  )
  await admission.fill()
  t.strictSame(await started(), [uuid(many[0] as string), late, uuid(many[1] as string)])
})

t.test('a highlight whose sources are still being converted is rendered like any other', async (t) => {
  const { react } = worker(t, 1)
  const unconverted = await aMedia({ kind: 'video', status: 'processing' })
  const id = await aHighlight({ media: [unconverted] })
  await react(id)
  t.ok(await render(id))
})

/** The image and the video of a new Live Photo. */
async function aLivePhoto() {
  const pair = newUuid()
  return { image: await world.upload('image', pair), video: uuidOf('media', await world.upload('video', pair)) }
}
const breaks = (video: Uuid) => sql(`update media set upload_status = 'failed' where id = $1`, [video])

t.test('a Live Photo whose moving part fails before the highlight gets its slot is shown by its image', async (t) => {
  const { react } = worker(t, 1)
  const [broken, fine, late] = [await aLivePhoto(), await aLivePhoto(), await aLivePhoto()]
  const id = await aHighlight({ media: [broken.image, fine.image, late.image] })
  const other = await aHighlight({ media: [broken.image] })
  t.match((await get(id)).data.items, [{ type: 'motion' }, { type: 'motion' }, { type: 'motion' }])
  await breaks(broken.video)
  await react(id)
  const shown = [
    { id: broken.image, type: 'image', sourceKey: originalKey(orgId, uuidOf('media', broken.image)), seconds: 3 },
    { id: fine.image, type: 'motion', sourceKey: originalKey(orgId, fine.video), seconds: 15 },
    { id: late.image, type: 'motion', sourceKey: originalKey(orgId, late.video), seconds: 15 },
  ]
  t.match((await render(id))?.spec.items, shown)
  t.match((await get(id)).data.items, [{ type: 'image' }, { type: 'motion' }, { type: 'motion' }])
  t.match(await world.itemsOf(other), [{ type: 'motion' }], 'a highlight that waits is not decided yet')

  await breaks(late.video)
  await cluster.delete(HIGHLIGHT_RENDERS, inCluster.keyOf(id))
  await react(id)
  t.match((await render(id))?.spec.items, shown, 'a render that begins again has the same items')
})

t.test('a highlight that is finished between the decision and its lock keeps its items and gets no slot', async (t) => {
  const { admission } = worker(t, 1)
  const live = await aLivePhoto()
  const first = await aHighlight({ media: [live.image] })
  const second = await aHighlight()
  await breaks(live.video)
  const finish = { text: `update highlights set status = 'completed' where id = $1`, values: [uuid(first)] }
  const [got] = await inTurn(database, finish, () => admission.fill([orgId]))
  t.strictSame([...(got ?? [])], [])
  t.match(await row(first), { status: 'completed', render_admitted_at: null })
  t.match(await world.itemsOf(first), [{ type: 'motion', seconds: 15 }])
  t.strictSame([...(await admission.fill([orgId]))], [uuid(second)], 'the slot is free')
})

const ends: [string, (id: string) => Promise<unknown>][] = [
  ['failed', fail],
  ['is finished', complete],
  ['was deleted', (id) => world.remove(id)],
  ['lost a source', async (id) => world.deleteMedia((await get(id)).data.media_ids[0])],
]
for (const [what, act] of ends) {
  t.test(`when a highlight ${what} the next one starts, without a sweep`, async (t) => {
    const { react, admission, reactions } = worker(t, 1)
    const [first, second] = (await wanted(2)) as [string, string]
    await react(first)
    let woken = 0
    const wake = (org?: string) => {
      woken += 1
      if (org) admission.wake(org as Uuid)
    }
    const listener = listenForNotifications({ url: database.url, channels: { renders: wake }, log })
    t.teardown(() => listener.close())
    await eventually('the listener', async () => woken > 0)
    await act(first)
    const media = (await get(first)).data?.media_ids?.[0]
    if (media) await reactions.MediaDeleted?.({ aggregateId: uuidOf('media', media) } as OutboxMessage)
    t.ok(await eventually('the next one', () => render(second)))
  })
}

t.test('workers of the version before hear of the end of a render under its earlier name', async (t) => {
  const { react } = worker(t, 1)
  const [id] = (await wanted(1)) as [string]
  await react(id)
  const heard: (string | undefined)[] = []
  const listener = listenForNotifications({ url: database.url, channels: { films: (org) => heard.push(org) }, log })
  t.teardown(() => listener.close())
  await eventually('the listener', async () => heard.length > 0)
  await world.remove(id)
  await eventually('the notification', async () => heard.includes(orgId))
})

t.test('a highlight that loses a source while it waits fails, and takes no slot', async (t) => {
  const { react, admission, reactions } = worker(t, 1)
  const [first, second, third] = (await wanted(3)) as [string, string, string]
  await react(first)
  const media = (await get(second)).data.media_ids[0]
  await world.deleteMedia(media)
  await reactions.MediaDeleted?.({ aggregateId: uuidOf('media', media) } as OutboxMessage)
  t.match((await get(second)).data, { status: 'failed', error: { code: 'SOURCE_DELETED' } })
  await end(first)
  await admission.fill([orgId])
  t.strictSame(await started(), [uuid(third)])
})

t.test('a specification that the cluster refuses frees its slot', async (t) => {
  const create = async () => {
    throw new ClusterError('Invalid', 'no')
  }
  const [first, second] = (await wanted(2)) as [string, string]
  await worker(t, 1, { create }).react(first)
  t.equal((await get(first)).data.status, 'failed')
  await worker(t, 1).admission.fill()
  t.ok(await render(second))
})

t.test('while the cluster is unavailable the highlight keeps its slot, and the start is repeated', async (t) => {
  let isAway = true
  const create: Cluster['create'] = async (...given) => {
    if (isAway) throw new ClusterError('Unavailable', 'away')
    return cluster.create(...given)
  }
  const { react } = worker(t, 1, { create })
  const [first, second] = (await wanted(2)) as [string, string]
  await t.rejects(react(first), { message: 'away' }, 'the event of the admitted one is tried again')
  await react(second)
  t.equal(await admitted(), 1)
  isAway = false
  t.ok(await eventually('the first one', () => render(first)))
  t.equal(await render(second), undefined)
})

t.test('waiting counts toward no deadline, and a sweep fills the slot whose notification was lost', async (t) => {
  const { react, sweep } = worker(t, 1)
  const [first, second] = (await wanted(2)) as [string, string]
  await react(first)
  const long = `now() - interval '90 days'`
  await sql(`update highlights set updated_at = ${long}, created_at = ${long} where id = $1`, [uuid(second)])
  await sweep()
  t.match(await row(second), { status: 'processing', render_state: 'queued' })
  await end(first)
  await sweep()
  t.ok(await render(second))
  await cluster.delete(HIGHLIGHT_RENDERS, inCluster.keyOf(second))
  const create = () => Promise.reject(new Error('away'))
  await worker(t, 1, { create }).sweep()
  t.equal((await get(second)).data.status, 'processing', 'its time began with the slot')
})

t.test('sweeps make the HighlightRender of an admitted highlight, once, and none for one that waits', async (t) => {
  const { sweep } = worker(t, 1)
  const [first, second] = (await wanted(2)) as [string, string]
  await sql('update highlights set render_admitted_at = now() where id = $1', [uuid(first)])
  await Promise.all([1, 2, 3].map(() => sweep()))
  t.strictSame(await started(), [uuid(first)])
  t.match(await row(second), { render_admitted_at: null })
})

t.test(
  'a highlight that was seen running has a slot, even when its HighlightRender was made without one',
  async (t) => {
    const id = await inCluster.rendering()
    await sql('update highlights set render_admitted_at = null where id = $1', [uuid(id)])
    const renders = followRuns({ ...deps, clock: systemClock }, RENDERS, { progressMs: 0 })
    t.teardown(() => renders.stop())
    await inCluster.show(id, { phase: 'Running', attempts: 1, startTime: '2026-05-01T10:00:00Z' })
    t.ok(await eventually('a slot', async () => (await admitted()) === 1))
  },
)

t.test('highlights that are admitted are locked in order of id', async (t) => {
  const { admission } = worker(t, 2)
  const [low, high] = (await wanted(2)).map(uuid).sort()
  if (!low || !high) throw new Error('no highlights')
  // Of a small table Postgres reads the rows in the order of their last change.
  await sql('update highlights set updated_at = now() where id = $1', [low])
  await sql('vacuum highlights')
  t.ok(await locksInOrder(database, 'highlights', [low, high], () => admission.fill([orgId])))
})

t.test('the decision reads highlights that are not finished, and none in vain', async (t) => {
  await wanted(3)
  await sql(
    `insert into highlights (id, org_id, created_by, title, transition, orientation, fill, ken_burns, show_title,
      captions, skip_broken, estimated_duration_sec, status)
     select gen_random_uuid(), org_id, created_by, 'x', 'cut', 'auto', 'blur', true, true, 'none', false, 4, 'completed'
     from highlights, generate_series(1, 3000)`,
  )
  await vacuum(database, 'highlights')
  const asked = {
    listAdmissible: await planOf(database, orgId, (tx) => listAdmissible(tx, RENDER_LINE, 4)),
    findOrganizations: await planOf(database, orgId, (tx) => findOrganizations(tx, RENDER_LINE, [orgId], 4)),
  }
  for (const [name, nodes] of Object.entries(asked)) {
    const scans = nodes.filter((node) => node['Relation Name'] === 'highlights')
    t.ok(scans.length > 1, name)
    for (const scan of scans) {
      t.match(scan['Index Name'], /^highlights_(waiting|admitted)$/, name)
      t.notOk(scan['Rows Removed by Filter'])
    }
  }
})
