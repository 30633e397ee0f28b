import t, { type Test } from 'tap'
import { startVideoAdmission } from '../../../../api/features/media/conversion/admission.ts'
import { startBatches } from '../../../../api/features/media/conversion/batches.ts'
import { CONVERSIONS } from '../../../../api/features/media/conversion/kind.ts'
import { conversionReactions } from '../../../../api/features/media/conversion/reactions.ts'
import { deletionStateOf } from '../../../../api/features/media/deletion/plan.ts'
import { purgeDue, sweepPurged } from '../../../../api/features/media/deletion/purge.ts'
import { PURGED_LOOKS } from '../../../../api/features/media/deletion/purge-queries.ts'
import { lockWithCounterpart, markDeleted, markRestored } from '../../../../api/features/media/deletion/queries.ts'
import { MEDIA_GAUGES, mediaCounters } from '../../../../api/features/media/worker.ts'
import { openWorkerMetrics } from '../../../../api/worker/metrics.ts'
import { runReactions } from '../../../../api/worker/reactions.ts'
import { completeRun, failRun, recordPlayable } from '../../../../api/worker/runs/commands.ts'
import { claimLooks } from '../../../../api/worker/runs/looks-queries.ts'
import { followRuns } from '../../../../api/worker/runs/project.ts'
import { nextLook } from '../../../../api/worker/runs/purge-plan.ts'
import { findRun } from '../../../../api/worker/runs/queries.ts'
import { openSightings } from '../../../../api/worker/runs/sightings.ts'
import { sweepRuns } from '../../../../api/worker/runs/sweep.ts'
import { TRANSCODE_JOBS as resource } from '../../../../crds/transcode-job.ts'
import type { OutboxMessage } from '../../../../lib/contract/events.ts'
import { formatId, type Uuid } from '../../../../lib/contract/ids.ts'
import { mediaPrefix, originalKey } from '../../../../lib/contract/object-keys.ts'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import {
  aManifest,
  emptyQueue,
  failed,
  mediaEvent,
  NAMESPACE,
  running,
  startConversionTest,
  succeeded,
} from '../../../support/conversion-world.ts'
import { eventually } from '../../../support/eventually.ts'
import { subqueriesPerRow } from '../../../support/explain.ts'

const { database, place, cluster, world, base } = await startConversionTest(t)
const { worker: db, admin } = database
const { store } = place
const { org, user } = world

const remove = (...ids: Uuid[]) =>
  database.db.inTransaction({ org }, async (tx) => {
    for (const id of ids) await markDeleted(tx, (await lockWithCounterpart(tx, org, id))?.all ?? [], user)
  })
const restore = (id: Uuid) =>
  database.db.inTransaction({ org }, async (tx) => {
    const { row, all = [] } = (await lockWithCounterpart(tx, org, id)) ?? {}
    // The 30 days aside, which the races below ignore.
    if (row && deletionStateOf({ ...row, isPastRestore: false }) === 'in-trash')
      await markRestored(tx, all, { givesUpPairId: false })
  })
const age = (by: string) => admin.query('update media set deleted_at = deleted_at - $1::interval', [by])
const expireLeases = () => admin.query(`update media set lease_at = now() where lease_token is not null`)
const lookNow = () => admin.query('update purged_media set next_look_at = now()')
const keysBelow = async (id: Uuid) => {
  const keys: string[] = []
  for await (const { key } of store.list(mediaPrefix(org, id))) keys.push(key)
  return keys
}
const usedBytes = async () =>
  (await admin.query('select coalesce(sum(media_bytes), 0)::int as n from user_storage')).rows[0].n as number

async function isPurged(t: Test, id: Uuid) {
  t.equal(await world.row(id), undefined, 'no row')
  t.equal((await keysBelow(id)).length, 0, 'no object')
  t.equal(await world.count(id, 'MediaPurged'), 1, 'one event')
  const { rows } = await admin.query(
    `select actor_id from audit_log where resource_id = $1 and action = 'MEDIA_DELETE' and details = '{"operation": "purge"}'`,
    [id],
  )
  t.equal(rows.length, 1, 'one audit entry')
}

/** A completed video with outputs of two generations and an open multipart upload. */
async function aWholeVideo(): Promise<Uuid> {
  const id = await world.upload()
  await world.writeOutput(id)
  await world.writeOutput(id, 2)
  await store.createMultipart(originalKey(org, id), { contentType: 'video/mp4' })
  await admin.query(`update media set upload_status = 'completed' where id = $1`, [id])
  return id
}

