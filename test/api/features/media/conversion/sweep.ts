import t from 'tap'
import type { HighlightRenderObject } from '../../../../../api/features/highlights/render/facts.ts'
import { highlightRenderFor } from '../../../../../api/features/highlights/render/render-spec.ts'
import { retryMedia } from '../../../../../api/features/media/commands.ts'
import { startVideoAdmission } from '../../../../../api/features/media/conversion/admission.ts'
import { startBatches } from '../../../../../api/features/media/conversion/batches.ts'
import type { TranscodeJobObject } from '../../../../../api/features/media/conversion/facts.ts'
import { CONVERSIONS } from '../../../../../api/features/media/conversion/kind.ts'
import { transcodeJobFor } from '../../../../../api/features/media/conversion/transcode-spec.ts'
import { expireUploads } from '../../../../../api/features/media/uploads/release.ts'
import { cleanUp } from '../../../../../api/worker/clean-up.ts'
import type { RepairOptions } from '../../../../../api/worker/feature-worker.ts'
import { failRun } from '../../../../../api/worker/runs/commands.ts'
import { followRuns } from '../../../../../api/worker/runs/project.ts'
import { openSightings } from '../../../../../api/worker/runs/sightings.ts'
import { type SweepDeps, sweepRuns } from '../../../../../api/worker/runs/sweep.ts'
import { HIGHLIGHT_RENDERS } from '../../../../../crds/highlight-render.ts'
import { TRANSCODE_JOBS } from '../../../../../crds/transcode-job.ts'
import { newUuid, type Uuid } from '../../../../../lib/contract/ids.ts'
import type { Cluster } from '../../../../../lib/runtime/kube/cluster.ts'
import { NAMESPACE, startConversionTest, succeeded } from '../../../../support/conversion-world.ts'
import { eventually } from '../../../../support/eventually.ts'

const { database, cluster, world, base, clear } = await startConversionTest(t)
const { worker: db, admin } = database
const HOUR = 3600

/** A sweep with a projector of its own. What holds for every kind is in `test/api/worker/runs/sweep.ts`. */
async function sweeper(
  t: { teardown(fn: () => Promise<void>): void },
  change: Partial<SweepDeps<TranscodeJobObject> & { cluster: Cluster }> = {},
) {
  const projector = followRuns({ ...base, ...change }, CONVERSIONS, { progressMs: 0, backoffMs: () => 10 })
  t.teardown(() => projector.stop())
  await projector.reflection.synced()
  const repairs: string[] = []
  const admission = startVideoAdmission({ ...base, ...change }, { maxPerOrganization: 100, backoffMs: () => 10 })
  const batches = startBatches({ ...base, ...change }, { interactive: 100, backfill: 100, backoffMs: () => 10 })
  t.teardown(async () => void (await Promise.all([admission.stop(), batches.stop()])))
  let aliveMs = 0
  const sightings = openSightings(() => aliveMs)
  const queue = () => projector.reflection.list()
  const parts = { follower: projector, queue, sightings, fillers: [batches, admission] }
  const deps: SweepDeps<TranscodeJobObject> = {
    ...base,
    ...parts,
    onRepaired: (kind, r) => repairs.push(kind === TRANSCODE_JOBS.kind ? r : kind),
    ...change,
  }
  const sweep = (options: Partial<RepairOptions> = {}) =>
    sweepRuns(deps, CONVERSIONS, {
      idleSeconds: 0,
      marginSeconds: HOUR,
      giveUpSeconds: 72 * HOUR,
      batch: 3,
      ...options,
    })
  const liveOn = (hours: number) => {
    aliveMs += hours * HOUR * 1000
  }
  return { sweep, liveOn, repairs, projector }
}
const isCompleted = (id: Uuid) =>
  eventually('a completed media', async () => (await world.row(id)).upload_status === 'completed')

t.beforeEach(clear)

t.test('a retry is found and starts the next generation', async (t) => {
  const id = await world.converting()
  await failRun(db, CONVERSIONS, { id, generation: 1 }, { code: 'INTERNAL', message: 'once' })
  await retryMedia(db, id)
  const { sweep } = await sweeper(t)
  await sweep()
  t.match((await world.job(id, 2))?.spec.inputs, [{ outputPrefix: world.prefixOf(id, 2) }])
})

t.test('a finished resource that has the name and other inputs gives way', async (t) => {
  const id = await world.upload()
  const foreign = transcodeJobFor(
    { id, orgId: world.org, generation: 1, originalTier: 'hot', fileSizeBytes: 5 },
    NAMESPACE,
  )
  foreign.spec.inputs = foreign.spec.inputs.map((input) => ({ ...input, outputPrefix: world.prefixOf(id, 7) }))
  await cluster.create(TRANSCODE_JOBS, foreign)
  await world.setStatus(id, succeeded(id))
  const { sweep, repairs } = await sweeper(t)
  await sweep()
  await eventually('the right one', async () => {
    await sweep()
    return (await world.job(id))?.spec.inputs[0]?.outputPrefix === world.prefixOf(id)
  })
  t.equal(repairs[0], 'replace')
  await world.writeOutput(id)
  await world.setStatus(id, succeeded(id))
  await sweep()
  await isCompleted(id)
})

