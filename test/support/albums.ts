import { randomUUID } from 'node:crypto'
import type { AlbumStatus, AlbumVisibility } from '../../api/db/schema/albums.ts'
import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { fakeMp4, formOf, type Person, type TestApi, uuidOf } from './api.ts'

interface AlbumMade {
  owner: Person
  status?: AlbumStatus
  visibility?: AlbumVisibility
  /** Wire id. */
  eventId?: string | undefined
}

const fakeJpeg = () => Buffer.concat([Buffer.from([0xff, 0xd8, 0xff, 0xe0]), Buffer.from(randomUUID())])

/** Albums and media of the first organization of a test. Ids are those of the wire. */
export function albumWorld(api: TestApi) {
  const { org, people, call } = api
  const orgId = uuidOf('organization', org)
  const sql = (text: string, values: unknown[] = []) => api.database.admin.query(text, values).then((r) => r.rows)
  const ALBUMS = `/api/orgs/${org}/albums`

  /** As it is after its creation, and then in the status wanted. */
  async function anAlbum(o: AlbumMade): Promise<string> {
    const id = newUuid()
    await sql(
      `insert into albums (id, org_id, owner_id, event_id, title, visibility, status) values ($1, $2, $3, $4, $5, $6, $7)`,
      [
        id,
        orgId,
        o.owner.id,
        o.eventId ? uuidOf('event', o.eventId) : null,
        'Summer',
        o.visibility ?? 'organization',
        o.status ?? 'DRAFT',
      ],
    )
    return formatId('album', id)
  }

  /** Without objects in the store. */
  async function aMedia(
    o: { orgId?: Uuid; by?: Person; kind?: 'image' | 'video'; status?: string } = {},
  ): Promise<string> {
    const { by = people.member, kind = 'image', status = 'completed' } = o
    const id = newUuid()
    await sql(
      `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
        conversion_state) values ($1, $2, $3, 'a', $4, $5, 1, $6, 'succeeded')`,
      [id, o.orgId ?? orgId, by.id, kind === 'image' ? 'image/jpeg' : 'video/mp4', kind, status],
    )
    return formatId('media', id)
  }

  async function upload(kind: 'image' | 'video', pair: string = randomUUID(), who = people.member): Promise<string> {
    const form = formOf(kind === 'image' ? fakeJpeg() : fakeMp4(64), 'a', { live_photo_pair_id: pair })
    const { status, data } = await call(who, 'POST', `/api/media/${org}/single`, { form })
    if (status !== 201) throw new Error(`upload: ${status}`)
    return data.media_id
  }

  const itemsOf = (album: string) => `${ALBUMS}/${album}/media`
  const add = (album: string, media: string, who = people.member, caption?: string) =>
    call(who, 'POST', itemsOf(album), { json: { media_id: media, ...(caption !== undefined && { caption }) } })
  /** An album with so many new media items, which are returned in its order. */
  async function filled(count: number, o: Partial<AlbumMade> = {}): Promise<{ album: string; media: string[] }> {
    const album = await anAlbum({ owner: people.member, ...o })
    const media: string[] = []
    for (let n = 0; n < count; n++) {
      const id = await aMedia()
      const { status } = await add(album, id, o.owner ?? people.member)
      if (status !== 201) throw new Error(`add: ${status}`)
      media.push(id)
    }
    return { album, media }
  }

  const list = async (album: string, who = people.owner, query = '') =>
    (await call(who, 'GET', `${itemsOf(album)}${query}`)).data
  const idsOf = async (album: string): Promise<string[]> =>
    (await list(album)).media.map(({ media_id }: { media_id: string }) => media_id)
  const show = async (album: string, who = people.owner) => (await call(who, 'GET', `${ALBUMS}/${album}`)).data
  const reorder = (album: string, media_ids: string[], who = people.member) =>
    call(who, 'POST', `${itemsOf(album)}/reorder`, { json: { media_ids } })
  const remove = (album: string, media: string, who = people.member) =>
    call(who, 'DELETE', `${itemsOf(album)}/${media}`)
  const caption = (album: string, media: string, text: string | null, who = people.member) =>
    call(who, 'PATCH', `${itemsOf(album)}/${media}`, { json: { caption: text } })
  const change = (album: string, json: object, who = people.member) =>
    call(who, 'PATCH', `${ALBUMS}/${album}`, { json })
  const setStatus = (album: string, status: string, who = people.member) =>
    call(who, 'PUT', '/api/v1/albums/status', { json: { album_id: album, status } })
  const deleteMedia = (id: string, who = people.admin) => call(who, 'DELETE', `/api/media/${org}/${id}`)
  const restoreMedia = (id: string, who = people.admin) => call(who, 'POST', `/api/media/${org}/${id}/restore`)

  /** Names of events of an album, with the change of an update. */
  const announced = async (album: string): Promise<string[]> =>
    (
      await sql(
        `select type, payload ->> 'change' as change, aggregate_version as version from outbox where aggregate_id = $1
          order by aggregate_version`,
        [uuidOf('album', album)],
      )
    ).map(({ type, change }) => change ?? type)
  const audited = async (album: string): Promise<object[]> =>
    (
      await sql(`select action, details from audit_log where resource_id = $1 and result = 'success' order by id`, [
        uuidOf('album', album),
      ])
    ).map(({ action, details }) => ({ action, ...details }))

  return {
    ...{ ALBUMS, orgId, sql, anAlbum, aMedia, upload, add, filled, list, idsOf, show, reorder, remove, caption },
    ...{ change, setStatus, deleteMedia, restoreMedia, announced, audited },
  }
}
