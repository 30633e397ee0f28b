import t from 'tap'
import { listenForNotifications } from '../../../../../api/db/notification-listener.ts'
import { retryMedia } from '../../../../../api/features/media/commands.ts'
import { startVideoAdmission } from '../../../../../api/features/media/conversion/admission.ts'
import { CONVERSIONS } from '../../../../../api/features/media/conversion/kind.ts'
import { failRun } from '../../../../../api/worker/runs/commands.ts'
import { TRANSCODE_JOBS } from '../../../../../crds/transcode-job.ts'
import type { Uuid } from '../../../../../lib/contract/ids.ts'
import { startConversionTest } from '../../../../support/conversion-world.ts'
import { eventually } from '../../../../support/eventually.ts'

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
