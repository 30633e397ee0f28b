import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { retryMedia } from '../../../../../api/features/media/commands.ts'
import { CONVERSIONS } from '../../../../../api/features/media/conversion/kind.ts'
import type { FollowOptions } from '../../../../../api/worker/follow.ts'
import { failRun } from '../../../../../api/worker/runs/commands.ts'
import { followRuns } from '../../../../../api/worker/runs/project.ts'
import { findRun } from '../../../../../api/worker/runs/queries.ts'
import { startRun } from '../../../../../api/worker/runs/start.ts'
import type { RunStatus } from '../../../../../crds/run.ts'
import { TRANSCODE_JOBS } from '../../../../../crds/transcode-job.ts'
import { formatId, type Uuid } from '../../../../../lib/contract/ids.ts'
import { masterKey } from '../../../../../lib/contract/object-keys.ts'
import {
  aManifest,
  failed,
  NAMESPACE,
  running,
  startConversionTest,
  succeeded,
} from '../../../../support/conversion-world.ts'
import { eventually } from '../../../../support/eventually.ts'
import { quietLog } from '../../../../support/quiet-log.ts'

const { database, place, cluster, world } = await startConversionTest(t)
const { worker: db, admin } = database
const { store } = place
const log = quietLog()
const deps = { db, store, cluster, namespace: NAMESPACE, log }

function project(t: { teardown(fn: () => Promise<void>): void }, options: FollowOptions = {}, other = {}) {
  const projector = followRuns({ ...deps, ...other }, CONVERSIONS, { progressMs: 0, backoffMs: () => 10, ...options })
  t.teardown(() => projector.stop())
  const idle = () => eventually('an idle projector', () => projector.waiting() === 0)
  /** Has looked at what was shown of this video. */
  const hasSeen = async (id: Uuid, phase: RunStatus['phase']) => {
    const seen = () => projector.reflection.get(world.keyOf(id))?.status?.phase === phase
    await eventually(`${phase} to be heard of`, seen)
    await idle()
  }
  return { ...projector, idle, hasSeen }
}
const statusOf = async (id: Uuid) => (await world.row(id)).upload_status
const until = (id: Uuid, status: string) =>
  eventually(`${status} media`, async () => {
    const row = await world.row(id)
    return row.upload_status === status ? row : undefined
  })
const show = async (id: Uuid, status: RunStatus) => void (await world.setStatus(id, status))

t.test('a conversion is told from the first percent to the end', async (t) => {
  const id = await world.converting()
  project(t)
  await show(id, { phase: 'Pending', attempts: 0 })
  await show(id, running(10))
  await eventually('the first percent', async () => (await world.row(id)).conversion_progress?.percent === 10)
  t.match(await world.row(id), {
    upload_status: 'processing',
    conversion_state: 'running',
    conversion_attempts: 1,
    conversion_progress: { percent: 10, speed: '1.8x', eta_sec: 90, stage: 'Encoding' },
    hls_master: null,
    version: 2,
  })

  await show(id, running(40, { playable: [formatId('media', id)] }))
  await eventually('more', async () => (await world.row(id)).conversion_progress?.percent === 40)
  t.equal((await world.row(id)).hls_master, null, 'a playlist that is not there is not linked')
  await store.put(masterKey(world.prefixOf(id)), '#EXTM3U', { contentType: 'text/plain' })
  await show(id, running(41, { playable: [formatId('media', id)] }))
  await eventually('something to play', async () => (await world.row(id)).hls_master)
  t.match(await world.row(id), {
    upload_status: 'processing',
    output_prefix: world.prefixOf(id),
    hls_master: 'master.m3u8',
  })

  await world.writeOutput(id)
  await show(id, succeeded(id))
  const row = await until(id, 'completed')
  t.match(row, {
    conversion_state: 'succeeded',
    conversion_error: null,
    conversion_attempts: 1,
    conversion_started_at: new Date('2026-05-01T10:00:00Z'),
    conversion_progress: null,
    output_prefix: world.prefixOf(id),
    hls_master: 'master.m3u8',
    manifest: aManifest(id),
  })
  t.ok(row['conversion_finished_at'])
  const { rows } = await admin.query(`select * from outbox where aggregate_id = $1 and type = 'MediaTranscoded'`, [id])
  t.equal(rows.length, 1)
  t.match(rows[0], {
    aggregate_version: row.version,
    payload: {
      media_id: formatId('media', id),
      variants: { hls_master_url: masterKey(world.prefixOf(id)), image_url: null },
    },
  })
})

t.test('a conversion that was never seen running has its attempts and its beginning all the same', async (t) => {
  const [good, bad] = [await world.converting(), await world.converting()]
  await world.writeOutput(good)
  await show(good, { ...succeeded(good), attempts: 2 })
  await show(bad, failed('CorruptInput'))
  project(t)
  t.match(await until(good, 'completed'), {
    conversion_attempts: 2,
    conversion_started_at: new Date('2026-05-01T10:00:00Z'),
  })
  t.match(await until(bad, 'failed'), { conversion_attempts: 3, conversion_started_at: null })
})

