import { openDatabase } from '../../api/db/db.ts'
import { giveNotices } from '../../api/features/event-archive/notices.ts'
import { armFailpoint } from '../../lib/runtime/failpoint.ts'
import { quietLog } from './quiet-log.ts'

/** The sweep that tells owners before a purge, which dies at a failpoint: `node dying-notices.ts DATABASE FAILPOINT`. */
const [url = '', name] = process.argv.slice(2)
armFailpoint(name)
const log = quietLog()
const db = openDatabase({ url, role: 'keepsake_worker', statementTimeoutMs: 10_000, maxConnections: 2, log })
await giveNotices({ db, log }, new AbortController().signal)
await db.close()