async function pairOf(image: Uuid, video: Uuid) {
  await admin.query(`update media set kind = 'image' where id = $1`, [image])
  await admin.query(
    'update media set paired_media_id = case when id = $1::uuid then $2::uuid else $1::uuid end where id in ($1::uuid, $2::uuid)',
    [image, video],
  )
}

t.beforeEach(async () => {
  await admin.query('delete from media')
  await admin.query('delete from purged_media')
})

t.test('only what was deleted long enough ago is purged, whole, and its storage is given back', async (t) => {
  const [due, early, visible] = [await aWholeVideo(), await aWholeVideo(), await aWholeVideo()]
  t.equal(await usedBytes(), 15)
  await remove(due)
  await age('30 days 30 minutes')
  t.equal(await purgeDue(base), 0, 'a restore in the last moment never meets a purge')
  await age('30 minutes')
  await remove(early)
  t.equal(await purgeDue(base), 1)
  await isPurged(t, due)
  t.equal(await store.deletePrefix(mediaPrefix(org, due)), 0, 'no open upload either')
  for (const id of [early, visible]) {
    t.equal((await keysBelow(id)).length, 5)
    t.ok(await world.row(id))
  }
  t.equal(await usedBytes(), 10)
  t.equal(await purgeDue(base), 0)
})

t.test('the event of a purge comes after the deletion', async (t) => {
  const id = await aWholeVideo()
  await remove(id)
  await age('31 days')
  const { version } = await world.row(id)
  await purgeDue(base)
  const { rows } = await admin.query(`select * from outbox where aggregate_id = $1 and type = 'MediaPurged'`, [id])
  t.match(rows, [
    {
      aggregate_version: version + 1,
      payload: { media_id: formatId('media', id), org_id: formatId('organization', org) },
    },
  ])
})

t.test('both halves of a Live Photo are purged together', async (t) => {
  const [image, video] = [await aWholeVideo(), await aWholeVideo()]
  await pairOf(image, video)
  await remove(video)
  await age('31 days')
  const holder = await admin.connect()
  await holder.query('begin')
  await holder.query('select from media where id = $1 for update', [video])
  t.equal(await purgeDue(base), 0, 'not one half while the other is locked')
  await holder.query('rollback')
  holder.release()
  t.equal(await purgeDue(base), 2)
  for (const id of [image, video]) await isPurged(t, id)
})

t.test('several workers purge each once', async (t) => {
  const ids: Uuid[] = []
  for (let i = 0; i < 12; i++) ids.push(await aWholeVideo())
  await pairOf(ids[0] as Uuid, ids[1] as Uuid)
  await remove(...ids)
  await age('31 days')
  const purged = await Promise.all([1, 2, 3, 4].map(() => purgeDue(base, { batch: 3 })))
  t.equal(
    purged.reduce((a, b) => a + b, 0),
    12,
  )
  for (const id of ids) await isPurged(t, id)
  t.equal(await usedBytes(), 0)
})

t.test('two workers with one claim, of which the first counted as dead, purge once', async (t) => {
  const id = await aWholeVideo()
  await remove(id)
  await age('31 days')
  let second: Promise<number> | undefined
  const slow: ObjectStore = {
    ...store,
    async deletePrefix(prefix) {
      await expireLeases()
      second ??= purgeDue(base)
      await second
      return store.deletePrefix(prefix)
    },
  }
  t.equal(await purgeDue({ ...base, store: slow }), 0)
  t.equal(await second, 1)
  await isPurged(t, id)
})

t.test('restore and purge at the same instant: one of them wins, and whole', async (t) => {
  let restored = 0
  for (let round = 0; round < 10; round++) {
    const id = await aWholeVideo()
    await remove(id)
    await age('31 days')
    await Promise.all([restore(id), purgeDue(base)])
    const row = await world.row(id)
    if (row) restored++
    if (row) t.strictSame([row['deleted_at'], row['purging_at'], (await keysBelow(id)).length], [null, null, 5])
    else await isPurged(t, id)
    await admin.query('delete from media')
  }
  t.comment(`${restored} of 10 were restored`)
})

