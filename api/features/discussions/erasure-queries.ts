import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Database, Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { commentMedia, comments, commentVersions } from '../../db/schema/comments.ts'
import { reactions } from '../../db/schema/reactions.ts'
import { formsOf } from '../../personal/forms.ts'
import { change, changeAll, recordResources } from '../../personal/queries.ts'

interface Whose {
  erasureId: Uuid
  userId: Uuid
}

export async function commentsOf(tx: Tx, { erasureId, userId }: Whose): Promise<Uuid[]> {
  await recordResources(tx, erasureId, 'comment', sql`select id, org_id from ${comments} where author_id = ${userId}`)
  // Replies before what they are replies to: a comment goes with its last reply.
  const { rows } = await tx.execute<{ id: Uuid }>(sql`select id from ${comments} where author_id = ${userId}
    order by target_type = 'comment' desc, id`)
  return rows.map(({ id }) => id)
}

/**
 * Removes a comment with everything that was ever said in it. Where others have replied, a deleted comment stays in its
 * place, without a word. One comment in a transaction: the trigger locks a reply before its comment.
 */
export async function eraseComment(tx: Tx, id: Uuid): Promise<void> {
  await tx.execute(sql`update ${comments} set deleted_at = coalesce(deleted_at, now()),
    deleted_by = coalesce(deleted_by, author_id), deleted_reason = null, body = '', mentions = '{}', mentions_given = '{}',
    updated_at = now() where id = ${id} and (body <> '' or deleted_at is null or deleted_reason is not null
      or mentions <> '{}' or mentions_given <> '{}')`)
  await tx.execute(sql`delete from ${commentVersions} where comment_id = ${id}`)
  await tx.execute(sql`delete from ${commentMedia} where comment_id = ${id}`)
  await tx.execute(sql`delete from notifications where comment_id = ${id}`)
  await tx.execute(sql`delete from ${comments} c where id = ${id} and not exists (
    select from ${comments} r where r.event_id = c.event_id and r.target_type = 'comment' and r.target_id = c.id)`)
}

/** Why the person deleted comments of others. */
export const eraseReasons = (db: Database, userId: Uuid): Promise<number> =>
  changeAll(
    db,
    (limit) => sql`update ${comments} set deleted_reason = null where ctid = any(array(select ctid from ${comments}
      where deleted_by = ${userId} and deleted_reason is not null limit ${limit}))`,
  )

const WINDOW = 20_000

/** A part of a table in order of its key: reading all of a large one in one statement takes too long. */
async function windowEnd(tx: Tx, table: 'comments' | 'comment_versions', after: Uuid): Promise<Uuid | undefined> {
  const key = sql.raw(table === 'comments' ? 'id' : 'comment_id')
  const { rows } = await tx.execute<{ last: Uuid }>(sql`
    select ${key} as last from ${sql.raw(table)} where ${key} > ${after} order by ${key} offset ${WINDOW} limit 1`)
  return rows[0]?.last
}

const NIL = '00000000-0000-0000-0000-000000000000'
const LAST = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/**
 * Removes mentions of the person from what others wrote and had written before, in the fields and in the text: there the
 * id becomes `@anonymous`. Row by row in windows of the key.
 */
export async function eraseMentions(db: Database, userId: Uuid, signal?: AbortSignal): Promise<number> {
  let mentions = 0
  const anyForm = formsOf(userId).join('|')
  const mention = `@?(${anyForm})`
  for (const table of ['comments', 'comment_versions'] as const) {
    const isComments = table === 'comments'
    const key = sql.raw(isComments ? 'id' : 'comment_id')
    const given = isComments ? sql`, mentions_given = array_remove(mentions_given, ${userId}::uuid)` : sql``
    const names = sql`(${userId}::uuid = any(mentions) or body ~* ${anyForm}
      ${isComments ? sql`or ${userId}::uuid = any(mentions_given)` : sql``})`
    for (let after: Uuid = NIL; after !== LAST; ) {
      signal?.throwIfAborted()
      const until: Uuid = (await db.read({}, (tx) => windowEnd(tx, table, after))) ?? LAST
      mentions += await db.inTransaction({}, (tx) =>
        change(
          tx,
          sql`update ${sql.raw(table)} set mentions = array_remove(mentions, ${userId}::uuid) ${given},
            body = regexp_replace(body, ${mention}, '@anonymous', 'gi')
            where (${key}) in (select ${key} from ${sql.raw(table)}
              where ${key} > ${after} and ${key} <= ${until} and ${names} order by ${key} for update)
            and ${names}`,
        ),
      )
      after = until
    }
  }
  return mentions
}

export async function eraseReactions(db: Database, { erasureId, userId }: Whose): Promise<number> {
  await db.inTransaction({}, (tx) =>
    recordResources(tx, erasureId, 'reaction', sql`select id, org_id from ${reactions} where user_id = ${userId}`),
  )
  return changeAll(
    db,
    (limit) => sql`delete from ${reactions} where ctid = any(array(select ctid from ${reactions}
      where user_id = ${userId} limit ${limit}))`,
  )
}
