import t from 'tap'
import { startRenderAdmission } from '../../../../api/features/highlights/render/admission.ts'
import { eraseHighlightsOf } from '../../../../api/features/highlights/render/commands.ts'
import { RENDERS } from '../../../../api/features/highlights/render/kind.ts'
import { purgeHighlights } from '../../../../api/features/highlights/render/purge.ts'
import { claimPurges } from '../../../../api/features/highlights/render/queries.ts'
import { highlightReactions } from '../../../../api/features/highlights/render/reactions.ts'
import { HIGHLIGHT_GAUGES } from '../../../../api/features/highlights/worker.ts'
import { transcodeJobFor } from '../../../../api/features/media/conversion/transcode-spec.ts'
import type { FollowOptions } from '../../../../api/worker/follow.ts'
import { openWorkerMetrics } from '../../../../api/worker/metrics.ts'
import { failIfHeld, failRun } from '../../../../api/worker/runs/commands.ts'
import { followRuns, projectFact } from '../../../../api/worker/runs/project.ts'
import { openSightings } from '../../../../api/worker/runs/sightings.ts'
import { sweepRuns } from '../../../../api/worker/runs/sweep.ts'
import { HIGHLIGHT_RENDERS, parseHighlightRender } from '../../../../crds/highlight-render.ts'
import type { RunStatus } from '../../../../crds/run.ts'
import { TRANSCODE_JOBS } from '../../../../crds/transcode-job.ts'
import type { OutboxMessage } from '../../../../lib/contract/events.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { manifestKey, masterKey } from '../../../../lib/contract/object-keys.ts'
import { systemClock } from '../../../../lib/runtime/clock.ts'
import type { Resource } from '../../../../lib/runtime/kube/cluster.ts'
import { pathOf, startTestApi, uuidOf } from '../../../support/api.ts'
import { failed, NAMESPACE, running, succeeded, testCluster } from '../../../support/conversion-world.ts'
import { eventually } from '../../../support/eventually.ts'
import { highlightWorld, renderWorld } from '../../../support/highlights.ts'
import { inTurn, locksInOrder } from '../../../support/in-turn.ts'

/** What becomes of highlights in the cluster, whose part the test plays. */
const api = await startTestApi(t)
const { people, call, database, store } = api
const { another } = people
const world = highlightWorld(api)
const { aHighlight, get, remove, aMedia, sql, orgId } = world
const cluster = testCluster(t)
const { deps, admitted, keyOf, prefixOf, rendering, render, show, writeOutput, row, generated } = renderWorld(
  api,
  world,
  cluster,
)
const { db } = deps
const admission = startRenderAdmission(deps, { maxPerOrganization: 1000 })
t.teardown(() => admission.stop())
const uuid = (id: string) => uuidOf('highlight', id)
const keyIn = (id: string) => ({ id: uuid(id), generation: 1 })

function project(t: { teardown(fn: () => Promise<void>): void }, options: FollowOptions = {}) {
  const renders = followRuns(deps, RENDERS, { progressMs: 0, backoffMs: () => 10, ...options })
  t.teardown(() => renders.stop())
  return renders
}
const until = (id: string, status: string) =>
  eventually(`${status} highlight`, async () => {
    const { data } = await get(id)
    return data.status === status ? data : undefined
  })
const reactTo = async (type: 'HighlightRequested' | 'HighlightDeleted' | 'MediaDeleted', aggregateId: string) =>
  highlightReactions({ ...deps, admission })[type]?.({ aggregateId, type } as OutboxMessage)
const done = (id: string): RunStatus => ({ ...succeeded(), outputs: [{ id, state: 'Succeeded' }] })
const itemFailed = (id: string, item: string, reason = 'ItemFailed'): RunStatus => ({
  ...failed('ItemFailed'),
  outputs: [{ id, state: 'Failed', reason, message: 'The second item is damaged', item }],
})

