import { openDatabase } from '../../api/db/db.ts'
import { armFailpoint } from '../../lib/runtime/failpoint.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import { openLocalCluster } from '../../local/cluster/local-cluster.ts'
import { eraseFailing } from './failing-eraser.ts'
import { quietLog } from './quiet-log.ts'

/** Carries out an erasure, in a process that dies at a failpoint: `node dying-eraser.ts DATABASE FOLDER KEY ERASURE FAILPOINT`. */
const [url = '', folder = '', key = '', id = '', name] = process.argv.slice(2)
armFailpoint(name)
const log = quietLog()
const db = openDatabase({ url, role: 'keepsake_worker', statementTimeoutMs: 10_000, maxConnections: 4, log })
const deps = {
  ...{ db, cluster: openLocalCluster({ closeGraceSeconds: 0 }), log, namespace: 'media', config: { ERASURE_KEY: key } },
  store: openFolderStore({ folder }),
  bus: { erase: () => Promise.resolve(0) },
}
await eraseFailing(deps, id)
