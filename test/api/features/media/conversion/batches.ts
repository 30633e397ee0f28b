import t from 'tap'
import { openDatabase } from '../../../../../api/db/db.ts'
import { listenForNotifications } from '../../../../../api/db/notification-listener.ts'
import { retryFailed, retryMedia } from '../../../../../api/features/media/commands.ts'
import { startVideoAdmission } from '../../../../../api/features/media/conversion/admission.ts'
import { type BatchesOptions, startBatches } from '../../../../../api/features/media/conversion/batches.ts'
import { CONVERSIONS } from '../../../../../api/features/media/conversion/kind.ts'
import { conversionReactions } from '../../../../../api/features/media/conversion/reactions.ts'
import { countFailures } from '../../../../../api/features/media/queries.ts'
import type { RepairOptions } from '../../../../../api/worker/feature-worker.ts'
import { runReactions } from '../../../../../api/worker/reactions.ts'
import { followRuns } from '../../../../../api/worker/runs/project.ts'
import { openSightings } from '../../../../../api/worker/runs/sightings.ts'
import { sweepRuns } from '../../../../../api/worker/runs/sweep.ts'
import { TRANSCODE_JOBS, type TranscodeJob } from '../../../../../crds/transcode-job.ts'
import { conversionErrorOf } from '../../../../../lib/contract/conversion-error.ts'
import { formatId, newUuid, parseId, type Uuid } from '../../../../../lib/contract/ids.ts'
import { manifestKey } from '../../../../../lib/contract/object-keys.ts'
import { type Cluster, ClusterError } from '../../../../../lib/runtime/kube/cluster.ts'
import {
  conversionWorld,
  emptyQueue,
  failed,
  mediaEvent,
  running,
  startConversionTest,
  succeeded,
} from '../../../../support/conversion-world.ts'
import { eventually } from '../../../../support/eventually.ts'
import { locksInOrder } from '../../../../support/in-turn.ts'
import { quietLog } from '../../../../support/quiet-log.ts'

const { database, place, cluster, world, base, clear } = await startConversionTest(t)
const other = await conversionWorld(database, place, cluster)
const { worker: db, admin, url } = database
const log = quietLog()
const HOUR = 3600

interface Teardown {
  teardown(fn: () => Promise<void>): void
}

/** What one of several workers does about images. */
async function worker(t: Teardown, on: Partial<Cluster> = {}, options: Partial<BatchesOptions> = {}) {
  const deps = { ...base, cluster: { ...cluster, ...on } }
  const batches = startBatches(deps, { interactive: 8, backfill: 2, backoffMs: () => 10, ...options })
  const admission = startVideoAdmission(deps, { maxPerOrganization: 8, backoffMs: () => 10 })
  const projector = followRuns(deps, CONVERSIONS, { progressMs: 0, backoffMs: () => 10, manifestAttempts: 3 })
  t.teardown(async () => void (await Promise.all([batches.stop(), admission.stop(), projector.stop()])))
  await projector.reflection.synced()
  const react = (id: Uuid) =>
    runReactions([conversionReactions({ ...deps, admission, batches, conversions: CONVERSIONS })])(
      mediaEvent('MediaUploaded', id, world.org),
    )
  let aliveMs = 0
  const seen = { follower: projector, queue: emptyQueue, sightings: openSightings(() => aliveMs) }
  const sweep = (change: object = {}, o: Partial<RepairOptions> = {}) =>
    sweepRuns({ ...deps, fillers: [batches, admission], ...seen, ...change }, CONVERSIONS, {
      idleSeconds: 0,
      marginSeconds: HOUR,
      giveUpSeconds: 72 * HOUR,
      ...o,
    })
  const liveOn = (hours: number) => {
    aliveMs += hours * HOUR * 1000
  }
  return { batches, react, sweep, liveOn, projector }
}