t.test('the resource says all that was asked for, and passes the schema of its kind', async (t) => {
  const track = await world.aTrack()
  const media = [await aMedia({ kind: 'video' }), await aMedia()]
  const options = { transition: 'fade', orientation: 'square', fill: 'black', ken_burns: false, show_title: false }
  const json = { ...options, skip_broken: true, music_track_id: track, title: 'Two\nlines' }
  const id = await rendering({ media, json })
  const made = await render(id)
  t.match(made?.metadata, { name: keyOf(id).name, annotations: { 'media.keepsake.dev/highlight': id } })
  const parsed = parseHighlightRender(made)
  if ('problem' in parsed) throw new Error(parsed.problem)
  t.match(parsed.resource.spec, {
    id,
    title: 'Two lines',
    outputPrefix: prefixOf(id),
    ...{
      transition: 'fade',
      orientation: 'square',
      fill: 'black',
      kenBurns: false,
      showTitle: false,
      skipBroken: true,
    },
    music: { id: track, sourceKey: `tracks/${uuidOf('track', track)}/audio` },
    items: media.map((one, i) => ({
      id: one,
      type: i === 0 ? 'video' : 'image',
      sourceKey: `org/${orgId}/media/${uuidOf('media', one)}/original`,
      cachePrefix: `org/${orgId}/media/${uuidOf('media', one)}/pieces/`,
      seconds: i === 0 ? 15 : 3,
      caption: '',
    })),
  })
})

t.test('what is left out at the creation is not rendered, and its deletion changes nothing', async (t) => {
  const [broken, fine] = [await aMedia({ status: 'failed' }), await aMedia()]
  const id = await rendering({ media: [broken, fine], json: { skip_broken: true } })
  t.match((await render(id))?.spec, { items: [{ id: fine }] })
  t.equal((await render(id))?.spec.items.length, 1)
  await world.deleteMedia(broken)
  await reactTo('MediaDeleted', uuidOf('media', broken))
  t.equal((await get(id)).data.status, 'processing')
  project(t)
  await writeOutput(id, { items: [{ id: fine, startSec: 0, seconds: 3 }] })
  await show(id, done(id))
  t.match((await until(id, 'completed')).items, [
    { media_id: broken, start_sec: null, duration_sec: null, skipped: 'Its conversion has failed' },
    { media_id: fine, start_sec: 0, skipped: null },
  ])
})

t.test('a highlight is told from the first percent to the end', async (t) => {
  const id = await rendering({ media: [await aMedia(), await aMedia()] })
  project(t)
  await show(id, running(10))
  await eventually('the first percent', async () => (await get(id)).data.progress?.percent === 10)
  t.match((await get(id)).data, { status: 'processing', progress: { speed: '1.8x', eta_sec: 90, stage: 'Encoding' } })
  await show(id, running(20, { playable: [id] }))
  await eventually('more', async () => (await get(id)).data.progress?.percent === 20)
  t.equal((await get(id)).data.variants.hls_master_url, null, 'a playlist that is not there is not linked')
  await store.put(masterKey(prefixOf(id)), '#EXTM3U', { contentType: 'text/plain' })
  await show(id, running(30, { playable: [id] }))
  await eventually('something to play', async () => (await get(id)).data.variants.hls_master_url)

  await writeOutput(id)
  await show(id, done(id))
  const data = await until(id, 'completed')
  const [first, second] = data.media_ids
  t.match(data, {
    duration_sec: 8,
    progress: null,
    error: null,
    placeholder: 'AAAA',
    items: [
      { media_id: first, start_sec: 0, duration_sec: 4, skipped: null },
      { media_id: second, start_sec: 4, duration_sec: 4, skipped: null },
    ],
  })
  const played = await call(undefined, 'GET', pathOf(data.variants.hls_master_url))
  t.strictSame([played.status, played.headers.get('cache-control')], [200, 'private, max-age=60'])
  const events = await sql(`select payload from outbox where aggregate_id = $1 and type = 'HighlightGenerated'`, [
    uuid(id),
  ])
  t.strictSame(events, [
    { payload: { highlight_id: id, media_ids: data.media_ids, hls_master_url: masterKey(prefixOf(id)) } },
  ])
})

