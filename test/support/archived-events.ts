import type pg from 'pg'
import { newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { originalKey } from '../../lib/contract/object-keys.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'

interface World {
  admin: pg.Pool
  store: ObjectStore
  org: Uuid
  user: Uuid
}

/** Events, albums, comments, highlights and media items of one organization, as rows, long ago. Ids are those of the database. */
export function archiveWorld({ admin, store, org, user }: World) {
  const sql = async (text: string, values: unknown[] = []) => (await admin.query(text, values)).rows
  /** So many years ago, and then so much later. */
  const ago = (years: number, later = '0') => `now() - interval '${years} years' + interval '${later}'`

  async function anEvent(
    o: { archived?: number; status?: string; owner?: Uuid; announced?: boolean } = {},
  ): Promise<Uuid> {
    const id = newUuid()
    const { archived = 8, status = 'archived', owner = user, announced = archived > 7 } = o
    await sql(
      `insert into events (id, org_id, owner_id, title, start_at, status, created_at, archived_at)
        values ($1, $2, $3, 'Party', now(), $4, ${ago(10)}, case when $4 = 'archived' then ${ago(archived)} end)`,
      [id, org, owner, status],
    )
    if (announced) await announcePurge(id)
    return id
  }
  /** As if the owner had been told, and the days since then were over. */
  const announcePurge = (event: Uuid) =>
    sql(
      `update events e set purge_notice = 2, purge_notice_for = date_trunc('milliseconds', app_now()), purge_notice_to = (select user_id from memberships m
         where m.org_id = e.org_id and m.user_id = e.owner_id) where id = $1`,
      [event],
    )
  /** Puts a policy in force that purges events after this time; null: never. */
  const setPolicy = (purgeAfter: string | null, o: { suspended?: boolean; dryRun?: boolean } = {}) =>
    sql(
      `insert into retention_policies (target, name, uid, rules, purge_after, suspended, dry_run)
        values ('EventArchive', 'p', 'u', '[]', $1, $2, $3) on conflict (target) do update
        set purge_after = excluded.purge_after, suspended = excluded.suspended, dry_run = excluded.dry_run`,
      [purgeAfter, o.suspended ?? false, o.dryRun ?? false],
    )
  async function anAlbum(event: Uuid | null, status = 'PUBLIC'): Promise<Uuid> {
    const id = newUuid()
    await sql(
      `insert into albums (id, org_id, owner_id, event_id, title, status, created_at) values ($1, $2, $3, $4, 'Album', $5, ${ago(10)})`,
      [id, org, user, event, status],
    )
    return id
  }
  /** A completed media item with its original and one derivative, uploaded nine years ago, in the days of the events. */
  async function aMedia(
    o: { uploaded?: string; by?: Uuid; text?: string; kind?: 'image' | 'video' } = {},
  ): Promise<Uuid> {
    const id = newUuid()
    const { uploaded = ago(9), by = user, text = `original ${id}`, kind = 'image' } = o
    await store.put(originalKey(org, id), text, { contentType: 'image/jpeg' })
    await store.put(originalKey(org, id).replace(/original$/, 'v1/image.webp'), 'webp', { contentType: 'image/webp' })
    await sql(
      `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
          conversion_state, created_at)
        values ($1, $2, $3, 'a.jpg', 'image/jpeg', $5, $4, 'completed', 'succeeded', ${uploaded})`,
      [id, org, by, Buffer.byteLength(text), kind],
    )
    return id
  }
  /** An image and its video, as one Live Photo. */
  async function aLivePhoto(): Promise<[image: Uuid, video: Uuid]> {
    const [image, video] = [await aMedia(), await aMedia({ kind: 'video' })]
    await sql('update media set paired_media_id = case id when $1 then $2 else $1 end where id in ($1, $2)', [
      image,
      video,
    ])
    return [image, video]
  }
  const place = (album: Uuid, media: Uuid, o: { at?: string; by?: Uuid } = {}) =>
    sql(
      `insert into album_media (album_id, media_id, org_id, position, listed, added_by, added_at)
        values ($1, $2, $3, (select coalesce(max(position), 0) + 1 from album_media where album_id = $1), true, $4, ${o.at ?? ago(9, '1 hour')})`,
      [album, media, org, o.by ?? user],
    )
  async function aComment(
    event: Uuid,
    media: Uuid[],
    o: { deleted?: boolean; by?: Uuid; at?: string } = {},
  ): Promise<Uuid> {
    const id = newUuid()
    await sql(
      `insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body, created_at, deleted_at, deleted_by)
        values ($1, $2, $3, 'meta', $3, 'event', $4, 'Hello', ${o.at ?? ago(9, '2 hours')}, $5, $6)`,
      [id, org, event, o.by ?? user, o.deleted ? new Date() : null, o.deleted ? user : null],
    )
    await sql(
      `insert into comment_media (comment_id, position, org_id, event_id, media_id)
        select $1, n - 1, $2, $3, m from unnest($4::uuid[]) with ordinality as given (m, n)`,
      [id, org, event, media],
    )
    return id
  }
  async function aHighlight(
    album: Uuid | null,
    media: Uuid[],
    o: { status?: string; deleted?: boolean } = {},
  ): Promise<Uuid> {
    const id = newUuid()
    await sql(
      `insert into highlights (id, org_id, created_by, album_id, title, transition, orientation, fill, ken_burns, show_title,
          captions, skip_broken, estimated_duration_sec, status, deleted_at)
        values ($1, $2, $3, $4, 'Film', 'cut', 'auto', 'blur', false, false, 'none', false, 3, $5, $6)`,
      [id, org, user, album, o.status ?? 'completed', o.deleted ? new Date() : null],
    )
    await sql(
      `insert into highlight_items (highlight_id, position, org_id, media_id, source_id, uploader_id, type, seconds, caption)
        select $1, n, $2, m, m, $3, 'image', 3, '' from unnest($4::uuid[]) with ordinality as given (m, n)`,
      [id, org, user, media],
    )
    return id
  }
  async function aPerson(): Promise<Uuid> {
    const id = newUuid()
    await sql('insert into users (id, issuer, subject) values ($1, $2, $3)', [id, 'test', id])
    await sql(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [org, id])
    return id
  }
  const exists = async (table: string, id: Uuid) => (await sql(`select from ${table} where id = $1`, [id])).length === 1
  const keysOf = async (media: Uuid): Promise<string[]> => {
    const keys: string[] = []
    const prefix = originalKey(org, media).replace(/original$/, '')
    for await (const { key } of store.list(prefix)) keys.push(key.slice(prefix.length))
    return keys.sort()
  }
  const audited = async (action: string, id: Uuid) =>
    (await sql('select details from audit_log where action = $1 and resource_id = $2', [action, id])).map(
      ({ details }) => details,
    )
  const announced = async (type: string, id: Uuid) =>
    (await sql('select payload from outbox where type = $1 and aggregate_id = $2 order by created_at', [type, id])).map(
      ({ payload }) => payload,
    )
  async function clear(): Promise<void> {
    for (const table of [
      'highlights',
      'events',
      'albums',
      'media',
      'retention_runs',
      'legal_holds',
      'retention_policies',
    ])
      await sql(`delete from ${table}`)
    await setPolicy('P7Y')
  }
  return {
    ...{
      sql,
      ago,
      anEvent,
      announcePurge,
      setPolicy,
      anAlbum,
      aMedia,
      aLivePhoto,
      place,
      aComment,
      aHighlight,
      aPerson,
    },
    ...{ exists, keysOf, audited, announced, clear },
  }
}
