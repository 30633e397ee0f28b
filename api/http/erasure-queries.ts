import type { Uuid } from '../../lib/contract/ids.ts'
import type { Database } from '../db/db.ts'
import { sql } from '../db/orm.ts'
import { idempotencyKeys as keys } from '../db/schema/idempotency.ts'
import { formsOf } from '../personal/forms.ts'
import { changeAll } from '../personal/queries.ts'

/** The user's stored answers, and those of others that name the user. */
export const eraseAnswers = (db: Database, userId: Uuid): Promise<number> =>
  changeAll(
    db,
    (limit) => sql`delete from ${keys} where ctid = any(array(select ctid from ${keys}
      where user_id = ${userId}
        or response::text like any(${sql.param(formsOf(userId).map((form) => `%${form}%`))}::text[]) limit ${limit}))`,
  )
