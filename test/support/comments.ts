import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { type Answer, type Person, type TestApi, uuidOf } from './api.ts'
import { anEvent, type MadeEvent } from './events.ts'

type Api = Pick<TestApi, 'database' | 'call'>

/** A media item that has been uploaded. */
export async function aMediaItem({ database }: Api, o: { orgId: Uuid; uploader: Person }): Promise<string> {
  const id = newUuid()
  await database.admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes)
      values ($1, $2, $3, 'IMG.JPG', 'image/jpeg', 'image', 1)`,
    [id, o.orgId, o.uploader.id],
  )
  return formatId('media', id)
}

/** The album of an event, with these media items. */
export async function anAlbum(
  { database }: Api,
  event: MadeEvent,
  o: { orgId: Uuid; owner: Person; visibility?: string; status?: string; media?: string[] },
): Promise<Uuid> {
  const { orgId, owner, visibility = 'organization', status = 'PUBLIC', media = [] } = o
  const id = newUuid()
  await database.admin.query(
    `insert into albums (id, org_id, owner_id, event_id, title, visibility, status) values ($1, $2, $3, $4, 'Album', $5, $6)`,
    [id, orgId, owner.id, event.id, visibility, status],
  )
  await database.admin.query(
    `insert into album_media (album_id, media_id, org_id, position, listed, added_by)
      select $1, m, $3, n, true, $4 from unnest($2::uuid[]) with ordinality as given (m, n)`,
    [id, media.map((one) => uuidOf('media', one)), orgId, owner.id],
  )
  return id
}

export interface Threads {
  /** A new event of this status. */
  event(status?: 'draft' | 'active' | 'archived'): Promise<MadeEvent>
  /** The path of the comments on the event, or on what is named. */
  at(event: MadeEvent, type?: string, id?: string): string
  post(who: Person, path: string, json?: object): Promise<Answer>
  /** Posts, and resolves with the path of the comment. */
  posted(who: Person, path: string, json?: object): Promise<string>
  react(who: Person, event: MadeEvent, emoji: string, type?: string, id?: string): Promise<Answer>
}

/** Events of one organization, and what is said about them. */
export function threadsIn(api: Api, { org, orgId, owner }: { org: string; orgId: Uuid; owner: Person }): Threads {
  const at: Threads['at'] = (event, type = 'meta', id = event.wireId) =>
    `/api/orgs/${org}/events/${event.wireId}/${type}/${id}/comments`
  const post: Threads['post'] = (who, path, json = { body: 'Hello' }) => api.call(who, 'POST', path, { json })
  return {
    at,
    post,
    event: (status) => anEvent(api, { org, orgId, owner, ...(status && { status }) }),
    async posted(who, path, json) {
      const { status, body, data } = await post(who, path, json)
      if (status !== 201) throw new Error(`a comment was answered ${status}: ${JSON.stringify(body)}`)
      return `${path}/${data.comment_id}`
    },
    react: (who, event, emoji, type = 'meta', id = event.wireId) =>
      api.call(who, 'POST', `/api/orgs/${org}/events/${event.wireId}/reactions/${type}`, {
        json: { action_id: id, emoji },
      }),
  }
}

/** The last part of the path of a comment. */
export const idIn = (path: string): string => path.split('/').at(-1) ?? ''
