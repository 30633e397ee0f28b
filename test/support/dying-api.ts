import { ApiConfig } from '../../api/config.ts'
import { type Database, openDatabase } from '../../api/db/db.ts'
import { startApi } from '../../api/server.ts'
import { systemClock } from '../../lib/runtime/clock.ts'
import { loadConfig } from '../../lib/runtime/config.ts'
import { openLog } from '../../lib/runtime/log.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'

/**
 * The API as `api/serve.ts` starts it, in which no change of an organization gets beyond a place: `node dying-api.ts PLACE`,
 * `done` right before its commit, or `committed` right behind it. Each stays there until the process is killed, and one kill
 * hits all of them. Says `{ held: 1 }` to its parent with each.
 */
const place = process.argv[2]
const config = loadConfig(ApiConfig)
const log = openLog({ program: 'api', level: config.LOG_LEVEL })
const opened = openDatabase({
  url: config.DATABASE_URL,
  role: 'keepsake_api',
  statementTimeoutMs: 5000,
  maxConnections: config.DATABASE_CONNECTIONS,
  log,
})
const hold = (): Promise<never> => {
  process.send?.({ held: 1 })
  return new Promise(() => {})
}
const db: Database = {
  ...opened,
  async inTransaction(scope, work) {
    if (scope.org === undefined) return opened.inTransaction(scope, work)
    await opened.inTransaction(scope, async (tx) => {
      await work(tx)
      if (place === 'done') await hold()
    })
    return hold()
  },
}
const store = openFolderStore({ folder: config.STORE_FOLDER ?? '' })
await startApi({ config, db, store, log, clock: systemClock })