t.test('a conversion that waits behind a render is not given up while that runs', async (t) => {
  const options = { title: '', transition: 'cut', musicTrackId: null, orientation: 'auto', fill: 'blur' } as const
  const flags = { showTitle: false, kenBurns: false, skipBroken: false }
  const item = {
    mediaId: newUuid(),
    sourceId: newUuid(),
    type: 'image',
    seconds: 4,
    caption: '',
    originalTier: 'hot',
  } as const
  const highlight = { id: newUuid(), orgId: world.org, generation: 1, ...options, ...flags, items: [item] }
  const made = highlightRenderFor(highlight, NAMESPACE)
  await cluster.create(HIGHLIGHT_RENDERS, made)
  const id = await world.converting()
  await world.setStatus(id, { phase: 'Pending', attempts: 0 })
  const later = (hours: number) => new Date(Date.now() + hours * HOUR * 1000)
  const key = { namespace: NAMESPACE, name: made.metadata.name }
  const startTime = later(7).toISOString()
  await cluster.applyStatus(HIGHLIGHT_RENDERS, key, { phase: 'Running', attempts: 1, startTime }, 'test')
  const reflection = cluster.reflect<HighlightRenderObject>(
    HIGHLIGHT_RENDERS,
    { onSet() {}, onDelete() {} },
    { namespace: NAMESPACE },
  )
  t.teardown(() => reflection.stop())
  await reflection.synced()
  const { sweep, liveOn } = await sweeper(t, { clock: { now: () => later(8.5) }, queue: () => reflection.list() })
  await sweep()
  liveOn(1.1)
  await sweep()
  t.equal((await world.row(id)).upload_status, 'processing')
  await cluster.delete(HIGHLIGHT_RENDERS, key)
  await eventually('the highlight to be gone', () => reflection.list().length === 0)
  await sweep()
  liveOn(1.1)
  await sweep()
  t.match(await world.row(id), { upload_status: 'failed', conversion_error: { code: 'TIMEOUT' } })
})

t.test('what has had its time is removed: published events, idempotency keys, sessions, uploads', async (t) => {
  await admin.query('delete from outbox')
  await admin.query(
    `insert into outbox (id, org_id, area, aggregate_id, aggregate_version, type, payload, published_at)
     select gen_random_uuid(), $1::uuid, 'media', gen_random_uuid(), 1, 'MediaUploaded', '{}'::jsonb, now() - make_interval(days => d)
     from generate_series(1, 2500) i, lateral (select case when i % 5 = 0 then 6 else 8 end as d) x
     union all select gen_random_uuid(), $1::uuid, 'media', gen_random_uuid(), 1, 'MediaUploaded', '{}'::jsonb, null`,
    [world.org],
  )
  await admin.query(
    `insert into idempotency_keys (user_id, method, route, key, state, locked_until, holder, created_at)
     values ($1, 'post', '/a', 'old', 'done', now(), $1, now() - interval '25 hours'),
            ($1, 'post', '/a', 'new', 'done', now(), $1, now() - interval '23 hours')`,
    [newUuid()],
  )
  await admin.query(
    `insert into uploads (id, org_id, uploader_id, media_id, layout, filename, mime_type, file_size_bytes,
       chunk_size_bytes, total_chunks, expires_at, absolute_expires_at)
     values ($1, $2, $3, $1, 'staged', 'f', 'video/mp4', 1, 1, 1, now() - interval '1 hour', now())`,
    [newUuid(), world.org, world.user],
  )
  await admin.query(
    `insert into sessions (user_id, sid, first_seen_at, last_seen_at)
     values ($1, 'old', now() - interval '500 days', now() - interval '401 days'),
            ($1, 'in use', now() - interval '500 days', now() - interval '399 days')`,
    [world.user],
  )
  await cleanUp(db, new AbortController().signal)
  await expireUploads(db, base.store, { log: base.log })
  const one = async (sql: string) => (await admin.query(sql)).rows
  t.strictSame(await one('select count(*)::int as n, count(published_at)::int as p from outbox'), [{ n: 501, p: 500 }])
  t.strictSame(await one('select key from idempotency_keys'), [{ key: 'new' }])
  t.strictSame(await one('select sid from sessions'), [{ sid: 'in use' }])
  t.strictSame(await one('select state from uploads'), [{ state: 'expired' }])
})
