import * as z from 'zod'
import type { Uuid } from '../../../lib/contract/ids.ts'
import type { ApiDeps } from '../../deps.ts'
import { inOrganization } from '../../http/in-organization.ts'
import type { Route } from '../../http/route.ts'
import { found } from '../../requests/found.ts'
import type { Read } from '../../requests/request.ts'
import { bodyId, EXAMPLE_ID, exampleId, listOf, pageQuery, pathId } from '../../requests/schemas.ts'
import { albumActions } from '../albums/policy.ts'
import { findAlbum } from '../albums/queries.ts'
import { eventActions } from '../events/policy.ts'
import { findEvent } from '../events/queries.ts'
import { createAlbumHighlight, createEventHighlight, createHighlight, deleteHighlight } from './commands.ts'
import { CreatedHighlight, Highlight, NewHighlight } from './highlight.ts'
import { highlightActions } from './policy.ts'
import { toHighlight } from './present.ts'
import { findHighlight, type Listed, listHighlights } from './queries.ts'

const InOrg = z.object({ org_id: pathId('organization') })
const OneHighlight = InOrg.extend({ highlight_id: pathId('highlight') })
const OfAlbum = InOrg.extend({ album_id: pathId('album') })
const OfEvent = InOrg.extend({ event_id: pathId('event') })
const tags = ['Highlights']
const HIGHLIGHTS = '/api/media/{org_id}/highlights'
const ONE_HIGHLIGHT = `${HIGHLIGHTS}/{highlight_id}` as const

const MEDIA = exampleId('media')
const ALBUM = exampleId('album')
const GIVEN = { title: 'Class reunion', media_ids: [MEDIA], transition: 'crossfade' as const }
const CREATED: z.output<typeof CreatedHighlight> = {
  highlight_id: exampleId('highlight'),
  album_id: null,
  status: 'processing',
  estimated_duration_sec: 3,
  skipped_media_ids: [],
}
const OUTPUT = `https://api.example.org/v1/d/a.t2x1c0.1qbzz4YvT0iQm3o9Wc2r6A/org/${EXAMPLE_ID}/highlights/${EXAMPLE_ID}/v1`
const COMPLETED: z.output<typeof Highlight> = {
  highlight_id: CREATED.highlight_id,
  org_id: exampleId('organization'),
  album_id: ALBUM,
  ...GIVEN,
  status: 'completed',
  music_track_id: null,
  orientation: 'auto',
  fill: 'blur',
  ken_burns: true,
  show_title: true,
  captions: 'none',
  skip_broken: false,
  estimated_duration_sec: 3,
  duration_sec: 3,
  variants: {
    hls_master_url: `${OUTPUT}/master.m3u8`,
    image_webp_url: `${OUTPUT}/image.webp`,
    image_thumb_url: `${OUTPUT}/thumb.webp`,
  },
  placeholder: '1QcSHQRnh493V4dIh4eXh1h4kJUI',
  expires_in: 3600,
  progress: null,
  items: [{ media_id: MEDIA, type: 'image', start_sec: 0, duration_sec: 3, skipped: null }],
  created_by: exampleId('user'),
  created_at: '2026-11-22T10:00:00.000Z',
  error: null,
  can: ['highlight.delete', 'highlight.read'],
}

const VISIBLE =
  'Its creator, those who can see its album, and owners and administrators of the organization can see it.'
const SOURCES =
  'Media items of the organization, also while their conversion is running; one that does not exist, is deleted, or whose conversion has failed is `MEDIA_NOT_AVAILABLE`. With `skip_broken` those whose conversion has failed are left out instead, unless no other is left. An image is shown for 3 seconds, a video for at most 15 from its start, and of a Live Photo the moving part, or its image for 3 seconds if the conversion of the moving part has failed by the time at which the render begins. A moving part that turns out to be damaged only during the render is treated as any damaged item: the highlight fails with `ITEM_FAILED` and the id of the Live Photo, or leaves it out with `skip_broken`; a highlight that is created after the conversion of the moving part has failed shows the image. A media item that is deleted before the highlight is finished makes it fail, unless it is restored at once; later deletions and purges do not change the highlight.'
