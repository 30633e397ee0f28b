import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { type SQL, sql } from '../../db/orm.ts'
import { erasures } from '../../db/schema/erasures.ts'
import { legalHolds } from '../../db/schema/retention.ts'
import { hasTracesIn } from '../../retention/traces-queries.ts'

/**
 * Highlights `f` in which the person has anything: made by others, they are withdrawn, and a hold on who made them keeps their
 * files. What the erasure has noted of them counts when it has removed the words already.
 */
const inHighlight = (userId: SQL): SQL => sql`(f.created_by = ${userId}
  or exists (select from highlight_items i where i.highlight_id = f.id and ${userId} in (i.uploader_id, i.caption_by))
  or f.id in (${notedHighlights(userId)}))`
const notedHighlights = (userId: SQL): SQL => sql`select r.resource_id from erasures e
  join erasure_resources r on r.erasure_id = e.id and r.kind = 'highlight' where e.user_id = ${userId}`

/** Whether the person has left anything in the event of the hold `h`. */
const tracesInEvent = (userId: SQL): SQL => sql`
  exists (select from events e where e.id = h.subject and e.owner_id = ${userId})
  or exists (select from event_participants p where p.event_id = h.subject and p.user_id = ${userId})
  or exists (select from comments c left join comment_media cm on cm.comment_id = c.id left join media m on m.id = cm.media_id
    where c.event_id = h.subject and (${userId} in (c.author_id, m.uploader_id) or ${userId} = any(c.mentions)
      or ${userId} = any(c.mentions_given)))
  or exists (select from comments c join comment_versions v on v.comment_id = c.id left join media m on m.id = any(v.media_ids)
    where c.event_id = h.subject and (m.uploader_id = ${userId} or ${userId} = any(v.mentions)))
  or exists (select from reactions r where r.event_id = h.subject and r.user_id = ${userId})
  or exists (select from invitations i where i.event_id = h.subject and ${userId} in (i.user_id, i.invited_by, i.former_inviter, i.responded_by))
  or exists (select from albums a left join album_media i on i.album_id = a.id left join media m on m.id = i.media_id
    where a.event_id = h.subject and ${userId} in (a.owner_id, i.added_by, i.caption_by, m.uploader_id))
  or exists (select from albums a join highlights f on f.album_id = a.id
    where a.event_id = h.subject and ${inHighlight(userId)})`

/**
 * Whether a hold keeps something that the erasure of the person would remove or change: a hold on the person, on the maker of a
 * highlight in which the person has anything, or on an organization or an event in which the person has left anything.
 */
export async function isErasureHeld(tx: Tx, userId: Uuid): Promise<boolean> {
  const id = sql`${userId}::uuid`
  const { rows } = await tx.execute<{ held: boolean }>(sql`
    select exists (select from ${legalHolds} h where h.released_at is null and case h.kind
      when 'person' then h.subject = ${id}
        or exists (select from highlights f where f.created_by = h.subject and ${inHighlight(id)})
      when 'organization' then ${hasTracesIn(sql`h.subject`, id)}
        or exists (select from highlights f where f.org_id = h.subject and f.id in (${notedHighlights(id)}))
      else ${tracesInEvent(id)} end) as held`)
  return rows[0]?.held ?? false
}

/** Since when the erasure waits for the end of a hold; null once it goes on. */
export async function recordHeld(tx: Tx, erasureId: Uuid, isHeld: boolean): Promise<void> {
  await tx.execute(sql`update ${erasures} set held_since = case when ${isHeld} then now() end
    where id = ${erasureId} and (held_since is not null) <> ${isHeld}`)
}
