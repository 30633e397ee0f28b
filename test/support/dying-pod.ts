import * as z from 'zod'
import { openDatabase } from '../../api/db/db.ts'
import { WorkerConfig } from '../../api/worker/config.ts'
import { type WorkerPart, workerPart } from '../../api/worker/feature-worker.ts'
import { startWorker } from '../../api/worker/worker.ts'
import { systemClock } from '../../lib/runtime/clock.ts'
import { loadConfig } from '../../lib/runtime/config.ts'
import { openMemoryBus } from '../../lib/runtime/event-bus/memory.ts'
import { armFailpoint } from '../../lib/runtime/failpoint.ts'
import { openKubeCluster } from '../../lib/runtime/kube/kube-cluster.ts'
import { openLog } from '../../lib/runtime/log.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import type { PodFeature } from './worker-process.ts'

/**
 * The worker as `api/worker/program.ts` starts it, but with one of its features, which dies at a failpoint:
 * `node dying-pod.ts FEATURE`. With all features, loading them costs more than the rest of its life.
 */
const PARTS: Record<PodFeature, () => Promise<WorkerPart>> = {
  async 'data-exports'() {
    const { dataExportWorker } = await import('../../api/features/data-exports/worker.ts')
    const { contentsOf } = await import('../../api/features/data-exports/contents.ts')
    const { ownMediaData } = await import('../../api/features/media/own-data.ts')
    return workerPart(z.object({}), (deps) => dataExportWorker(deps, contentsOf([ownMediaData])))
  },
  async highlights() {
    const { HighlightSettings, highlightWorker } = await import('../../api/features/highlights/worker.ts')
    return workerPart(HighlightSettings, highlightWorker)
  },
  async media() {
    const { MediaSettings, mediaWorker } = await import('../../api/features/media/worker.ts')
    return workerPart(MediaSettings, mediaWorker)
  },
  async notifications() {
    const { NotificationSettings } = await import('../../api/features/notifications/settings.ts')
    const { notificationWorker } = await import('../../api/features/notifications/worker.ts')
    return workerPart(NotificationSettings, notificationWorker)
  },
}

const part = await PARTS[process.argv[2] as PodFeature]()
const config = { ...loadConfig(WorkerConfig), ...loadConfig(part.settings) }
armFailpoint(config.KEEPSAKE_FAILPOINT)
const log = openLog({ program: 'worker', level: config.LOG_LEVEL })
const db = openDatabase({
  url: config.DATABASE_URL,
  role: 'keepsake_worker',
  statementTimeoutMs: 60_000,
  maxConnections: config.DATABASE_CONNECTIONS,
  log,
})
const store = openFolderStore({ folder: config.STORE_FOLDER ?? '' })
const cluster = openKubeCluster({ log })
const bus = openMemoryBus({ log })
await startWorker({ config, features: [part], db, store, bus, cluster, log, clock: systemClock })