t.test('items that were left out are said so', async (t) => {
  const [fine, broken] = [await aMedia(), await aMedia()]
  const id = await rendering({ media: [broken, fine], json: { skip_broken: true } })
  project(t)
  const skipped = [{ id: broken, reason: 'CorruptInput', message: 'The file is damaged' }]
  await writeOutput(id, { items: [{ id: fine, startSec: 0, seconds: 4 }], skipped })
  await show(id, done(id))
  t.match((await until(id, 'completed')).items, [
    { media_id: broken, start_sec: null, duration_sec: null, skipped: 'The file is damaged' },
    { media_id: fine, start_sec: 0, skipped: null },
  ])
})

t.test('a failure says what the matter is', async (t) => {
  project(t)
  const fails = async (status: (id: string, media: string) => RunStatus) => {
    const media = [await aMedia(), await aMedia()]
    const id = await rendering({ media })
    await store.put(masterKey(prefixOf(id)), '#EXTM3U', { contentType: 'text/plain' })
    await show(id, running(30, { playable: [id] }))
    await eventually('something to play', async () => (await get(id)).data.variants.hls_master_url)
    await show(id, status(id, media[1] ?? ''))
    const { error, variants } = await until(id, 'failed')
    t.equal(variants.hls_master_url, null, 'half a highlight is not shown')
    t.equal(await generated(id), 0)
    return { code: error.code, isItem: error.media_id === media[1], message: error.message }
  }
  const damaged = { isItem: true, message: 'The second item is damaged' }
  t.strictSame(await fails(itemFailed), { code: 'ITEM_FAILED', ...damaged })
  t.match(await fails((id, media) => itemFailed(id, media, 'InputMissing')), { code: 'SOURCE_DELETED', isItem: true })
  t.match(await fails(() => failed('DeadlineExceeded')), { code: 'TIMEOUT', isItem: false })
  t.match(await fails(() => failed('StoreUnavailable', 'a secret address')), {
    code: 'INTERNAL',
    isItem: false,
    message: /unrelated to the media items/,
  })
})

t.test('a highlight whose manifest cannot be used fails after some attempts', async (t) => {
  const id = await rendering()
  project(t, { manifestAttempts: 3 })
  await writeOutput(id, { hls: { ...(await hlsOf()), master: '../../../secret.m3u8' } })
  await show(id, done(id))
  t.match((await until(id, 'failed')).error, { code: 'INTERNAL' })
  async function hlsOf() {
    const other = await rendering()
    await writeOutput(other)
    const { body } = await store.get(manifestKey(prefixOf(other)))
    return JSON.parse(Buffer.concat(await body.toArray()).toString()).hls
  }
})

t.test('a source that is deleted meanwhile fails the highlight and stops the render', async (t) => {
  const [kept, deleted] = [await aMedia(), await aMedia()]
  const id = await rendering({ media: [kept, deleted] })
  const other = await rendering({ media: [kept] })
  await world.deleteMedia(deleted)
  await reactTo('MediaDeleted', uuidOf('media', deleted))
  t.match((await get(id)).data, { status: 'failed', error: { code: 'SOURCE_DELETED', media_id: deleted } })
  t.equal(await render(id), undefined)
  t.equal((await get(other)).data.status, 'processing')
  t.ok(await render(other))
  await world.restoreMedia(deleted)
  t.equal((await get(id)).data.status, 'failed', 'a failure is final')
})

t.test('a source that is restored in time changes nothing', async (t) => {
  const media = await aMedia()
  const id = await rendering({ media: [media] })
  await world.deleteMedia(media)
  await world.restoreMedia(media)
  await reactTo('MediaDeleted', uuidOf('media', media))
  t.equal((await get(id)).data.status, 'processing')
  t.ok(await render(id))
})

t.test('a finished highlight keeps what has been deleted and purged since', async (t) => {
  const media = await aMedia()
  const id = await rendering({ media: [media] })
  project(t)
  await writeOutput(id)
  await show(id, done(id))
  await until(id, 'completed')
  await world.deleteMedia(media)
  await reactTo('MediaDeleted', uuidOf('media', media))
  await sql('delete from media where id = $1', [uuidOf('media', media)])
  t.match((await get(id)).data, { status: 'completed', media_ids: [media], duration_sec: 4 })
})