t.test('what is restored after a purge has claimed it keeps no lease', async (t) => {
  const id = await aWholeVideo()
  await remove(id)
  await age('31 days')
  const list: typeof base.cluster.list = async (...given) => {
    await restore(id)
    return base.cluster.list(...given)
  }
  t.equal(await purgeDue({ ...base, cluster: { ...base.cluster, list } }), 0)
  const { rows } = await admin.query('select lease_token, lease_at <= now() as free from media where id = $1', [id])
  t.strictSame(rows, [{ lease_token: null, free: true }])
})

t.test('what cannot be deleted now keeps its row and does not hold up the others', async (t) => {
  const [stuck, fine] = [await aWholeVideo(), await aWholeVideo()]
  await remove(stuck, fine)
  await age('31 days')
  const broken: ObjectStore = {
    ...store,
    deletePrefix: (prefix) =>
      prefix.includes(stuck) ? Promise.reject(new Error('no store')) : store.deletePrefix(prefix),
  }
  t.equal(await purgeDue({ ...base, store: broken }), 1)
  await isPurged(t, fine)
  t.ok(await world.row(stuck))
  t.equal(await purgeDue(base), 0, 'not before the lease is over')
  await expireLeases()
  t.equal(await purgeDue(base), 1)
  await isPurged(t, stuck)
})

t.test('something that keeps writing keeps the row', async (t) => {
  const id = await aWholeVideo()
  await remove(id)
  await age('31 days')
  const busy: ObjectStore = { ...store, deletePrefix: async (p) => (await store.deletePrefix(p)) + 1 }
  t.equal(await purgeDue({ ...base, store: busy }), 0)
  t.ok(await world.row(id))
})

t.test('a TranscodeJob that still works is ended first, and the purge waits a round', async (t) => {
  const id = await world.converting()
  await world.setStatus(id, running(10))
  await remove(id)
  await age('31 days')
  t.equal(await purgeDue(base), 0)
  t.equal(await world.job(id), undefined)
  await world.writeOutput(id)
  await expireLeases()
  t.equal(await purgeDue(base), 1)
  await isPurged(t, id)
})

t.test('what a late Job writes after the purge is found and deleted, until the looks are over', async (t) => {
  const id = await aWholeVideo()
  await remove(id)
  await age('31 days')
  await purgeDue(base)
  await world.writeOutput(id)
  t.equal(await sweepPurged(base), 0, 'not before it is time')
  await lookNow()
  t.equal(await sweepPurged(base), 2)
  t.strictSame(await keysBelow(id), [])
  let looks = 0
  for (; (await admin.query('select from purged_media')).rowCount; looks++) {
    await lookNow()
    await Promise.all([sweepPurged(base), sweepPurged(base)])
  }
  t.equal(looks, 4)
})

t.test('a look is claimed by one worker until its lease ends, and no more of them than asked for', async (t) => {
  // Stored in the order in which they are due: a subquery that runs for each row finds that row first.
  await admin.query(
    `insert into purged_media (media_id, org_id, next_look_at)
      select gen_random_uuid(), $1, now() - make_interval(mins => 6 - n) from generate_series(1, 5) n`,
    [world.org],
  )
  const claim = (limit: number) =>
    db.inTransaction({}, async (tx) => {
      await subqueriesPerRow(tx)
      return (await claimLooks(tx, PURGED_LOOKS, { limit, leaseSeconds: 60 })).map((row) => row.mediaId)
    })
  const [one, two] = await Promise.all([claim(2), claim(2)])
  t.strictSame([one?.length, two?.length], [2, 2])
  const rest = await claim(2)
  t.equal(rest.length, 1)
  t.equal(new Set([...(one ?? []), ...(two ?? []), ...rest]).size, 5)
  t.strictSame(await claim(2), [])
})

t.test('the pauses between looks grow and end', async (t) => {
  const pauses = [0, 1, 2, 3].map((looks) => nextLook(looks)?.inSeconds ?? 0)
  t.strictSame(
    pauses.toSorted((a, b) => a - b),
    pauses,
  )
  t.equal(nextLook(4), undefined)
})

const drop = (id: Uuid) => cluster.delete(resource, world.keyOf(id))

// ---------------------------------------------------------------- deletion during a conversion

const deleted = (id: Uuid): OutboxMessage => mediaEvent('MediaDeleted', id, org)