async function person(): Promise<Uuid> {
  const id = newUuid()
  await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [id, 'test', id])
  return id
}
/** Images that have waited for a while. In one statement: what an upload announces is of no matter here. */
async function photos(n: number, { by = world.user, bytes = 5, of = world } = {}): Promise<Uuid[]> {
  const ids = Array.from({ length: n }, () => newUuid())
  await admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, created_at)
     select id, $2, $3, 'f', 'image/jpeg', 'image', $4, now() - interval '1 minute' from unnest($1::uuid[]) id`,
    [ids, of.org, by, bytes],
  )
  return ids
}
/** Photos of someone who uploads many, so that nobody waits for each of them. */
const backfill = async (n: number, of = world) => photos(n, { by: await person(), of })

const membersOf = (job: { spec: { inputs: { id: string }[] } } | undefined) =>
  (job?.spec.inputs ?? []).map(({ id }) => parseId('media', id) as Uuid)
/** All TranscodeJobs, in the order in which they were created. */
async function jobs() {
  const found = (await world.jobs()) as (TranscodeJob & { metadata: { resourceVersion: string } })[]
  return found.sort((a, b) => Number(a.metadata.resourceVersion) - Number(b.metadata.resourceVersion))
}
const statusOf = async (id: Uuid) => (await world.row(id)).upload_status
const batchOf = async (id: Uuid) => (await world.batchIdOf(id)) as Uuid
const becomes = (id: Uuid, status: string) => eventually(`${status}`, async () => (await statusOf(id)) === status)
/** The batch of an image does its work. */
async function convert(ids: readonly Uuid[]): Promise<void> {
  await Promise.all(ids.map((id) => world.writeImage(id)))
  await world.setBatchStatus(await batchOf(ids[0] as Uuid), succeeded(...ids))
  await eventually('all completed', async () => {
    const { rowCount } = await admin.query(`select from media where id = any($1) and upload_status <> 'completed'`, [
      ids,
    ])
    return rowCount === 0
  })
}
/** Deletes the TranscodeJob of the batch of an image; the workers have seen it. */
async function removeJob(id: Uuid, workers: Awaited<ReturnType<typeof worker>>[]): Promise<void> {
  const key = world.batchKey(await batchOf(id))
  for (const { projector } of workers) await eventually('it to be seen', () => projector.reflection.get(key))
  await cluster.delete(TRANSCODE_JOBS, key)
  for (const { projector } of workers) await eventually('it to be gone', () => !projector.reflection.get(key))
}
/** Notifications that are sent before this are lost. */
const listening = () =>
  eventually('a listener', async () => {
    const { rowCount } = await admin.query(
      `select from pg_stat_activity where datname = current_database() and query like '%listen images%' and state = 'idle'`,
    )
    return rowCount
  })

t.beforeEach(clear)

t.test('forming batches reads waiting images only, not the library', async (t) => {
  await admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
       conversion_batch)
     select gen_random_uuid(), $1, $2, 'f', 'image/jpeg', 'image', 5, 'completed', gen_random_uuid()
     from generate_series(1, 20000)`,
    [world.org, world.user],
  )
  await admin.query('analyze media')
  const scans = async () => {
    const { rows } = await admin.query(`select seq_scan::int as n from pg_stat_user_tables where relname = 'media'`)
    return rows[0].n as number
  }
  const read = async () => {
    const { rows } = await admin.query(
      `select sum(idx_tup_read)::int as n, max(idx_scan) filter (where indexrelname = 'media_of_batch')::int as ends
       from pg_stat_user_indexes where relname = 'media'`,
    )
    return rows[0] as { n: number; ends: number }
  }
  // What this connection itself has read, such as for the deletion before each test, is reported late otherwise.
  await admin.query('select pg_stat_force_next_flush()')
  const before = await scans()
  // A pool of its own: a connection that ends has reported what it read.
  const mine = openDatabase({ url, role: 'keepsake_worker', statementTimeoutMs: 10_000, maxConnections: 1, log })
  const batches = startBatches({ ...base, db: mine }, { interactive: 8, backfill: 2 })
  const ids = [...(await backfill(70)), ...(await photos(3))]
  await batches.fill()
  await batches.fill([world.org])
  await batches.stop()
  await mine.close()
  await eventually('the statistics', async () => (await read()).ends > 0)
  t.ok((await read()).n < 5000, `${(await read()).n} entries of indexes`)
  t.equal(await scans(), before)
  t.equal((await jobs()).length, 3)
  for (const id of ids) t.ok(await batchOf(id))
})

