import { AuditKeys, openMasterKeys } from '../../api/audit/master-keys.ts'
import { openPersonalData } from '../../api/audit/personal-data.ts'
import { openDatabase } from '../../api/db/db.ts'
import { startExporter } from '../../api/features/audit-log/exporter.ts'
import { systemClock } from '../../lib/runtime/clock.ts'
import { armFailpoint } from '../../lib/runtime/failpoint.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import { MIN_PART_BYTES } from '../../lib/runtime/object-store/object-store.ts'
import { AUDIT_KEYS } from './personal-data.ts'
import { quietLog } from './quiet-log.ts'

/** A worker that makes audit exports, and dies at a failpoint: `node dying-exporter.ts DATABASE FOLDER FAILPOINT`. */
const [url = '', folder = '', name] = process.argv.slice(2)
armFailpoint(name)
const log = quietLog()
const db = openDatabase({ url, role: 'keepsake_worker', statementTimeoutMs: 10_000, maxConnections: 3, log })
const personalData = openPersonalData({ db, masters: openMasterKeys(AuditKeys.parse(JSON.parse(AUDIT_KEYS))) })
const store = openFolderStore({ folder })
const options = { partBytes: MIN_PART_BYTES, pageEntries: 100, leaseSeconds: 600 }
startExporter({ db, store, personalData, log, clock: systemClock }, options)
