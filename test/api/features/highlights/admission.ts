import t from 'tap'
import { listenForNotifications } from '../../../../api/db/notification-listener.ts'
import { startRenderAdmission } from '../../../../api/features/highlights/render/admission.ts'
import { RENDER_LINE } from '../../../../api/features/highlights/render/admission-queries.ts'
import { RENDERS } from '../../../../api/features/highlights/render/kind.ts'
import { highlightReactions } from '../../../../api/features/highlights/render/reactions.ts'
import { HIGHLIGHT_GAUGES } from '../../../../api/features/highlights/worker.ts'
import { openWorkerMetrics } from '../../../../api/worker/metrics.ts'
import { findOrganizations, listAdmissible } from '../../../../api/worker/runs/admission-queries.ts'
import { failRun } from '../../../../api/worker/runs/commands.ts'
import { HIGHLIGHT_RENDERS } from '../../../../crds/highlight-render.ts'
import type { OutboxMessage } from '../../../../lib/contract/events.ts'
import { newUuid, parseId, type Uuid } from '../../../../lib/contract/ids.ts'
import { originalKey } from '../../../../lib/contract/object-keys.ts'
import { startTestApi, uuidOf } from '../../../support/api.ts'
import { NAMESPACE, testCluster } from '../../../support/conversion-world.ts'
import { eventually } from '../../../support/eventually.ts'
import { planOf, vacuum } from '../../../support/explain.ts'
import { highlightWorld, renderWorld } from '../../../support/highlights.ts'
import { inTurn } from '../../../support/in-turn.ts'
import { quietLog } from '../../../support/quiet-log.ts'

/** What is particular to the slots of highlights. What holds for every kind is in `test/api/worker/runs/slots.ts`. */
const api = await startTestApi(t)
const { database } = api
const world = highlightWorld(api)
const { aHighlight, aMedia, get, sql, orgId } = world
const cluster = testCluster(t)
const inCluster = renderWorld(api, world, cluster)
const { render, row, deps } = inCluster
const { db } = deps
const log = quietLog()
const uuid = (id: string) => uuidOf('highlight', id)

interface Teardown {
  teardown(fn: () => Promise<void>): void
}

/** What one of several workers does about highlights. */
function worker(t: Teardown, max: number) {
  const admission = startRenderAdmission(deps, { maxPerOrganization: max, backoffMs: () => 10 })
  t.teardown(() => admission.stop())
  const reactions = highlightReactions({ ...deps, admission })
  const react = async (id: string) =>
    reactions.HighlightRequested?.({ aggregateId: uuid(id), type: 'HighlightRequested' } as OutboxMessage)
  return { admission, react, reactions }
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
const end = async (id: string) => {
  await failRun(db, RENDERS, { id: uuid(id), generation: 1 }, { code: 'INTERNAL', message: 'x', mediaId: null })
  await cluster.delete(HIGHLIGHT_RENDERS, inCluster.keyOf(id))
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

t.test('dates that become known before the highlight gets its slot are shown', async (t) => {
  const { react } = worker(t, 1)
  const reads = (id: string, capturedAt: string | null) =>
    sql('update media set manifest = $2 where id = $1', [uuidOf('media', id), { source: { capturedAt } }])
  const known = await world.converted({ kind: 'image', capturedAt: '2026-07-01T23:30:00-05:00' })
  const live = await aLivePhoto()
  const [read, undated, late] = [await aMedia(), await aMedia(), await aMedia({ kind: 'video', status: 'processing' })]
  const [inUtc, zoned] = [await aMedia({ kind: 'video' }), await aMedia({ kind: 'video' })]
  const media = [known, live.image, read, undated, late, inUtc, zoned]
  const [id, other] = [await aHighlight({ media, json: { captions: 'date' } }), await aHighlight({ media })]
  await reads(live.image, '2026-07-02T10:00:00Z')
  await reads(read, '2026-07-03T10:00:00Z')
  await reads(undated, null)
  await reads(known, '2026-07-04T10:00:00Z')
  await reads(inUtc, '2026-07-05T01:30:00.000000Z')
  await reads(zoned, '2026-07-05T21:30:00-04:00')
  await react(id)
  const captions = async () => (await render(id))?.spec.items.map(({ caption }) => caption)
  const shown = ['2026-07-01', '2026-07-02', '2026-07-03', '', '', '', '2026-07-05']
  t.strictSame(await captions(), shown)

  await reads(late, '2026-07-05T10:00:00Z')
  await cluster.delete(HIGHLIGHT_RENDERS, inCluster.keyOf(id))
  await react(id)
  t.strictSame(await captions(), shown, 'a render that begins again has the same items')
  t.strictSame(
    (await world.itemsOf(other)).map(({ caption }) => caption),
    ['', '', '', '', '', '', ''],
    'a highlight without dates gets none',
  )
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