const OF_ALBUM =
  'The media items must be in the album. One that is removed from the album later stays in the highlight. An album in `ARCHIVE` is refused (`ALBUM_ARCHIVED`).'
const LIMIT = 'Each user can create 10 an hour.'

const CREATION = {
  method: 'post',
  tags,
  limit: 'highlight',
  body: NewHighlight,
  status: 201,
  response: CreatedHighlight,
} as const

interface Filters {
  album_id?: Uuid | undefined
  event_id?: Uuid | undefined
}

/** What a list shows to the caller under its filters; undefined for nothing. */
async function listedFor(request: Read<typeof highlightActions.list>, filters: Filters): Promise<Listed | undefined> {
  const { album_id: albumId, event_id: eventId } = filters
  const seesAll = request.can(highlightActions.listAll, undefined)
  if (albumId === undefined && eventId === undefined) return { of: seesAll ? 'all' : 'visible' }
  const album = eventId === undefined ? await albumOf(request, 'album', albumId) : await albumOfEvent(request, eventId)
  if (!album || (albumId !== undefined && albumId !== album.id)) return undefined
  return { of: seesAll || request.can(albumActions.read, album) ? 'album' : 'created_in_album', albumId: album.id }
}

const albumOf = async (
  { tx, orgId, actor }: Read<typeof highlightActions.list>,
  by: 'album' | 'event',
  id: Uuid | undefined,
) => id && (await findAlbum(tx, { orgId, callerId: actor.userId, by, id }))

/** An event that the caller may not read has no album here: the list would show which album it is, and that it exists. */
async function albumOfEvent(request: Read<typeof highlightActions.list>, id: Uuid) {
  const { tx, orgId, can } = request
  const [event, album] = await Promise.all([findEvent(tx, orgId, id), albumOf(request, 'event', id)])
  return event && can(eventActions.read, event) ? album : undefined
}

const OF_ALBUM_PATH = '/api/orgs/{org_id}/albums/{album_id}/highlights'

