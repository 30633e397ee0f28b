import { startSealer } from '../../api/audit/sealer.ts'
import { openDatabase } from '../../api/db/db.ts'
import { armFailpoint } from '../../lib/runtime/failpoint.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import { testPersonalData } from './personal-data.ts'
import { quietLog } from './quiet-log.ts'

/** A sealer in a process that dies at a failpoint: `node dying-sealer.ts DATABASE FOLDER FAILPOINT`. */
const [url = '', folder = '', name] = process.argv.slice(2)
armFailpoint(name)
const log = quietLog()
const db = openDatabase({ url, role: 'keepsake_worker', statementTimeoutMs: 10_000, maxConnections: 3, log })
startSealer({ db, store: openFolderStore({ folder }), personalData: testPersonalData(db), log }, { pollMs: 20 })
