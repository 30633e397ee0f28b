import { sql } from 'drizzle-orm'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { Database } from '../db/db.ts'
import { auditLog } from '../db/schema/audit.ts'
import { changeAll } from '../personal/queries.ts'

/** What entries say of the user besides the id: where requests came from. The entries themselves stay. */
export const eraseOrigins = (db: Database, userId: Uuid): Promise<number> =>
  changeAll(
    db,
    (limit) => sql`update ${auditLog} set ip_address = null, user_agent = null, client_request_id = null
      where ctid = any(array(select ctid from ${auditLog} where actor_id = ${userId}
        and (ip_address is not null or user_agent is not null or client_request_id is not null) limit ${limit}))`,
  )