t.test('a photo is converted at once and announced once', async (t) => {
  const { react } = await worker(t)
  const id = await world.upload('image/heic')
  await react(id)
  t.match(await world.batchOf(id), { spec: { priority: 'interactive', inputs: [{ id: formatId('media', id) }] } })
  await convert([id])
  t.match(await world.row(id), {
    conversion_state: 'succeeded',
    output_prefix: world.prefixOf(id),
    webp_file: 'image.webp',
    thumb_file: 'thumb.webp',
  })
  t.equal(await world.count(id, 'MediaTranscoded'), 1)
})

t.test('two workers never put an image into two batches, and every image gets its turn', async (t) => {
  const workers = [await worker(t), await worker(t)]
  const ids = await backfill(140)
  const seen: Uuid[][] = []
  await Promise.all(workers.flatMap(({ react }) => ids.map((id) => react(id))))
  while (seen.flat().length < ids.length) {
    const current = (await jobs()).slice(seen.length)
    t.ok(current.length > 0 && current.length <= 2, `${current.length} at once`)
    for (const job of current) {
      const members = membersOf(job)
      seen.push(members)
      t.equal(job.spec.priority, 'backfill')
      t.strictSame(members, [...members].sort(), 'the order of ids')
      await convert(members)
    }
    await Promise.all(workers.flatMap(({ batches }) => [batches.fill([world.org]), batches.fill()]))
  }
  t.equal((await jobs()).length, seen.length)
  t.strictSame(
    seen.map((members) => members.length),
    [64, 64, 12],
  )
  t.strictSame(seen.flat().sort(), [...ids].sort())
})

t.test('an interactive photo does not wait for a backfill of the organization', async (t) => {
  const { batches, react } = await worker(t)
  await backfill(140)
  await batches.fill()
  t.equal((await jobs()).length, 2)
  const [mine] = await photos(1)
  await react(mine as Uuid)
  t.match(await world.batchOf(mine as Uuid), { spec: { priority: 'interactive' } })
  t.strictSame(membersOf(await world.batchOf(mine as Uuid)), [mine])
  t.equal((await jobs()).length, 3)
})

t.test(
  'what a person uploads while two batches run becomes one batch; after ten images nobody waits for each',
  async (t) => {
    const { react, batches } = await worker(t)
    const ids: Uuid[] = []
    const one = async () => {
      const [id] = await photos(1)
      ids.push(id as Uuid)
      await react(id as Uuid)
    }
    for (let i = 0; i < 10; i++) await one()
    t.strictSame((await jobs()).map(membersOf), [[ids[0]], [ids[1]]])
    await convert([ids[0] as Uuid])
    await batches.fill([world.org])
    t.strictSame(membersOf((await jobs())[2]), [...ids.slice(2)].sort())
    for (let i = 0; i < 11; i++) await one()
    t.equal((await jobs()).at(-1)?.spec.priority, 'backfill')
  },
)

t.test('organizations take turns', async (t) => {
  const { batches } = await worker(t)
  const many = await backfill(130)
  await admin.query(`update media set created_at = now() - interval '1 day' where id = any($1)`, [many])
  const few = await backfill(11, other)
  await batches.fill()
  const order = (await jobs()).map((job) => membersOf(job).every((id) => few.includes(id)))
  t.strictSame(order, [false, true, false])
})

