import t from 'tap'
import { listenForNotifications } from '../../../../../api/db/notification-listener.ts'
import { sql } from '../../../../../api/db/orm.ts'
import { retryMedia } from '../../../../../api/features/media/commands.ts'
import { startVideoAdmission } from '../../../../../api/features/media/conversion/admission.ts'
import { videosWith } from '../../../../../api/features/media/conversion/admission-queries.ts'
import { CONVERSIONS } from '../../../../../api/features/media/conversion/kind.ts'
import { parallelismOf } from '../../../../../api/features/media/conversion/parallelism.ts'
import { failRun } from '../../../../../api/worker/runs/commands.ts'
import { TRANSCODE_JOBS } from '../../../../../crds/transcode-job.ts'
import type { Uuid } from '../../../../../lib/contract/ids.ts'
import { startConversionTest } from '../../../../support/conversion-world.ts'
import { eventually } from '../../../../support/eventually.ts'

const GIB = 2 ** 30

/** What is particular to the slots of videos. What holds for every kind is in `test/api/worker/runs/slots.ts`. */
const { database, cluster, world, base } = await startConversionTest(t)
const { worker: db, admin, url } = database

const end = async (id: Uuid) => {
  await failRun(db, CONVERSIONS, { id, generation: 1 }, { code: 'CORRUPT_INPUT', message: 'over' })
  await cluster.delete(TRANSCODE_JOBS, world.keyOf(id))
}
/** Notifications that are sent before this are lost. */
const listening = () =>
  eventually('a listener', async () => {
    const { rowCount } = await admin.query(
      `select from pg_stat_activity where datname = current_database() and query like '%listen conversions%' and state = 'idle'`,
    )
    return rowCount
  })

t.test('a retry waits for a slot like any other, and is woken at once', async (t) => {
  const admission = startVideoAdmission(base, { maxPerOrganization: 1, backoffMs: () => 10 })
  t.teardown(() => admission.stop())
  const [first, second] = [await world.upload(), await world.upload()]
  await admission.fill()
  t.ok(await world.job(first))
  await end(first)
  await admission.fill()
  t.ok(await world.job(second))
  const wake = (org?: string) => org && admission.wake(org as Uuid)
  const listener = listenForNotifications({ url, channels: { conversions: wake }, log: base.log })
  t.teardown(() => listener.close())
  await listening()
  await retryMedia(db, first)
  await admission.fill()
  t.equal(await world.job(first, 2), undefined)
  t.match(await world.row(first), { conversion_state: 'queued', conversion_admitted_at: null })
  await end(second)
  t.ok(await eventually('the second generation', () => world.job(first, 2)))
})

t.test('a large video takes a slot for each of its pods, in its turn', async (t) => {
  const limits = { maxPerOrganization: 4, maxParallelism: 3 }
  const admission = startVideoAdmission(base, { ...limits, backoffMs: () => 10 })
  t.teardown(() => admission.stop())
  await admin.query(`update media set deleted_at = now() where upload_status = 'processing'`)
  const sizes = [5, 5, 9 * GIB, 5]
  const ids: Uuid[] = []
  for (const bytes of sizes) ids.push(await world.upload('video/mp4', { bytes }))
  const [small, other, large, late] = ids as [Uuid, Uuid, Uuid, Uuid]
  const jobs = () => Promise.all(ids.map((id) => world.job(id)))
  await admission.fill()
  t.match(await jobs(), [{}, {}, undefined, undefined], 'nothing overtakes the large one')
  t.match((await world.job(small))?.spec, { parallelism: 1 })
  await end(small)
  await admission.fill()
  t.match((await world.job(large))?.spec, { parallelism: 3 })
  t.equal(await world.job(late), undefined, 'all four slots are taken')
  await end(other)
  await admission.fill()
  t.ok(await world.job(late))
  for (const id of [large, late]) await end(id)
})

t.test('Postgres counts the slots that the worker gives', async (t) => {
  for (const limits of [
    { maxPerOrganization: 8, maxParallelism: 64 },
    { maxPerOrganization: 64, maxParallelism: 4 },
  ]) {
    const { slots } = videosWith(limits)
    for (const bytes of [1, GIB - 1, GIB, 3.5 * GIB, 4 * GIB - 1, 63 * GIB, 5000 * GIB]) {
      const from = sql`(values (${bytes}::bigint)) as media (file_size_bytes)`
      const { rows } = await db.read({}, (tx) =>
        tx.execute<{ n: number }>(sql`select (${slots})::int as n from ${from}`),
      )
      t.equal(rows[0]?.n, parallelismOf(bytes, limits), `${bytes}`)
    }
  }
})