t.test('of a deletion of a source and the end of its render, the first counts', async (t) => {
  const [early, late] = [await aMedia(), await aMedia()]
  const [finished, unfinished] = [await rendering({ media: [early] }), await rendering({ media: [late] })]
  const finish = async (id: string) => {
    const fact = { id: uuid(id), prefix: prefixOf(id), state: 'succeeded' } as const
    return String(await projectFact(deps, RENDERS, fact, false))
  }
  for (const id of [finished, unfinished]) await writeOutput(id)
  const lock = (media: string) => ({
    text: 'select from media where id = $1 for update',
    values: [uuidOf('media', media)],
  })
  const deletion = (media: string) => async () => String((await world.deleteMedia(media)).status)
  await inTurn(database, lock(early), () => finish(finished), deletion(early))
  await inTurn(database, lock(late), deletion(late), () => finish(unfinished))
  t.match((await get(finished)).data, { status: 'completed', error: null })
  t.match((await get(unfinished)).data, { status: 'failed', error: { code: 'SOURCE_DELETED', media_id: late } })
  t.strictSame([await generated(finished), await generated(unfinished)], [1, 0])
})

t.test(
  'a highlight that waits for the deletion of its source is refused; a deletion that waits finds it',
  async (t) => {
    const [first, second] = [await aMedia(), await aMedia()]
    const lock = (media: string) => ({
      text: 'select from media where id = $1 for update',
      values: [uuidOf('media', media)],
    })
    const make = (media: string) => () => world.create({ media_ids: [media] })
    const [, refused] = await inTurn(database, lock(first), () => world.deleteMedia(first), make(first))
    t.equal(refused?.code, 'MEDIA_NOT_AVAILABLE')
    const [made] = await inTurn(database, lock(second), make(second), () => world.deleteMedia(second))
    t.equal(made?.status, 201)
    t.ok(await failIfHeld(db, RENDERS, keyIn(made?.data.highlight_id)))
  },
)

t.test('of a deletion of a highlight and the end of its render, the first counts', async (t) => {
  const [finished, deleted] = [await rendering(), await rendering()]
  for (const id of [finished, deleted]) await writeOutput(id)
  const lock = (id: string) => ({ text: 'select from highlights where id = $1 for update', values: [uuid(id)] })
  const finish = (id: string) => () =>
    projectFact(deps, RENDERS, { id: uuid(id), prefix: prefixOf(id), state: 'succeeded' }, false)
  const deletion = (id: string) => async () => (await remove(id)).status === 204
  t.strictSame(await inTurn(database, lock(finished), finish(finished), deletion(finished)), [true, true])
  t.strictSame(await inTurn(database, lock(deleted), deletion(deleted), finish(deleted)), [true, false])
  t.strictSame([await generated(finished), await generated(deleted)], [1, 0])
  for (const id of [finished, deleted]) t.equal((await get(id)).status, 404)
})

t.test('two identical requests make one highlight', async (t) => {
  const json = { media_ids: [await aMedia()] }
  const headers = { 'idempotency-key': 'the-same-highlight' }
  const answers = await Promise.all([1, 2, 3].map(() => world.create(json, another, headers)))
  const [first] = answers.filter(({ status }) => status === 201)
  for (const { status, code, data } of answers) {
    if (status === 201) t.equal(data.highlight_id, first?.data.highlight_id)
    else t.equal(code, 'IDEMPOTENCY_IN_PROGRESS')
  }
  t.equal((await world.create(json, another, headers)).data.highlight_id, first?.data.highlight_id)
  t.equal((await sql(`select from highlights where created_by = $1`, [another.id])).length, 1)
})

let aliveMs = 0
const sightings = openSightings(() => aliveMs)
const sweep = async (change: object = {}, clock = systemClock) => {
  const reflect = (resource: Resource) =>
    cluster.reflect<never>(resource, { onSet() {}, onDelete() {} }, { namespace: NAMESPACE })
  const renders = { reflection: reflect(HIGHLIGHT_RENDERS), lookAgain() {} }
  const conversions = reflect(TRANSCODE_JOBS)
  await conversions.synced()
  const queue = () => [...renders.reflection.list(), ...conversions.list()]
  const options = { idleSeconds: 0, marginSeconds: 3600, giveUpSeconds: 3600, ...change }
  const repairs: string[] = []
  const onRepaired = (kind: string, repair: string) => repairs.push(`${kind} ${repair}`)
  const seen = { follower: renders, queue, sightings }
  await sweepRuns({ ...deps, ...seen, fillers: [admission], clock, onRepaired }, RENDERS, options)
  await Promise.all([renders.reflection.stop(), conversions.stop()])
  return repairs
}

