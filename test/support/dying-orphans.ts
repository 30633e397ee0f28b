import { openDatabase } from '../../api/db/db.ts'
import { deleteOrphans } from '../../api/orphans/orphans.ts'
import { armFailpoint } from '../../lib/runtime/failpoint.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import { quietLog } from './quiet-log.ts'

/** `objects orphans --delete` in a process that dies at a failpoint: `node dying-orphans.ts DATABASE FOLDER FAILPOINT`. */
const [url = '', folder = '', name] = process.argv.slice(2)
armFailpoint(name)
const db = openDatabase({
  url,
  role: 'keepsake_worker',
  statementTimeoutMs: 10_000,
  maxConnections: 1,
  log: quietLog(),
})
await deleteOrphans({ db, store: openFolderStore({ folder }) }, { most: false }, () => {})
