import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { sql } from '../db/orm.ts'
import { users } from '../db/schema/users.ts'
import { change } from '../personal/queries.ts'

/** What is left is the id: an anonymous member. The subject is unique, so it becomes a random one. */
export const anonymize = (tx: Tx, userId: Uuid): Promise<number> =>
  change(
    tx,
    sql`update ${users} set issuer = 'erased', subject = gen_random_uuid()::text, email = null, phone_number = null,
      display_name = null, locale = null, updated_at = now()
      where id = ${userId} and closed_at is not null and issuer <> 'erased'`,
  )
