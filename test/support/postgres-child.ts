import { openLog } from '../../lib/runtime/log.ts'
import { startEmbeddedPostgres } from '../../local/postgres.ts'

/** Starts a server in the folder given, says so, and lives until it is killed. */
const [, , dataDir = ''] = process.argv
const { url, port } = await startEmbeddedPostgres({ dataDir, log: openLog({ program: 'test', level: 'fatal', fd: 2 }) })
process.send?.({ url, port })
setInterval(() => {}, 1000)