t.test('a batch that is not full waits for more images, and then needs no event', async (t) => {
  const { react } = await worker(t)
  const by = await person()
  const ids: Uuid[] = []
  for (let i = 0; i < 12; i++) ids.push(await world.upload('image/jpeg', { by }))
  for (const id of ids) await react(id)
  await eventually('a batch', async () => (await jobs()).length === 1)
  t.strictSame(membersOf((await jobs())[0]), [...ids].sort())
})

t.test('when a batch is over the next one is formed, without a sweep', async (t) => {
  const { batches } = await worker(t, {}, { backfill: 1 })
  await backfill(70)
  await batches.fill()
  const listener = listenForNotifications({
    url,
    channels: { images: (org) => org && batches.wake(org as Uuid) },
    log,
  })
  t.teardown(() => listener.close())
  await listening()
  await convert(membersOf((await jobs())[0]))
  await eventually('the next batch', async () => (await jobs()).length === 2)
  t.equal(membersOf((await jobs())[1]).length, 6)
})

t.test('a deleted image is not batched, and a batch of deleted images has no slot', async (t) => {
  const { batches } = await worker(t, {}, { backfill: 1 })
  const ids = await backfill(70)
  const [gone] = ids
  await admin.query('update media set deleted_at = now() where id = $1', [gone])
  await batches.fill()
  const members = membersOf((await jobs())[0])
  t.equal(members.length, 64)
  t.notOk(members.includes(gone as Uuid))
  await admin.query('update media set deleted_at = now() where id = any($1)', [members])
  await batches.fill()
  t.equal((await jobs()).length, 2)
})

t.test('an image that is deleted while its batch is formed is left out', async (t) => {
  const { batches } = await worker(t)
  const ids = await backfill(12)
  const holder = await admin.connect()
  await holder.query('begin')
  await holder.query('update media set deleted_at = now() where id = $1', [ids[5]])
  const filling = batches.fill()
  await eventually('it to wait for the deletion', async () => {
    const { rowCount } = await admin.query(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    )
    return rowCount === 1
  })
  await holder.query('commit')
  holder.release()
  await filling
  t.strictSame(membersOf((await jobs())[0]), ids.filter((_, i) => i !== 5).sort())
})

t.test(
  'the TranscodeJob of a batch that is missing is made again, with the same inputs, by however many',
  async (t) => {
    const [one, two] = [await worker(t), await worker(t)]
    const ids = await backfill(30)
    await one.batches.fill()
    const [before] = await jobs()
    await world.writeImage(ids[0] as Uuid)
    await world.setBatchStatus(await batchOf(ids[0] as Uuid), {
      ...running(10),
      outputs: [{ id: formatId('media', ids[0] as Uuid), state: 'Succeeded' }],
    })
    await becomes(ids[0] as Uuid, 'completed')
    await cluster.delete(TRANSCODE_JOBS, world.batchKey(await batchOf(ids[1] as Uuid)))
    await eventually('it to be gone', async () => (await jobs()).length === 0)
    await Promise.all([one.sweep(), two.sweep()])
    const after = await jobs()
    t.equal(after.length, 1)
    t.strictSame(after[0]?.spec, before?.spec)
    t.equal(after[0]?.metadata.name, before?.metadata.name)
  },
)

t.test('of a batch that was cleaned up, what is committed is recorded and the rest converted again', async (t) => {
  const mine = await worker(t)
  const { batches, sweep } = mine
  const ids = (await backfill(12)).sort()
  await batches.fill()
  for (const id of ids.slice(0, 5)) await world.writeImage(id)
  await removeJob(ids[1] as Uuid, [mine])
  await sweep()
  await sweep()
  const completed = await Promise.all(ids.map(async (id) => (await statusOf(id)) === 'completed'))
  t.strictSame(
    completed,
    ids.map((_, i) => i < 5),
  )
  t.equal((await jobs()).length, 1)
})

