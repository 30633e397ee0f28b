import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, eq, sql } from '../../db/orm.ts'
import { type InvitationRow, invitations } from '../../db/schema/invitations.ts'
import { changed, IN_ONE_HOUR } from './queries.ts'

const A_DAY = 3
/**
 * Not sooner: a stranger with the slug could end a link that its holder is about to use. Phone numbers may have no channel
 * that brings the fresh link, so theirs has to be dead.
 */
const NEARLY = sql`now() + case when ${invitations.phoneNumber} is null then interval '5 minutes' else interval '0' end`

/**
 * Another generation for a pending invitation whose link has expired, or nearly, at most three times a day. Undefined for
 * any other. The check and the change are one statement: of two requests one finds a link that works.
 */
export async function takeRenewal(tx: Tx, o: { orgId: Uuid; id: Uuid }): Promise<InvitationRow | undefined> {
  const generation = sql`${invitations.generation} + 1`
  const isToday = sql`${invitations.renewedOn} is not distinct from current_date`
  const [row] = await tx
    .update(invitations)
    .set({
      ...changed,
      generation,
      toldGeneration: generation,
      tokenExpiresAt: IN_ONE_HOUR,
      renewedOn: sql`current_date`,
      renewals: sql`case when ${isToday} then ${invitations.renewals} + 1 else 1 end`,
    })
    .where(
      and(
        eq(invitations.orgId, o.orgId),
        eq(invitations.id, o.id),
        eq(invitations.status, 'pending'),
        sql`${invitations.tokenExpiresAt} <= ${NEARLY}`,
        sql`not (${isToday} and ${invitations.renewals} >= ${A_DAY})`,
      ),
    )
    .returning()
  return row
}
