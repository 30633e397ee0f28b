import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, eq, isNull, sql } from '../../db/orm.ts'
import { auditDayAttempts, auditDayLeases } from '../../db/schema/audit-archive.ts'
import type { Day } from './segments-plan.ts'

export type Attempt = {
  id: Uuid
  day: Day
  objectKey: string
}

/** Notes an object before it is written, so that it is found if the process dies. */
export async function beginAttempt(tx: Tx, attempt: Attempt & { leaseToken: Uuid }): Promise<void> {
  await tx.insert(auditDayAttempts).values(attempt)
}

/** Its object is the day's, or is gone. False for an attempt that was given up meanwhile, whose object may be gone. */
export async function endAttempt(tx: Tx, id: Uuid): Promise<boolean> {
  const { rowCount } = await tx
    .delete(auditDayAttempts)
    .where(and(eq(auditDayAttempts.id, id), isNull(auditDayAttempts.givenUpAt)))
  return rowCount === 1
}

/** A process that stands still may go on days later, and write its object then. */
const LOOK_DAYS = 7

/**
 * Gives up attempts whose process has no lease of their day any more, and returns them with those that were given up
 * before and are to be looked at again. None is the object of a day: the transaction that makes it so ends the attempt.
 */
export async function giveUpAttempts(tx: Tx, limit: number): Promise<(Attempt & { isLast: boolean })[]> {
  const { rows } = await tx.execute<Attempt & { isLast: boolean }>(sql`
    update ${auditDayAttempts} set given_up_at = coalesce(given_up_at, now()), look_at = now() + interval '1 hour'
    where id in (select a.id from ${auditDayAttempts} a where a.look_at <= now()
      and not exists (select from ${auditDayLeases} l
        where l.day = a.day and l.lease_token = a.lease_token and l.lease_at > now())
      order by a.look_at limit ${limit} for update skip locked)
    returning id, day::text as day, object_key as "objectKey",
      given_up_at < now() - make_interval(days => ${LOOK_DAYS}) as "isLast"`)
  return rows
}

export async function forgetAttempt(tx: Tx, id: Uuid): Promise<void> {
  await tx.delete(auditDayAttempts).where(eq(auditDayAttempts.id, id))
}
