import './report.ts'
import { startSealer } from '../../api/audit/sealer.ts'
import { openDatabase } from '../../api/db/db.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import { testPersonalData } from '../support/personal-data.ts'
import { quietLog } from '../support/quiet-log.ts'

/** The sealer as the worker has it, alone in its process. */
const { BENCH_DATABASE: url = '', BENCH_STORE: folder = '' } = process.env
const log = quietLog()
const db = openDatabase({ url, role: 'keepsake_worker', statementTimeoutMs: 10_000, maxConnections: 3, log })
const sealer = startSealer({ db, store: openFolderStore({ folder }), personalData: testPersonalData(db), log })
process.once('SIGTERM', () => void sealer.stop().then(() => process.exit(0)))
console.log('{"publicUrl":"none"}')
