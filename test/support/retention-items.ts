import type pg from 'pg'
import { newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { piecesPrefix, stagedChunkKey } from '../../lib/contract/object-keys.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { ConversionWorld } from './conversion-world.ts'

/** What the smaller targets of retention are about: rows, and what belongs to them in the store. */
export function retentionItems({ admin, store }: { admin: pg.Pool; store: ObjectStore }, world: ConversionWorld) {
  const { org, user } = world

  /** Completed videos with three objects each, in the trash for so long. */
  async function trashed(count = 1, since = '31 days'): Promise<Uuid[]> {
    const ids: Uuid[] = []
    for (let i = 0; i < count; i++) {
      const id = await world.upload()
      await world.writeOutput(id)
      ids.push(id)
    }
    await admin.query(
      `update media set upload_status = 'completed', deleted_at = now() - $2::interval, deleted_by = uploader_id where id = any($1)`,
      [ids, since],
    )
    return ids
  }

  /** A session with one chunk of five bytes in the store, whose last chunk came so long ago. */
  async function anUpload(state: string, idle: string): Promise<Uuid> {
    const [id, mediaId] = [newUuid(), newUuid()]
    await admin.query(
      `insert into uploads (id, org_id, uploader_id, media_id, layout, state, filename, mime_type, file_size_bytes, chunk_size_bytes,
          total_chunks, expires_at, absolute_expires_at)
        values ($1, $2, $3, $4, 'staged', $5, 'f', 'video/mp4', 10, 5, 2, now() - $6::interval + interval '1 day', now() + interval '1 day')`,
      [id, org, user, mediaId, state, idle],
    )
    await admin.query(
      `insert into upload_chunks (org_id, upload_id, chunk_index, size_bytes, sha256, etag) values ($1, $2, 0, 5, '', '')`,
      [org, id],
    )
    await store.put(stagedChunkKey(org, id, 0), 'bytes', { contentType: 'video/mp4' })
    return id
  }

  /** Of a comment on an event that takes place then. */
  async function aNotification(age: string, startAt = "now() - interval '1 year'"): Promise<Uuid> {
    const [id, event, comment] = [newUuid(), newUuid(), newUuid()]
    await admin.query(
      `insert into events (id, org_id, owner_id, title, start_at, status) values ($1, $2, $3, 'E', ${startAt}, 'active')`,
      [event, org, user],
    )
    await admin.query(
      `insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body)
        values ($1, $2, $3, 'meta', $3, 'event', $4, 'B')`,
      [comment, org, event, user],
    )
    await admin.query(
      `insert into notifications (id, org_id, template, event_id, user_id, comment_id, created_at)
        values ($1, $2, 'Mention.v1', $3, $4, $5, now() - $6::interval)`,
      [id, org, event, user, comment, age],
    )
    return id
  }

  /** A source with pieces of so many bytes in the store. No highlight has used them yet. */
  async function aSource(bytes: number): Promise<Uuid> {
    const id = await world.upload('video/mp4', { bytes: 0 })
    const key = `${piecesPrefix(org, id)}01.x/d/piece.json`
    await store.put(key, Buffer.alloc(bytes), { contentType: 'application/json' })
    return id
  }

  return {
    trashed,
    anUpload,
    aNotification,
    aSource,
    isStored: async (upload: Uuid) => (await store.head(stagedChunkKey(org, upload, 0))) !== undefined,
    async hasPieces(source: Uuid): Promise<boolean> {
      for await (const _ of store.list(piecesPrefix(org, source))) return true
      return false
    },
  }
}