t.test('progress is written now and then, the end at once', async (t) => {
  const id = await world.converting()
  project(t, { progressMs: 60_000 })
  for (let percent = 1; percent <= 30; percent++) {
    await show(id, running(percent))
    await sleep(2)
  }
  t.ok((await world.row(id)).version <= 3)
  await world.writeOutput(id)
  await show(id, succeeded(id))
  await until(id, 'completed')
  t.equal((await world.row(id))['conversion_state'], 'succeeded')
})

t.test('a list that starts over asks the database for nothing', async (t) => {
  const id = await world.converting()
  let reads = 0
  const read: typeof db.read = (scope, work) => {
    reads += 1
    return db.read(scope, work)
  }
  const counting = { ...db, read }
  const p = project(t, {}, { db: counting })
  await show(id, running(20))
  await eventually('progress', async () => (await world.row(id)).conversion_progress?.percent === 20)
  await p.idle()
  const before = reads
  await cluster.patch(TRANSCODE_JOBS, world.keyOf(id), { metadata: { annotations: { touched: 'yes' } } })
  const isHeardOf = () => p.reflection.get(world.keyOf(id))?.metadata.annotations?.['touched'] === 'yes'
  await eventually('the change to be heard of', isHeardOf)
  await p.idle()
  t.equal(reads, before)
})

t.test('a failure blames the file or us, and takes away what was only begun', async (t) => {
  const [broken, ours] = [await world.converting(), await world.converting()]
  project(t)
  await store.put(masterKey(world.prefixOf(broken)), '#EXTM3U', { contentType: 'text/plain' })
  await show(broken, running(40, { playable: [formatId('media', broken)] }))
  await eventually('something to play', async () => (await world.row(broken)).hls_master)
  await show(broken, failed('CorruptInput', 'Only 3 of 10 seconds can be decoded'))
  await show(ours, failed('BackoffLimitExceeded', 'pod tj-1 on node-7'))
  t.match(await until(broken, 'failed'), {
    conversion_state: 'failed',
    conversion_error: { code: 'CORRUPT_INPUT', message: 'Only 3 of 10 seconds can be decoded' },
    output_prefix: null,
    hls_master: null,
  })
  const row = await until(ours, 'failed')
  t.equal(row.conversion_error?.code, 'INTERNAL')
  t.notMatch(row.conversion_error?.message, /node-7/)
  t.equal(await world.count(broken, 'MediaTranscoded'), 0)
})

t.test('what a generation before says changes nothing', async (t) => {
  const id = await world.converting()
  await failRun(db, CONVERSIONS, { id, generation: 1 }, { code: 'INTERNAL', message: 'once' })
  await retryMedia(db, id)
  const p = project(t)
  await world.writeOutput(id)
  await show(id, succeeded(id))
  await p.hasSeen(id, 'Succeeded')
  t.equal(await statusOf(id), 'processing')

  const media = await db.read({}, (tx) => findRun(tx, CONVERSIONS, id))
  if (media) await startRun(deps, CONVERSIONS, media)
  await world.writeOutput(id, 2)
  await world.setStatus(id, succeeded(id), 2)
  await until(id, 'completed')
  t.equal((await world.row(id)).output_prefix, world.prefixOf(id, 2))
  t.equal(await world.count(id, 'MediaTranscoded'), 1)
})

const useless: [string, (id: Uuid) => Promise<void>][] = [
  ...['\0', '\ud83d'].map((text): (typeof useless)[number] => [
    `Postgres cannot keep (${JSON.stringify(text)})`,
    (id) => world.writeOutput(id, 1, { source: { ...aManifest(id).source, camera: { make: text, model: null } } }),
  ]),
]
for (const [what, prepare] of useless) {
  t.test(`a manifest that ${what} is our failure, after a few attempts`, async (t) => {
    const id = await world.converting()
    await prepare(id)
    project(t, { manifestAttempts: 3 })
    await show(id, succeeded(id))
    t.match((await until(id, 'failed')).conversion_error, { code: 'INTERNAL' })
    t.equal(await world.count(id, 'MediaTranscoded'), 0)
  })
}

t.test('a failure whose message Postgres cannot keep is recorded', async (t) => {
  const id = await world.converting()
  const output = {
    id: formatId('media', id),
    state: 'Failed' as const,
    reason: 'CorruptInput',
    message: 'No\0 vi\ud83ddeo',
  }
  project(t)
  await show(id, { ...failed('CorruptInput'), outputs: [output] })
  t.match((await until(id, 'failed')).conversion_error, { code: 'CORRUPT_INPUT', message: 'No vi\ufffddeo' })
})

t.test('the database going away in the middle is survived', async (t) => {
  const ids = await Promise.all(Array.from({ length: 10 }, () => world.converting()))
  for (const id of ids) await world.writeOutput(id)
  project(t)
  for (const [i, id] of ids.entries()) {
    await show(id, succeeded(id))
    if (i % 3 === 0) {
      await admin.query(`select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = 'keepsake_worker' and datname = current_database()`)
    }
  }
  for (const id of ids) await until(id, 'completed')
  for (const id of ids) t.equal(await world.count(id, 'MediaTranscoded'), 1)
})