t.test('the sweep finishes what was left', async (t) => {
  const lost = await admitted()
  const [unseen, cleaned, gone] = [await rendering(), await rendering(), await rendering()]
  await writeOutput(unseen)
  await show(unseen, done(unseen))
  await writeOutput(cleaned)
  await cluster.delete(HIGHLIGHT_RENDERS, keyOf(cleaned), {})
  const media = (await get(gone)).data.media_ids[0]
  await world.deleteMedia(media)
  t.ok((await sweep()).includes('HighlightRender create'))
  t.ok(await render(lost), 'a resource that is missing is made')
  t.equal((await get(cleaned)).data.status, 'completed', 'a highlight whose resource is gone counts')
  t.match((await get(gone)).data, { status: 'failed', error: { code: 'SOURCE_DELETED' } })
  t.equal(await render(gone), undefined)
  project(t)
  await until(unseen, 'completed')
  t.strictSame([await generated(unseen), await generated(cleaned)], [1, 1])
})

const DAY = 86_400_000
const inThirtyDays = new Date(Date.now() + 30 * DAY)
const later = { ...systemClock, now: () => inThirtyDays }

t.test('a render that waits behind videos is not given up while one of them is being converted', async (t) => {
  const video = transcodeJobFor(
    { id: newUuid(), orgId, generation: 1, originalTier: 'hot', fileSizeBytes: 5 },
    NAMESPACE,
  )
  await cluster.create(TRANSCODE_JOBS, video)
  const key = { namespace: NAMESPACE, name: video.metadata.name }
  const startTime = new Date(inThirtyDays.getTime() - 60_000).toISOString()
  await cluster.applyStatus(TRANSCODE_JOBS, key, { phase: 'Running', attempts: 1, startTime }, 'test')
  const id = await rendering()
  await show(id, { phase: 'Pending', attempts: 0 })
  const sweepLater = () => sweep({ giveUpSeconds: 365 * 86_400 }, later)
  const watch = async () => {
    await sweepLater()
    aliveMs += 3_700_000
    await sweepLater()
  }
  await watch()
  t.equal((await get(id)).data.status, 'processing')
  await cluster.delete(TRANSCODE_JOBS, key)
  await watch()
  t.equal((await get(id)).data.status, 'failed')
})

const objects = (id: string) => api.keys(`org/${orgId}/highlights/${uuid(id)}/`)
const purge = () => purgeHighlights(deps)

t.test('deletion stops the render and removes its files, and looks again', async (t) => {
  const id = await rendering()
  await writeOutput(id)
  await remove(id)
  await reactTo('HighlightDeleted', uuid(id))
  t.equal(await render(id), undefined)
  await purge()
  t.strictSame(await objects(id), [])
  for (let looks = 0; looks < 4; looks++) {
    t.ok((await row(id))?.purge_at, `look ${looks}`)
    if (looks === 1) await store.put(`${prefixOf(id)}late.ts`, 'x', { contentType: 'video/mp2t' })
    await sql('update highlights set purge_at = now() where id = $1', [uuid(id)])
    await purge()
    t.strictSame(await objects(id), [])
  }
  t.ok((await row(id))?.purge_at, 'the looks started over when something was found')
  for (let looks = 0; looks < 2; looks++) {
    await sql('update highlights set purge_at = now() where id = $1', [uuid(id)])
    await purge()
  }
  t.equal(await row(id), undefined, 'after the last look no title is left')
  t.strictSame(await world.itemsOf(id), [], 'and no caption')
})

/** A highlight that could not be finished, before the last look at its files. */
async function lastLook(): Promise<string> {
  const id = await rendering()
  await failRun(db, RENDERS, keyIn(id), { code: 'INTERNAL', message: 'x', mediaId: null })
  await purge()
  await sql('update highlights set purge_looks = 4, purge_at = now() where id = $1', [uuid(id)])
  return id
}

