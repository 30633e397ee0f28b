import { setTimeout as sleep } from 'node:timers/promises'
import { openDatabase } from '../../api/db/db.ts'
import { carryOut } from '../../api/features/erasure/saga.ts'
import { ERASE_STEPS } from '../../api/features.ts'
import { armFailpoint } from '../../lib/runtime/failpoint.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import { openLocalCluster } from '../../local/cluster/local-cluster.ts'
import { quietLog } from './quiet-log.ts'

/** Carries out an erasure, in a process that dies at a failpoint: `node dying-eraser.ts DATABASE FOLDER KEY ERASURE [FAILPOINT]`. */
const [url = '', folder = '', key = '', id = '', name] = process.argv.slice(2)
armFailpoint(name)
const log = quietLog()
const db = openDatabase({ url, role: 'keepsake_worker', statementTimeoutMs: 10_000, maxConnections: 4, log })
const cluster = openLocalCluster({ closeGraceSeconds: 0 })
const deps = {
  ...{ db, cluster, log, namespace: 'media', config: { ERASURE_KEY: key } },
  store: openFolderStore({ folder }),
  bus: { erase: () => Promise.resolve(0) },
}
while ((await carryOut(deps, ERASE_STEPS, id)) !== undefined) await sleep(200)
await Promise.all([db.close(), cluster.close()])
