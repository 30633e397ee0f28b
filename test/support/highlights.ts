import { formatId, newUuid } from '../../lib/contract/ids.ts'
import { albumWorld } from './albums.ts'
import { type Answer, type Person, type TestApi, uuidOf } from './api.ts'

/** Highlights of the first organization of a test, with its albums. Ids are those of the wire. */
export function highlightWorld(api: TestApi) {
  const { org, people, call, database } = api
  const albums = albumWorld(api)
  const { sql, orgId } = albums
  const HIGHLIGHTS = `/api/media/${org}/highlights`

  const create = (json: object, who: Person = people.member, headers: Record<string, string> = {}) =>
    call(who, 'POST', HIGHLIGHTS, { json: { title: 'Summer', ...json }, headers })
  const createInAlbum = (album: string, json: object, who: Person = people.member) =>
    call(who, 'POST', `/api/orgs/${org}/albums/${album}/highlights`, { json: { title: 'Summer', ...json } })
  const createInEvent = (event: string, json: object, who: Person = people.member) =>
    call(who, 'POST', `/api/orgs/${org}/events/${event}/highlights`, { json: { title: 'Summer', ...json } })
  const get = (id: string, who: Person = people.member) => call(who, 'GET', `${HIGHLIGHTS}/${id}`)
  const remove = (id: string, who: Person = people.member) => call(who, 'DELETE', `${HIGHLIGHTS}/${id}`)
  const list = async (who: Person = people.member): Promise<string[]> => {
    const { data } = await call(who, 'GET', `${HIGHLIGHTS}?limit=100`)
    return data.highlights.map(({ highlight_id }: { highlight_id: string }) => highlight_id)
  }

  /** A highlight of `member`, of media items that are new unless given. */
  async function aHighlight(o: { media?: string[]; who?: Person; json?: object } = {}): Promise<string> {
    const media_ids = o.media ?? [await albums.aMedia()]
    const made = await create({ media_ids, ...o.json }, o.who)
    if (made.status !== 201) throw new Error(`a highlight: ${made.status} ${made.code}`)
    return made.data.highlight_id
  }

  /** A media item whose conversion has found out what the file says. */
  async function converted(
    o: { kind?: 'image' | 'video'; durationSec?: number; capturedAt?: string; by?: Person } = {},
  ): Promise<string> {
    const { kind = 'video', durationSec, capturedAt = null, ...rest } = o
    const id = await albums.aMedia({ kind, ...rest })
    const source = { ...(durationSec !== undefined && { durationSec }), capturedAt }
    await sql('update media set manifest = $2 where id = $1', [uuidOf('media', id), { type: kind, source }])
    return id
  }

  async function aTrack(o: { title?: string; retired?: boolean } = {}): Promise<string> {
    const id = newUuid()
    await sql(
      `insert into music_tracks (id, title, licence, attribution, duration_sec, mime_type, file_size_bytes, retired_at)
        values ($1, $2, 'CC0', 'Ann', 30, 'audio/mpeg', 1, case when $3 then now() end)`,
      [id, o.title ?? 'Waves', o.retired ?? false],
    )
    return formatId('track', id)
  }

  const itemsOf = (id: string) =>
    sql(
      `select media_id, source_id, type, seconds, caption from highlight_items where highlight_id = $1 order by position`,
      [uuidOf('highlight', id)],
    )
  const announced = async (id: string): Promise<string[]> =>
    (
      await sql('select type from outbox where aggregate_id = $1 order by aggregate_version', [uuidOf('highlight', id)])
    ).map(({ type }) => type)
  const code = ({ status, code }: Answer) => code ?? status

  return {
    ...albums,
    removeFromAlbum: albums.remove,
    ...{ HIGHLIGHTS, orgId, database, create, createInAlbum, createInEvent, get, remove, list, aHighlight, converted },
    ...{ aTrack, itemsOf, announced, code },
  }
}
