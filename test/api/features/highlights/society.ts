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
  type Question,
  type Society,
  type User,
  word,
} from '../../../support/society.ts'
import { type Album, albumOfEvent, albumsOf, seesAlbum } from '../albums/society.ts'
import { eventsOf, seesEvent } from '../events/society.ts'
import { deliveries } from '../media/society/deliveries.ts'
import { type Item, isListed, itemsOf } from '../media/society.ts'
import { tracksOf } from '../music-tracks/society.ts'

interface Highlight {
  id: Uuid
  wireId: string
  organization: Organization
  creator: User
  album: Album | undefined
  title: string
  track: string | null
  items: { item: Item; skipped: string | null }[]
  status: 'processing' | 'completed' | 'failed'
  content: string
  isDeleted: boolean
}

const highlightsOf = madeOnce((society): Highlight[] => {
  const { draw, insert, act, api } = society
  const tracks = tracksOf(society)
  const highlights = peopled(society).flatMap(({ organization, people }) => {
    const albums = albumsOf(society).filter((album) => album.organization === organization)
    const items = itemsOf(society).filter((item) => item.organization === organization && isListed(item))
    return draw.times(1, 4, (): Highlight => {
      const id = newUuid()
      const [first, ...more] = draw.some(items, 3)
      const chosen = [first ?? draw.one(...items), ...more]
      return {
        ...{ id, wireId: formatId('highlight', id), organization, creator: draw.one(...people) },
        ...{ album: draw.rarely(3) ? undefined : draw.one(...albums), title: word('Highlight') },
        track: draw.rarely(2) ? draw.one(...tracks).id : null,
        items: chosen.map((item) => ({ item, skipped: draw.rarely(4) ? word('Skipped') : null })),
        ...{ status: draw.one('processing', 'completed', 'completed', 'failed'), content: word('Content') },
        isDeleted: draw.rarely(5),
      }
    })
  })
  for (const highlight of highlights) insertOne(insert, highlight)
  act(async () => {
    for (const one of highlights.filter(({ status }) => status === 'completed')) {
      await api.store.put(outputOf(one, 'thumb.webp'), one.content, { contentType: 'image/webp' })
    }
  })
  return highlights
})

function insertOne(insert: Society['insert'], highlight: Highlight): void {
  const { id, organization, creator, album, title, track, items, status, isDeleted } = highlight
  const isDone = status === 'completed'
  insert('highlights', {
    ...{ id, org_id: organization.id, created_by: creator.id, album_id: album?.id ?? null, title, status },
    ...{ music_track_id: track, transition: 'cut', orientation: 'auto', fill: 'blur', ken_burns: true },
    ...{ show_title: true, captions: 'none', skip_broken: true, estimated_duration_sec: 3, version: 1, generation: 1 },
    ...{ render_state: 'queued', render_attempts: 0, purge_looks: 0, created_at: AT, updated_at: AT },
    ...{ output_prefix: isDone ? outputOf(highlight, '') : null, thumb_file: isDone ? 'thumb.webp' : null },
    ...{ deleted_at: isDeleted ? AT : null, deleted_by: isDeleted ? creator.id : null },
    error: status === 'failed' ? { code: 'ITEM_FAILED', message: 'failed', mediaId: items[0]?.item.id } : null,
  })
  for (const [position, { item, skipped }] of items.entries()) {
    insert('highlight_items', {
      ...{ highlight_id: id, position, org_id: organization.id, media_id: item.id, source_id: item.id },
      ...{ uploader_id: item.uploader.id, type: item.kind, seconds: 3, caption: word('Text'), skipped },
    })
  }
}

const outputOf = ({ organization, id }: Highlight, file: string) => `org/${organization.id}/highlights/${id}/v1/${file}`

/** A highlight is for its creator, the administrators and those who see its album. */
const sees = (society: Society, who: User, { organization, creator, album, isDeleted }: Highlight) =>
  !isDeleted &&
  ((isMember(society, who, organization) && (who === creator || administers(society, who, organization))) ||
    (album !== undefined && seesAlbum(society, who, album)))

const shown = (society: Society, highlight: Highlight) => ({
  ...{ highlight_id: highlight.wireId, org_id: highlight.organization.wireId, created_by: highlight.creator.wireId },
  ...{ album_id: highlight.album?.wireId ?? null, title: highlight.title, status: highlight.status },
  music_track_id: tracksOf(society).find(({ id }) => id === highlight.track)?.wireId ?? null,
  // Also those that have been deleted since.
  media_ids: highlight.items.map(({ item }) => item.wireId),
  items: highlight.items.map(({ item, skipped }) => ({ media_id: item.wireId, type: item.kind, skipped })),
  variants: { image_thumb_url: highlight.status === 'completed' ? outputOf(highlight, 'thumb.webp') : null },
  error: highlight.status === 'failed' ? { media_id: highlight.items[0]?.item.wireId } : null,
})

export const part: Part = {
  of: highlightsOf,
  ask(society, who) {
    const all = latestFirst(highlightsOf(society))
    const list = (organization: Organization, query: Record<string, string>, isWanted: (one: Highlight) => boolean) => {
      const listed = all.filter((one) => one.organization === organization && sees(society, who, one) && isWanted(one))
      return {
        ...{ route: 'listHighlights', list: 'highlights', params: { org_id: organization.wireId }, query },
        want: isMember(society, who, organization)
          ? { highlights: listed.map((one) => shown(society, one)) }
          : undefined,
      }
    }
    return [
      ...society.organizations.flatMap((organization): Question[] => [
        list(organization, {}, () => true),
        // Also by the albums and events of other organizations, which are none here.
        ...albumsOf(society).map((album) =>
          list(organization, { album_id: album.wireId }, (one) => one.album === album),
        ),
        ...eventsOf(society).events.map((event) => {
          const album = seesEvent(society, who, event) ? albumOfEvent(society, event) : undefined
          return list(organization, { event_id: event.wireId }, (one) => album !== undefined && one.album === album)
        }),
      ]),
      ...albumsOf(society).map((album) => {
        const listed = all.filter((one) => one.album === album && !one.isDeleted)
        return {
          ...{ route: 'listAlbumHighlights', list: 'highlights' },
          params: { org_id: album.organization.wireId, album_id: album.wireId },
          want: seesAlbum(society, who, album) ? { highlights: listed.map((one) => shown(society, one)) } : undefined,
        }
      }),
      ...all.map((one) => ({
        ...{ route: 'getHighlight', params: { org_id: one.organization.wireId, highlight_id: one.wireId } },
        want: sees(society, who, one) ? shown(society, one) : undefined,
      })),
    ]
  },
  askAsNobody: (society) =>
    deliveries(
      society,
      highlightsOf(society)
        .filter(({ status }) => status === 'completed')
        .map((one) => ({ key: outputOf(one, 'thumb.webp'), content: one.isDeleted ? undefined : one.content })),
    ),
}