/** Highlights: made of media items that a user has chosen. */
export function highlightRoutes(deps: ApiDeps): Route[] {
  const { links, config } = deps
  const archive = { isReadOnly: config.ALBUM_ARCHIVE_READ_ONLY }
  const { read, write } = inOrganization(deps)
  return [
    write({
      ...CREATION,
      path: HIGHLIGHTS,
      operationId: 'createHighlight',
      summary: 'Make a highlight of chosen media items',
      description: `For every member. The highlight is rendered in the background; \`getHighlight\` shows how far it is. ${SOURCES} Without an album only its creator and the owners and administrators of the organization can see it. ${LIMIT}`,
      problems: ['MEDIA_NOT_AVAILABLE', 'MUSIC_TRACK_NOT_FOUND'],
      action: highlightActions.create,
      params: InOrg,
      examples: { request: GIVEN, response: CREATED },
      handle: (request) => createHighlight(request, request.body),
    }),
    write({
      ...CREATION,
      path: OF_ALBUM_PATH,
      operationId: 'createAlbumHighlight',
      summary: 'Make a highlight of media items of an album',
      description: `For those who can see the album; they can see the highlight as well. ${OF_ALBUM} ${SOURCES} ${LIMIT}`,
      problems: ['MEDIA_NOT_AVAILABLE', 'MUSIC_TRACK_NOT_FOUND', 'ALBUM_ARCHIVED'],
      action: highlightActions.createInAlbum,
      params: OfAlbum,
      examples: { request: GIVEN, response: { ...CREATED, album_id: ALBUM } },
      handle: (request) => createAlbumHighlight(request, request.params.album_id, request.body, archive),
    }),
    write({
      ...CREATION,
      path: '/api/orgs/{org_id}/events/{event_id}/highlights',
      operationId: 'createEventHighlight',
      summary: 'Make a highlight of media items of an event',
      description: `For those who can see the event and its album; 404 for an event without an album. The event may be archived. The highlight belongs to the album. ${OF_ALBUM} ${SOURCES} ${LIMIT}`,
      problems: ['MEDIA_NOT_AVAILABLE', 'MUSIC_TRACK_NOT_FOUND', 'ALBUM_ARCHIVED'],
      action: highlightActions.createInAlbum,
      params: OfEvent,
      examples: { request: GIVEN, response: { ...CREATED, album_id: ALBUM } },
      handle: (request) => createEventHighlight(request, request.params.event_id, request.body, archive),
    }),
    read({
      method: 'get',
      path: HIGHLIGHTS,
      operationId: 'listHighlights',
      tags,
      summary: 'List the highlights that the caller can see, newest first',
      description: `${VISIBLE} A filter leaves out the others. The list is empty for an album or an event that does not exist, and for an event that the caller cannot see; of an album that the caller cannot see it has what the caller created.`,
      action: highlightActions.list,
      params: InOrg,
      query: pageQuery({ default: 20, max: 100 }).extend({
        album_id: bodyId('album').optional().meta({ description: 'Only highlights of this album' }),
        event_id: bodyId('event').optional().meta({ description: 'Only highlights of the album of this event' }),
      }),
      response: listOf('highlights', Highlight),
      examples: { response: { highlights: [COMPLETED], next_cursor: null, has_more: false } },
      async handle(request) {
        const { tx, orgId, actor, page } = request
        await request.member
        const listed = await listedFor(request, request.query)
        return page(
          'highlights',
          async (wanted) => (listed ? listHighlights(tx, { orgId, callerId: actor.userId, listed, ...wanted }) : []),
          (row) => toHighlight(row, { links, now: request.now }),
        )
      },
    }),
    read({
      method: 'get',
      path: OF_ALBUM_PATH,
      operationId: 'listAlbumHighlights',
      tags,
      summary: 'List the highlights of an album, newest first',
      description:
        'An addition to the interface specification. For those who can see the album, guests of its event included, who have no other list of highlights.',
      action: albumActions.read,
      params: OfAlbum,
      query: pageQuery({ default: 20, max: 100 }),
      response: listOf('highlights', Highlight),
      examples: { response: { highlights: [COMPLETED], next_cursor: null, has_more: false } },
      async handle({ tx, orgId, actor, params, permit, now, page }) {
        const asked = { orgId, callerId: actor.userId }
        const { id } = permit(found(await findAlbum(tx, { ...asked, by: 'album', id: params.album_id })))
        return page(
          'highlights',
          (wanted) => listHighlights(tx, { ...asked, listed: { of: 'album', albumId: id }, ...wanted }),
          (row) => toHighlight(row, { links, now }),
        )
      },
    }),
    read({
      method: 'get',
      path: ONE_HIGHLIGHT,
      operationId: 'getHighlight',
      tags,
      summary: 'Show one highlight',
      description: `${VISIBLE} A highlight can often be played long before it is \`completed\`.`,
      action: highlightActions.read,
      params: OneHighlight,
      response: Highlight,
      examples: { response: COMPLETED },
      oneRoundTrip: true,
      handle: async ({ tx, orgId, actor, params, permit, now }) =>
        toHighlight(
          permit(found(await findHighlight(tx, { orgId, id: params.highlight_id, callerId: actor.userId }))),
          { links, now },
        ),
    }),
    write({
      method: 'delete',
      path: ONE_HIGHLIGHT,
      operationId: 'deleteHighlight',
      tags,
      summary: 'Delete a highlight',
      description:
        'For its creator, the owner of its album, who removes it from the album in this way, and the owners and administrators of the organization. The highlight and its links stop working at once, and cannot be restored. The media items stay.',
      action: highlightActions.delete,
      params: OneHighlight,
      status: 204,
      handle: (request) => deleteHighlight(request, request.params.highlight_id),
    }),
  ]
}