t.test('waiting counts toward no deadline', async (t) => {
  const { sweep, batches } = await worker(t, {}, { backfill: 1 })
  const ids = await backfill(70)
  await batches.fill()
  await admin.query(`update media set updated_at = now() - interval '90 days', created_at = now() - interval '90 days'
    where conversion_batch is null`)
  await sweep()
  const waiting = (await Promise.all(ids.map((id) => world.row(id)))).filter((row) => row['conversion_batch'] === null)
  t.equal(waiting.length, 6)
  for (const row of waiting) t.match(row, { upload_status: 'processing', conversion_state: 'queued', version: 1 })
})

t.test('one bad image fails alone', async (t) => {
  const { batches } = await worker(t)
  const ids = await backfill(12)
  await batches.fill()
  const [bad, ...good] = ids as [Uuid, ...Uuid[]]
  for (const id of good) await world.writeImage(id)
  const output = { id: formatId('media', bad), state: 'Failed', reason: 'CorruptInput', message: 'No image' } as const
  const status = succeeded(...good)
  await world.setBatchStatus(await batchOf(bad), {
    ...failed('SomeInputsFailed'),
    outputs: [output, ...(status.outputs ?? [])],
  })
  await becomes(bad, 'failed')
  for (const id of good) await becomes(id, 'completed')
  t.match(await world.row(bad), { conversion_error: { code: 'CORRUPT_INPUT', message: 'No image' } })
})

t.test('an unusable manifest does not hold up the other images of the batch', async (t) => {
  const { batches } = await worker(t)
  const ids = await backfill(12)
  await batches.fill()
  const members = [...ids].sort()
  const [bad, ...good] = members as [Uuid, ...Uuid[]]
  for (const id of good) await world.writeImage(id)
  await place.store.put(manifestKey(world.prefixOf(bad)), '{', { contentType: 'application/json' })
  await world.setBatchStatus(await batchOf(bad), succeeded(...members))
  for (const id of good) await becomes(id, 'completed')
  await becomes(bad, 'failed')
  t.match(await world.row(bad), { conversion_error: { code: 'INTERNAL' } })
})

for (const reason of ['OOMKilled', 'DeadlineExceeded']) {
  t.test(`${reason}: the image that ends the pod is found, and all others are converted`, async (t) => {
    const { batches, projector } = await worker(t, {}, { backfill: 100 })
    const ids = [...(await backfill(30))].sort()
    const poison = ids[9] as Uuid
    await batches.fill()
    // Converted before the pod ended; its status says nothing about them.
    for (const id of ids.slice(0, 3)) await world.writeImage(id)
    const first = await batchOf(poison)
    await world.setBatchStatus(first, failed(reason))
    await eventually('all to have left the batch', async () => {
      const rows = await Promise.all(ids.map((id) => world.row(id)))
      return rows.every((row) => row['conversion_batch'] !== first || row.upload_status === 'completed')
    })
    t.strictSame(await Promise.all(ids.slice(0, 4).map(statusOf)), [
      'completed',
      'completed',
      'completed',
      'processing',
    ])

    const seen = new Set([ids.join()])
    const poisoned: number[] = []
    const end = async (members: Uuid[]) => {
      if (!members.includes(poison)) return convert(members)
      poisoned.push(members.length)
      await world.setBatchStatus(await batchOf(poison), failed(reason))
      await eventually('the batch to be over', async () => {
        const rows = await Promise.all(members.map((id) => world.row(id)))
        return rows.every((row) => row['conversion_batch'] === null || row.upload_status === 'failed')
      })
    }
    const isOver = async () =>
      (await admin.query(`select from media where upload_status = 'processing'`)).rowCount === 0
    while (!(await isOver())) {
      await batches.fill()
      const made = (await jobs()).map(membersOf).filter((members) => !seen.has(members.join()))
      for (const members of made) {
        seen.add(members.join())
        await end(members)
      }
      // What earlier Jobs still say is not about the batches after them.
      for (const job of await jobs()) projector.lookAgain(job.metadata.name)
      await eventually('nothing to record', () => projector.waiting() === 0)
    }
    t.strictSame(poisoned, [8, 1])
    t.equal(seen.size, 1 + 4 + 8)
    for (const id of ids.filter((id) => id !== poison)) {
      t.equal(await statusOf(id), 'completed')
      t.equal(await world.count(id, 'MediaTranscoded'), 1)
    }
    t.match(await world.row(poison), { upload_status: 'failed', conversion_error: { code: conversionErrorOf(reason) } })
  })
}