async function aWorker(t: { teardown(fn: () => Promise<void>): void }) {
  const projector = followRuns(base, CONVERSIONS, { progressMs: 0, backoffMs: () => 10 })
  t.teardown(() => projector.stop())
  await projector.reflection.synced()
  const admission = startVideoAdmission(base, { maxPerOrganization: 1, backoffMs: () => 10 })
  t.teardown(() => admission.stop())
  const batches = startBatches(base, { interactive: 100, backfill: 100, backoffMs: () => 10 })
  t.teardown(() => batches.stop())
  const seen = { follower: projector, queue: emptyQueue, sightings: openSightings() }
  const deps = { ...base, ...seen, fillers: [batches, admission] }
  return {
    admission,
    react: runReactions([conversionReactions({ ...base, admission, batches, conversions: CONVERSIONS })]),
    sweep: () => sweepRuns(deps, CONVERSIONS, { idleSeconds: 0, marginSeconds: 3600, giveUpSeconds: 72 * 3600 }),
  }
}

t.test('no late result changes what is deleted', async (t) => {
  const id = await world.converting()
  const seen = await db.read({}, (tx) => findRun(tx, CONVERSIONS, id))
  if (!seen) throw new Error('there is no conversion')
  await remove(id)
  const before = await world.row(id)
  const prefix = world.prefixOf(id)
  t.equal(await recordPlayable(db, CONVERSIONS, seen, { prefix, hlsMaster: 'master.m3u8' }), false)
  t.equal(await completeRun(db, CONVERSIONS, seen, { prefix, manifest: aManifest(id) }), false)
  t.equal(await failRun(db, CONVERSIONS, seen, { code: 'TIMEOUT', message: 'late' }), false)
  t.strictSame(await world.row(id), before)
  t.equal(await world.count(id, 'MediaTranscoded'), 0)
})

t.test('deletion and completion at the same instant: never both an invisible item and a later change', async (t) => {
  for (let round = 0; round < 10; round++) {
    const id = await world.converting()
    const seen = await db.read({}, (tx) => findRun(tx, CONVERSIONS, id))
    if (!seen) throw new Error('there is no conversion')
    const result = { prefix: world.prefixOf(id), manifest: aManifest(id) }
    const [done] = await Promise.all([completeRun(db, CONVERSIONS, seen, result), remove(id)])
    const { rows } = await admin.query(`select type from outbox where aggregate_id = $1 order by aggregate_version`, [
      id,
    ])
    t.equal(rows.filter(({ type }) => type === 'MediaTranscoded').length, done ? 1 : 0)
    t.equal((await world.row(id)).upload_status, done ? 'completed' : 'processing')
  }
})

t.test('a deleted video gives its slot away, and its TranscodeJob ends', async (t) => {
  const { react, admission } = await aWorker(t)
  const [one, two] = [await world.converting(), await world.upload()]
  await admission.fill()
  t.equal(await world.job(two), undefined, 'it waits')
  await remove(one)
  await react(deleted(one))
  t.equal(await world.job(one), undefined)
  await admission.fill()
  t.ok(await world.job(two))
})

t.test('an event that comes late ends nothing that was restored', async (t) => {
  const { react } = await aWorker(t)
  const id = await world.converting()
  await remove(id)
  await restore(id)
  await react(deleted(id))
  t.ok(await world.job(id))
})

t.test('a resource that also converts another media item goes on', async (t) => {
  const { react } = await aWorker(t)
  const [one, two] = [await world.converting(), await world.upload()]
  const job = await world.job(one)
  if (!job) throw new Error('there is no TranscodeJob')
  const input = { ...job.spec.inputs[0], id: formatId('media', two), outputPrefix: world.prefixOf(two) }
  const spec = { ...job.spec, inputs: [...job.spec.inputs, input] }
  await cluster.delete(resource, world.keyOf(one))
  await cluster.create(resource, { ...job, metadata: { name: job.metadata.name, namespace: NAMESPACE }, spec } as never)
  await remove(one)
  await react(deleted(one))
  t.ok(await world.job(one))
  await remove(two)
  await react(deleted(one))
  t.equal(await world.job(one), undefined)
})