t.test('the last look at a highlight that could not be made leaves its row', async (t) => {
  const id = await lastLook()
  await purge()
  t.match(await row(id), { title: 'Summer', purge_at: null, purge_looks: 0 })
  t.equal((await get(id)).data.status, 'failed')
})

t.test('a highlight that is deleted during the last look at its files is purged as deleted', async (t) => {
  const id = await lastLook()
  const deletePrefix: typeof store.deletePrefix = async (prefix) => {
    if (prefix.includes(uuid(id))) await remove(id)
    return store.deletePrefix(prefix)
  }
  await purgeHighlights({ ...deps, store: { ...store, deletePrefix } })
  t.match(await row(id), { purge_at: Date, purge_lease_until: null }, 'it stays due')
  await purge()
  t.equal(await row(id), undefined)
})

t.test('a claimed highlight is of one worker until its lease ends', async (t) => {
  const [one, other] = [await rendering(), await rendering()]
  for (const id of [one, other]) await remove(id)
  const claim = (leaseSeconds: number) =>
    db
      .inTransaction({}, (tx) => claimPurges(tx, { limit: 1, leaseSeconds }))
      .then((claimed) => claimed.map(({ id }) => id))
  const [first, second] = [await claim(60), await claim(0)]
  t.strictSame([...first, ...second].sort(), [uuid(one), uuid(other)].sort())
  t.strictSame(await claim(60), second)
  t.strictSame(await claim(60), [])
  await sql('update highlights set purge_lease_until = null')
  await purge()
})

t.test('a highlight that cannot be purged stays due, also while it is claimed', async (t) => {
  const metrics = openWorkerMetrics(db)
  metrics.showRows(HIGHLIGHT_GAUGES)
  const due = async () => Number(/^highlight_purge_oldest_due_seconds (.+)$/m.exec((await metrics.text()).body)?.[1])
  t.equal(await due(), 0)
  const id = await rendering()
  await remove(id)
  await sql(`update highlights set purge_at = now() - interval '3 hours' where id = $1`, [uuid(id)])
  const deletePrefix = () => Promise.reject(new Error('refused'))
  await purgeHighlights({ ...deps, store: { ...store, deletePrefix } })
  t.ok((await due()) >= 3 * 3600)
  await sql('update highlights set purge_lease_until = now() where id = $1', [uuid(id)])
  await purge()
  t.equal(await due(), 0)
})

t.test('what a failed render left is removed; a finished highlight stays', async (t) => {
  const [bad, good] = [await rendering(), await rendering()]
  project(t)
  for (const id of [bad, good]) await writeOutput(id)
  // It died before its commit.
  await store.delete(manifestKey(prefixOf(bad)))
  await show(bad, failed('Timeout'))
  await show(good, done(good))
  await until(bad, 'failed')
  await until(good, 'completed')
  await purge()
  t.strictSame(await objects(bad), [])
  t.equal((await objects(good)).length, 2)
})

t.test('the highlights of an erased user are withdrawn, finished or not', async (t) => {
  const { admin } = people
  const theirs = await aMedia({ by: admin })
  const shared = await rendering({ media: [await aMedia(), theirs, await aMedia({ by: another })] })
  const captions = async () => (await world.itemsOf(shared)).map(({ caption }) => caption)
  await sql(`update highlight_items set caption = 'Ann' where highlight_id = $1`, [uuid(shared)])
  const [finished, unfinished, foreign] = [
    await rendering({ media: [theirs, await aMedia()] }),
    await rendering({ media: [theirs] }),
    await rendering(),
  ]
  project(t)
  await writeOutput(finished)
  await show(finished, done(finished))
  const { variants } = await until(finished, 'completed')
  // The media items of the user may be purged before.
  await sql('delete from media where id = $1', [uuidOf('media', theirs)])
  t.equal(await eraseHighlightsOf(db, admin.id), 3)
  t.strictSame(await captions(), ['Ann', '', 'Ann'], 'what was said about their media items is gone')
  t.equal(await eraseHighlightsOf(db, admin.id), 0, 'a second time finds nothing')
  t.equal(await eraseHighlightsOf(db, another.id), 1, 'a highlight that was withdrawn for another user')
  t.strictSame(await captions(), ['Ann', '', ''])
  t.equal(await eraseHighlightsOf(db, another.id), 0)
  for (const id of [finished, unfinished]) {
    const { data } = await get(id)
    t.match(data, { status: 'failed', error: { code: 'SOURCE_ERASED' }, duration_sec: null, placeholder: null })
    t.strictSame(data.variants, { hls_master_url: null, image_webp_url: null, image_thumb_url: null })
  }
  t.equal((await call(undefined, 'GET', pathOf(variants.hls_master_url))).status, 404)
  await purge()
  t.strictSame(await objects(finished), [])
  t.equal(await render(unfinished), undefined)
  t.equal((await get(foreign)).data.status, 'processing')
})