t.test('several workers that see a batch fail regroup each image once', async (t) => {
  const [one] = [await worker(t, {}, { backfill: 100 }), await worker(t), await worker(t)]
  const ids = await backfill(20)
  await one.batches.fill()
  const batch = await batchOf(ids[0] as Uuid)
  await world.setBatchStatus(batch, failed('OOMKilled'))
  await eventually('all to wait', async () => {
    const batches = await Promise.all(ids.map((id) => world.batchIdOf(id)))
    return batches.every((id) => id !== batch)
  })
  const rows = await Promise.all(ids.map((id) => world.row(id)))
  t.ok(rows.every((row) => row['conversion_regrouped'] === 1))
})

t.test('a retry begins without a batch, as the next generation', async (t) => {
  const { batches } = await worker(t)
  const [id] = (await photos(1)) as [Uuid]
  await batches.fill()
  const first = await batchOf(id)
  await world.setBatchStatus(first, failed('OOMKilled'))
  await becomes(id, 'failed')
  await admin.query('update media set conversion_regrouped = 2 where id = $1', [id])
  const listener = listenForNotifications({
    url,
    channels: { images: (org) => org && batches.wake(org as Uuid) },
    log,
  })
  t.teardown(() => listener.close())
  await listening()
  await retryMedia(db, id)
  await eventually('the next batch', async () => (await world.batchOf(id)) !== undefined)
  t.not(await batchOf(id), first)
  t.match(await world.row(id), { conversion_regrouped: 0, generation: 2 })
  t.match((await world.batchOf(id))?.spec.inputs, [{ outputPrefix: world.prefixOf(id, 2) }])
})

t.test(
  'images and videos that failed for one reason are listed and queued together, and the images batched',
  async (t) => {
    const { batches } = await worker(t)
    const ids = await backfill(30)
    const video = await world.converting()
    await batches.fill()
    const message = 'The uploaded file no longer exists'
    const outputs = ids.map((id) => ({
      id: formatId('media', id),
      state: 'Failed' as const,
      reason: 'InputMissing',
      message,
    }))
    await world.setBatchStatus(await batchOf(ids[0] as Uuid), { ...failed('SomeInputsFailed'), outputs })
    await world.setStatus(video, failed('InputMissing'))
    for (const id of [...ids, video]) await becomes(id, 'failed')
    t.strictSame(await db.read({}, countFailures), [{ reason: 'InputMissing', code: 'INTERNAL', count: 31 }])

    const listener = listenForNotifications({
      url,
      channels: { images: (org) => org && batches.wake(org as Uuid) },
      log,
    })
    t.teardown(() => listener.close())
    await listening()
    t.equal(await retryFailed(db, 'InputMissing'), 31)
    await eventually('one batch of all images', async () => (await world.batchOf(ids[0] as Uuid)) !== undefined)
    const batch = await world.batchOf(ids[0] as Uuid)
    t.strictSame(membersOf(batch), [...ids].sort())
    for (const id of ids) await world.writeImage(id, 2)
    await world.setBatchStatus(await batchOf(ids[0] as Uuid), succeeded(...ids))
    for (const id of ids) {
      await becomes(id, 'completed')
      t.match(await world.row(id), { generation: 2, output_prefix: world.prefixOf(id, 2), conversion_error: null })
    }
    t.strictSame(await db.read({}, countFailures), [])
  },
)

