import { openDatabase } from '../../api/db/db.ts'
import { startConsumers } from '../../api/worker/consumers/start.ts'
import { openWorkerMetrics } from '../../api/worker/metrics.ts'
import type { EventType } from '../../lib/contract/events.ts'
import { openNatsBus } from '../../lib/runtime/event-bus/nats.ts'
import { armFailpoint } from '../../lib/runtime/failpoint.ts'
import { asOlderVersion } from './older-version.ts'
import { quietLog } from './quiet-log.ts'
import { recordingConsumer } from './recording-consumer.ts'

/**
 * The consumers of a worker, in a process that dies at a failpoint, of a version that may not know one of today's event
 * types: `node dying-worker.ts NATS DATABASE FAILPOINT [TYPE]`.
 */
const [natsUrl = '', url = '', name, unknown] = process.argv.slice(2)
if (unknown) asOlderVersion(unknown as EventType)
armFailpoint(name)
const log = quietLog()
const db = openDatabase({ url, role: 'keepsake_worker', statementTimeoutMs: 10_000, maxConnections: 3, log })
const bus = openNatsBus({ url: natsUrl, ackWaitMs: 1000, log })
startConsumers({ db, url, bus, log, ...openWorkerMetrics(db) }, [
  { ...recordingConsumer, types: recordingConsumer.types.filter((type) => type !== unknown) },
])