for (const [what, meanwhile] of [
  ['ended well', (id: Uuid) => world.writeOutput(id).then(() => world.setStatus(id, succeeded(id)))],
  ['ended well and its resource is gone', (id: Uuid) => world.writeOutput(id).then(() => drop(id))],
  ['was interrupted', drop],
  ['goes on', (id: Uuid) => world.setStatus(id, running(50))],
] as const) {
  t.test(`restored after its conversion ${what}, a video is completed`, async (t) => {
    const { sweep, admission } = await aWorker(t)
    const id = await world.converting()
    await world.setStatus(id, running(20))
    await remove(id)
    await meanwhile(id)
    await sweep()
    t.equal((await world.row(id)).upload_status, 'processing', 'nothing happens while it is deleted')
    await restore(id)
    t.match(await world.row(id), { conversion_progress: null, conversion_state: 'queued' })
    await admission.fill()
    await sweep()
    const job = await world.job(id)
    if (job && !job.status?.conditions) {
      await world.writeOutput(id)
      await world.setStatus(id, succeeded(id))
    }
    await eventually('a completed video', async () => {
      await sweep()
      return (await world.row(id)).upload_status === 'completed'
    })
    t.equal(await world.count(id, 'MediaTranscoded'), 1)
  })
}

t.test('restored after its conversion failed, a video is failed', async (t) => {
  const { sweep, admission } = await aWorker(t)
  const id = await world.converting()
  await remove(id)
  await world.setStatus(id, failed('UnsupportedCodec'))
  await restore(id)
  await admission.fill()
  await eventually('a failed video', async () => {
    await sweep()
    return (await world.row(id)).upload_status === 'failed'
  })
  t.pass('as if it had never been deleted')
})

t.test('an image that was deleted while it waited is converted after its restore', async (t) => {
  const { sweep } = await aWorker(t)
  const id = await world.upload('image/jpeg')
  await remove(id)
  await sweep()
  t.equal(await world.batchIdOf(id), null, 'nothing converts what is deleted')
  await restore(id)
  await sweep()
  t.ok(await world.batchOf(id))
})

t.test('an image whose conversion ended while it was deleted is completed after its restore', async (t) => {
  const { sweep } = await aWorker(t)
  const id = await world.upload('image/jpeg')
  await sweep()
  const batch = await world.batchIdOf(id)
  await remove(id)
  await world.writeImage(id)
  await world.setBatchStatus(batch ?? '', succeeded(id))
  await sweep()
  t.equal((await world.row(id)).upload_status, 'processing')
  await restore(id)
  await eventually('the image is completed', async () => {
    await sweep()
    return (await world.row(id)).upload_status === 'completed'
  })
})

t.test('metrics count what was purged and what could not be, and how long the oldest has been due', async (t) => {
  const metrics = openWorkerMetrics(db)
  metrics.showRows(MEDIA_GAUGES)
  const counters = mediaCounters(metrics.counterOf)
  const figure = async (name: string) =>
    Number(new RegExp(`^${name} (.+)$`, 'm').exec((await metrics.text()).body)?.[1])
  const [due, stuck] = [await aWholeVideo(), await aWholeVideo()]
  t.equal(await figure('purge_oldest_due_seconds'), 0, 'nothing is deleted')
  await remove(due)
  await remove(stuck)
  t.equal(await figure('purge_oldest_due_seconds'), 0, 'nothing is due')
  await age('30 days 3 hours')
  const late = await figure('purge_oldest_due_seconds')
  t.ok(late >= 2 * 3600 && late < 3 * 3600, `${late} s`)
  const deletePrefix: ObjectStore['deletePrefix'] = (prefix) =>
    prefix === mediaPrefix(org, stuck) ? Promise.reject(new Error('refused')) : store.deletePrefix(prefix)
  t.equal(await purgeDue({ ...base, ...metrics, ...counters, store: { ...store, deletePrefix } }), 1)
  t.equal(await figure('purged_media_total'), 1)
  t.equal(await figure('purged_objects_total'), 6, 'with the open upload')
  t.equal(await figure('purge_failed_total'), 1)
  t.ok((await figure('purge_oldest_due_seconds')) >= late, 'what is stuck stays due, also while it is claimed')
  await admin.query(
    `insert into legal_holds (id, kind, subject, reason, placed_by)
    select gen_random_uuid(), 'organization', org_id, 'case 7', 'court' from media where id = $1`,
    [stuck],
  )
  t.equal(await figure('purge_oldest_due_seconds'), 0, 'what a hold keeps is not due')
  await admin.query('delete from legal_holds')
})