t.test('a highlight that left out the media items of an erased user stays', async (t) => {
  const { admin } = people
  const [broken, unreadable] = [await aMedia({ by: admin, status: 'failed' }), await aMedia({ by: admin })]
  const [early, late] = [
    await rendering({ media: [broken, await aMedia()], json: { skip_broken: true } }),
    await rendering({ media: [unreadable, await aMedia()], json: { skip_broken: true } }),
  ]
  const captions = async (id: string) => (await world.itemsOf(id)).map(({ caption }) => caption)
  await sql(`update highlight_items set caption = 'Ann' where highlight_id = any($1)`, [[early, late].map(uuid)])
  project(t)
  const finish = async (id: string, skipped: { id: string; reason: string; message: string }[]) => {
    const [, shown] = (await get(id)).data.media_ids
    await writeOutput(id, { items: [{ id: shown, startSec: 0, seconds: 4 }], skipped })
    await show(id, done(id))
    await until(id, 'completed')
  }
  await finish(early, [])
  await finish(late, [{ id: unreadable, reason: 'CorruptInput', message: 'The file is damaged' }])
  // More than one batch, of which none is withdrawn.
  await sql(
    `with copied as (
      insert into highlights select (jsonb_populate_record(h, jsonb_build_object('id', gen_random_uuid()))).*
        from highlights h, generate_series(1, 101) where h.id = $1 returning id)
      insert into highlight_items select (jsonb_populate_record(i, jsonb_build_object('highlight_id', copied.id))).*
        from highlight_items i, copied where i.highlight_id = $1`,
    [uuid(late)],
  )
  t.equal(await eraseHighlightsOf(db, admin.id), 0)
  for (const id of [early, late]) {
    t.match((await get(id)).data, { status: 'completed', error: null })
    t.strictSame(await captions(id), ['', 'Ann'], 'what was said about their media items is gone')
  }
})

t.test('two erasures at once withdraw a highlight once, and lose no caption', async (t) => {
  const { admin } = people
  const shared = await rendering({ media: [await aMedia({ by: admin }), await aMedia({ by: another })] })
  await sql(`update highlight_items set caption = 'Ann' where highlight_id = $1`, [uuid(shared)])
  const lock = { text: 'select from highlights where id = $1 for update', values: [uuid(shared)] }
  const erase = (userId: string) => () => eraseHighlightsOf(db, userId)
  const before = (await row(shared)).version
  t.strictSame(await inTurn(database, lock, erase(admin.id), erase(admin.id), erase(another.id)), [1, 0, 1])
  t.equal((await row(shared)).version, before + 2, 'once for each user')
  t.strictSame(
    (await world.itemsOf(shared)).map(({ caption }) => caption),
    ['', ''],
  )
})

t.test('highlights that are withdrawn are locked in order of id', async (t) => {
  const { admin } = people
  const ids = [await rendering({ media: [await aMedia({ by: admin })] }), await aHighlight()]
  const [low, high] = ids.map(uuid).sort()
  if (!low || !high) throw new Error('no highlights')
  await sql('update highlight_items set uploader_id = $1 where highlight_id = any($2)', [admin.id, [low, high]])
  // Of a small table Postgres reads the rows in the order of their last change.
  await sql('update highlights set updated_at = now() where id = $1', [low])
  await sql('vacuum highlights')
  t.ok(await locksInOrder(database, 'highlights', [low, high], () => eraseHighlightsOf(db, admin.id)))
})
