import { openDatabase } from '../../api/db/db.ts'
import { armFailpoint } from '../../lib/runtime/failpoint.ts'
import { idempotentRoutes } from './idempotent-routes.ts'
import { readableLog } from './readable-log.ts'
import { PEOPLE, serveRoutes } from './serve.ts'

// A program that dies where KEEPSAKE_FAILPOINT says. Prints its port.
armFailpoint(process.env['KEEPSAKE_FAILPOINT'])
const url = process.env['DATABASE_URL'] ?? ''
const { log } = readableLog()
const db = openDatabase({ url, role: 'keepsake_api', statementTimeoutMs: 5000, maxConnections: 4, log })
const ann = PEOPLE['ann']
if (ann) ann.userId = process.env['USER_ID'] ?? ''
const { port } = await serveRoutes({ teardown: () => {} }, idempotentRoutes(db), { db })
console.log(port)
