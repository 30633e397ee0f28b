import { setTimeout as sleep } from 'node:timers/promises'
import { openDatabase } from '../../api/db/db.ts'
import { carryOut } from '../../api/features/erasure/saga.ts'
import { ERASE_STEPS } from '../../api/features.ts'
import { armFailpoint, failpoint } from '../../lib/runtime/failpoint.ts'
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
/** Every other step fails once behind its last line, as if its process had died there: it runs twice. */
const failed = new Set<string>()
const steps = ERASE_STEPS.map((step) => ({
  ...step,
  async run(...given: Parameters<typeof step.run>) {
    const erased = await step.run(...given)
    failpoint(`erasure.ran.${step.name}`)
    if (failed.has(step.name)) return erased
    failed.add(step.name)
    throw new Error('as if it had died')
  },
}))
for (let isOver = false; !isOver; await sleep(20)) {
  isOver = await carryOut(deps, steps, id).then(
    (outcome) => outcome === undefined,
    (error: unknown) => {
      if (!(error instanceof AggregateError && error.errors.every(isMeant))) throw error
      return false
    },
  )
}
await Promise.all([db.close(), cluster.close()])
function isMeant(error: unknown): boolean {
  return error instanceof Error && error.message === 'as if it had died'
}