t.test('however many conversions are retried, a Live Photo is retried as one', async (t) => {
  const ids = Array.from({ length: 300 }, () => newUuid()).sort()
  const [videos, images] = [ids.slice(0, 150), ids.slice(150)]
  // All videos come before all images, in the order in which they are queued.
  await admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
       conversion_state, conversion_finished_at, conversion_error, paired_media_id)
     select half.id, $1, $2, 'f', half.kind || '/x', half.kind, 1, 'failed', 'failed', now(),
       json_build_object('code', 'INTERNAL', 'message', 'No', 'reason', half.reason)::jsonb, half.counterpart
     from (
       select video as id, 'video' as kind, 'NeverStarted' as reason, image as counterpart
       from unnest($3::uuid[], $4::uuid[]) pairs (video, image)
       union all
       select image, 'image', 'Killed', video from unnest($3::uuid[], $4::uuid[]) pairs (video, image)
     ) half`,
    [world.org, world.user, videos, images],
  )
  t.teardown(() => admin.query(`update media set deleted_at = now() where id = any ($1)`, [ids]))
  t.equal(await retryFailed(db, 'NeverStarted'), 300)
  t.strictSame(await db.read({}, countFailures), [])
})

t.test('a specification that the cluster refuses fails the members and frees the slot', async (t) => {
  const { batches } = await worker(t, { create: async () => Promise.reject(new ClusterError('Invalid', 'no')) })
  const ids = await backfill(12)
  await batches.fill()
  for (const id of ids)
    t.match(await world.row(id), { upload_status: 'failed', conversion_error: { code: 'INTERNAL' } })
})

t.test('while the cluster is unavailable the batch stays what it is, and its start is repeated', async (t) => {
  let isAway = true
  const create: Cluster['create'] = async (...given) => {
    if (isAway) throw new ClusterError('Unavailable', 'away')
    return cluster.create(...given)
  }
  const { react, batches } = await worker(t, { create })
  const [id] = (await photos(1)) as [Uuid]
  await t.rejects(react(id), { message: 'away' }, 'the event is tried again')
  const batch = await batchOf(id)
  await photos(3)
  await batches.fill()
  isAway = false
  await eventually('the TranscodeJob', () => world.batchOf(id))
  t.equal(await batchOf(id), batch)
  t.strictSame(membersOf(await world.batchOf(id)), [id])
})

t.test('a batch without a sign of life is given up, and its resource goes with the last member', async (t) => {
  const clock = { now: () => new Date(Date.now() + 7.1 * HOUR * 1000) }
  const { batches, sweep, liveOn } = await worker(t)
  const ids = await backfill(12)
  await batches.fill()
  const key = world.batchKey(await batchOf(ids[0] as Uuid))
  let removed = 0
  const watched: Cluster = {
    ...cluster,
    delete: async (...given) => {
      const left = await admin.query(`select from media where upload_status = 'processing'`)
      t.equal(left.rowCount, 0, 'nobody waits for it')
      removed++
      return cluster.delete(...given)
    },
  }
  await sweep({ clock, cluster: watched })
  t.equal(removed, 0)
  liveOn(1.1)
  await sweep({ clock, cluster: watched })
  for (const id of ids) t.match(await world.row(id), { upload_status: 'failed', conversion_error: { code: 'TIMEOUT' } })
  t.equal(removed, 1)
  await eventually('it to be gone', async () => !(await cluster.get(TRANSCODE_JOBS, key)))
})

t.test('all images of several batches are locked in order of id, like those of a highlight', async (t) => {
  const { batches } = await worker(t)
  const [low, high] = (await photos(2, { bytes: 33 * 2 ** 20 })).sort()
  if (!low || !high) throw new Error('no photos')
  // Each is large, and has a batch of its own. The one with the higher id comes first.
  await admin.query(`update media set created_at = created_at - interval '1 minute' where id = $1`, [high])
  const form = async () => {
    batches.wake(world.org)
    await eventually('batches', async () => (await batchOf(low)) && (await batchOf(high)))
  }
  t.ok(await locksInOrder(database, 'media', [low, high], form))
  t.not(await batchOf(low), await batchOf(high))
})
