import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import {
  AT,
  administers,
  isMember,
  latestFirst,
  madeOnce,
  type Organization,
  type Part,
  peopled,
  type Society,
  type User,
  word,
} from '../../../support/society.ts'
import { type Event, eventsOf, isGuest, seesEvent, takesPart } from '../events/society.ts'
import { type Item, isListed, itemsOf, shownItem } from '../media/society.ts'

export interface Album {
  id: Uuid
  wireId: string
  organization: Organization
  owner: User
  event: Event | undefined
  title: string
  description: string
  visibility: 'organization' | 'participants' | 'private'
  status: 'DRAFT' | 'PUBLIC' | 'ARCHIVE'
  /** In the order of the album. */
  places: { item: Item; caption: string; by: User; isCover: boolean }[]
}

export const albumsOf = madeOnce((society): Album[] => {
  const { draw, insert } = society
  const { events, alsoShown } = eventsOf(society)
  const free = [...events]
  const albums = peopled(society).flatMap(({ organization, people }) =>
    draw.times(2, 3, (): Album => {
      const id = newUuid()
      const without = free.filter((one) => one.organization === organization)
      const event = without.length === 0 || draw.rarely(5) ? undefined : draw.one(...without)
      if (event) free.splice(free.indexOf(event), 1)
      const here = itemsOf(society).filter((item) => item.organization === organization && isListed(item))
      const cover = draw.upTo(6)
      return {
        ...{ id, wireId: formatId('album', id), organization, owner: draw.one(...people), event },
        ...{ title: word('Album'), description: word('Description'), ...look(society, event) },
        places: draw.some(here, 4).map((item, n) => ({
          ...{ item, caption: word('Caption'), by: draw.one(...people), isCover: n === cover },
        })),
      }
    }),
  )
  for (const album of albums) {
    const { id, organization, owner, event, title, description, visibility, status, places } = album
    insert('albums', {
      ...{ id, org_id: organization.id, owner_id: owner.id, event_id: event?.id ?? null, title, description },
      ...{ visibility, status, next_position: places.length, version: 1, created_at: AT, updated_at: AT },
    })
    for (const [position, { item, caption, by, isCover }] of places.entries()) {
      insert('album_media', {
        ...{ album_id: id, media_id: item.id, org_id: organization.id, position, caption, is_cover: isCover },
        ...{ listed: true, added_by: by.id, added_at: AT },
      })
    }
    if (draw.rarely(2)) changeLater(society, album)
  }
  alsoShown.push((who, event) => {
    const album = albums.find((one) => one.event === event)
    return { album_id: album && seesAlbum(society, who, album) ? album.wireId : null }
  })
  return albums
})

const look = ({ draw }: Society, event: Event | undefined): Pick<Album, 'visibility' | 'status'> => ({
  visibility: event
    ? draw.one('organization', 'private', 'participants', 'participants')
    : draw.one('organization', 'private'),
  status: draw.one('DRAFT', 'PUBLIC', 'PUBLIC', 'PUBLIC', 'ARCHIVE'),
})

/** After people have said something about what is in it. */
function changeLater(society: Society, album: Album): void {
  const { draw, api } = society
  const next = look(society, album.event)
  const gone = draw.rarely(2) ? album.places.at(-1) : undefined
  society.change(async () => {
    Object.assign(album, next, { places: album.places.filter((one) => one !== gone) })
    const { admin } = api.database
    await admin.query('update albums set visibility = $2, status = $3 where id = $1', [
      ...[album.id, next.visibility, next.status],
    ])
    if (gone)
      await admin.query('delete from album_media where album_id = $1 and media_id = $2', [album.id, gone.item.id])
  })
}

/**
 * An album is for its owner, the owner of its event and the administrators; once it is public, also for those whom it names, and for the guests of
 * its event unless it is private.
 */
export function seesAlbum(society: Society, who: User, album: Album): boolean {
  const { organization, owner, event, status, visibility } = album
  if (!isMember(society, who, organization)) {
    return status === 'PUBLIC' && visibility !== 'private' && event !== undefined && isGuest(society, who, event)
  }
  if (who === owner || who === event?.owner || administers(society, who, organization)) return true
  if (status !== 'PUBLIC' || visibility === 'private') return false
  return visibility === 'organization' || (event !== undefined && takesPart(society, who, event))
}

export const albumOfEvent = (society: Society, event: Event): Album | undefined =>
  albumsOf(society).find((album) => album.event === event)
export const shownPlaces = ({ places }: Album) => places.filter(({ item }) => !item.deleted)

function shownTo(society: Society, who: User, album: Album): object {
  const shown = shownPlaces(album)
  const cover = shown.find(({ isCover }) => isCover) ?? shown[0]
  return {
    ...{ album_id: album.wireId, org_id: album.organization.wireId, owner_id: album.owner.wireId },
    // Who sees an album need not see its event.
    event_id: album.event && seesEvent(society, who, album.event) ? album.event.wireId : null,
    ...{ title: album.title, description: album.description, visibility: album.visibility, status: album.status },
    ...{ media_count: shown.length, cover_media_id: cover?.item.wireId ?? null },
  }
}

const shownMedia = (album: Album) => {
  const media = shownPlaces(album).map(({ item, caption, by }) => ({
    ...shownItem(item),
    caption,
    added_by: by.wireId,
  }))
  return { media, total: media.length }
}

export const part: Part = {
  of: albumsOf,
  ask(society, who) {
    const sees = (album: Album) => seesAlbum(society, who, album)
    const albums = albumsOf(society)
    return [
      ...society.organizations.map((organization) => {
        const listed = latestFirst(albums).filter((one) => one.organization === organization && sees(one))
        return {
          ...{ route: 'listAlbums', list: 'albums', params: { org_id: organization.wireId } },
          want: isMember(society, who, organization)
            ? { albums: listed.map((one) => shownTo(society, who, one)) }
            : undefined,
        }
      }),
      ...albums.flatMap((album) => {
        const params = { org_id: album.organization.wireId, album_id: album.wireId }
        return [
          { route: 'getAlbum', params, want: sees(album) ? shownTo(society, who, album) : undefined },
          { route: 'listAlbumMedia', list: 'media', params, want: sees(album) ? shownMedia(album) : undefined },
        ]
      }),
      ...eventsOf(society).events.map((event) => {
        const album = albumOfEvent(society, event)
        return {
          ...{ route: 'getEventAlbum', params: { org_id: event.organization.wireId, event_id: event.wireId } },
          want: album && seesEvent(society, who, event) && sees(album) ? shownTo(society, who, album) : undefined,
        }
      }),
    ]
  },
}
