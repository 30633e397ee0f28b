import * as z from 'zod'
import { openMasterKeys } from '../../audit/master-keys.ts'
import { openPersonalData } from '../../audit/personal-data.ts'
import { workerPart } from '../../worker/feature-worker.ts'
import { countProcessing, deleteOldExports } from './export-queries.ts'
import { startExporter } from './exporter.ts'

const BATCH = 500
const KEPT_DAYS = 30

export const auditLogWorker = workerPart(z.object({}), (deps) => {
  const { db, config, counterOf } = deps
  const entries = counterOf({
    name: 'audit_export_entries_total',
    help: 'Entries in completed exports of the audit log',
  })
  const failures = counterOf({
    name: 'audit_export_failures_total',
    help: 'Failed attempts to make an export of the audit log',
  })
  const exporter = startExporter({
    ...deps,
    // Remembers no key: an erasure holds from the next page on.
    personalData: openPersonalData({ db, masters: openMasterKeys(config.AUDIT_KEYS), cacheMs: 0 }),
    onMade: (made) => entries(made),
    onFailed: () => failures(1),
  })
  const forget = async (signal: AbortSignal) => {
    const some = () => db.inTransaction({}, (tx) => deleteOldExports(tx, { days: KEPT_DAYS, limit: BATCH }))
    while (!signal.aborted && (await some()) === BATCH);
  }
  return {
    channels: { audit_exports: () => exporter.wake() },
    tasks: [{ name: 'audit-exports', run: (_, signal) => forget(signal) }],
    gauges: [
      {
        name: 'audit_exports_processing',
        help: 'Exports of the audit log under way; NaN when the database does not answer',
        read: countProcessing,
      },
    ],
    stop: () => exporter.stop(),
  }
})
