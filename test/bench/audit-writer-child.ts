import './report.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { openDatabase } from '../../api/db/db.ts'
import { newUuid } from '../../lib/contract/ids.ts'
import { testPersonalData } from '../support/personal-data.ts'
import { quietLog } from '../support/quiet-log.ts'

/**
 * Writes `BENCH_RATE` entries of the audit log a second, each in a transaction of its own, until it is stopped: by the
 * statement of `insertAudit`, without what else a request does, so that the writers leave the machine to what is measured.
 */
const { BENCH_DATABASE: url = '', BENCH_RATE = '2000' } = process.env
const RATE = Number(BENCH_RATE)
const CONNECTIONS = 8
const [orgs, actors] = [20, 200].map((n) => Array.from({ length: n }, () => newUuid())) as [string[], string[]]

const db = openDatabase({ url, role: 'keepsake_api', statementTimeoutMs: 10_000, maxConnections: 2, log: quietLog() })
const origin = { ipAddress: '192.0.2.1', userAgent: 'Mozilla/5.0 (X11; Linux x86_64)' }
const box = await testPersonalData(db).encrypt({ entryId: newUuid(), personId: actors[0] as never }, origin)
if (!box) throw new Error('nothing was encrypted')
await db.close()

const started = performance.now()
let written = 0
const TEXT = `insert into audit_log (id, org_id, actor_id, action, resource_type, resource_id, result, personal, key_version,
  address_index, request_id, details) values ($1, $2, $3, 'EVENT_ACTION', 'event', $4, 'success', $5, $6, $7, $8, $9)`

async function write(): Promise<void> {
  const client = new pg.Client({ connectionString: url, options: '-c role=keepsake_api', application_name: 'writer' })
  await client.connect()
  for (;;) {
    if (written >= ((performance.now() - started) / 1000) * RATE) {
      await sleep(1)
      continue
    }
    const n = written++
    const [org, actor] = [orgs[n % orgs.length], actors[n % actors.length]]
    const { personal, keyVersion, addressIndex } = box as NonNullable<typeof box>
    await client.query({
      ...{ name: 'insert_audit', text: TEXT },
      values: [
        newUuid(),
        org,
        actor,
        newUuid(),
        personal,
        keyVersion,
        addressIndex,
        `req_${n}`,
        '{"operation":"update"}',
      ],
    })
  }
}
process.once('SIGTERM', () => process.exit(0))
console.log('{"publicUrl":"none"}')
await Promise.all(Array.from({ length: CONNECTIONS }, write))
