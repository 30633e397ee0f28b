import * as z from 'zod'
import type { ApiDeps } from '../../deps.ts'
import { inOrganization } from '../../http/in-organization.ts'
import { type Route, renewed } from '../../http/route.ts'
import { found } from '../../requests/found.ts'
import { exampleId, listOf, pageQuery, pathId, timestamp } from '../../requests/schemas.ts'
import { eventActions } from '../events/policy.ts'
import { findEventFor } from '../events/queries.ts'
import { whilePaired } from '../media/deletion/commands.ts'
import { withNewLinks } from '../media/present.ts'
import {
  AddMedia,
  Album,
  AlbumMedia,
  AlbumMediaTotal,
  AlbumStatusSet,
  CreateAlbum,
  ListedAlbum,
  Reorder,
  Reordered,
  SetAlbumStatus,
  SetCaption,
  UpdateAlbum,
} from './album.ts'
import { addMedia, captionMedia, changeAlbum, createAlbum, removeMedia, reorderMedia, setStatus } from './commands.ts'
import { deleteAlbum } from './deletion.ts'
import { countItems, listItems } from './item-queries.ts'
import { MAX_ITEMS } from './plan.ts'
import { albumActions } from './policy.ts'
import { toAlbum, toAlbumMedia, toListedAlbum } from './present.ts'
import { findAlbum, findShownAlbum, listAlbums } from './queries.ts'

const InOrg = z.object({ org_id: pathId('organization') })
const OneAlbum = InOrg.extend({ album_id: pathId('album') })
const OneItem = OneAlbum.extend({ media_id: pathId('media') })
const OfEvent = InOrg.extend({ event_id: pathId('event') })
const tags = ['Albums']
const ALBUMS = '/api/orgs/{org_id}/albums'
const ONE_ALBUM = `${ALBUMS}/{album_id}` as const
const ITEMS = `${ONE_ALBUM}/media` as const
const ONE_ITEM = `${ITEMS}/{media_id}` as const

const ids = { media: exampleId('media'), org: exampleId('organization') }
const USER = exampleId('user')
const GIVEN = { title: 'Class reunion', description: 'All guests add what they have.' }
const DRAFT: z.output<typeof Album> = {
  album_id: exampleId('album'),
  org_id: ids.org,
  owner_id: USER,
  event_id: exampleId('event'),
  ...GIVEN,
  visibility: 'participants',
  status: 'DRAFT',
  media_count: 0,
  cover_media_id: null,
  created_at: '2026-11-21T09:30:00.000Z',
  updated_at: '2026-11-21T09:30:00.000Z',
  can: ['album.add_media', 'album.read', 'album.set_status', 'album.update', 'highlight.create_in_album'],
}
const PUBLIC: z.output<typeof Album> = {
  ...DRAFT,
  status: 'PUBLIC',
  media_count: 1,
  cover_media_id: ids.media,
  updated_at: '2026-11-22T10:00:00.000Z',
}
const { can: _, ...LISTED } = PUBLIC
const ITEM: z.output<typeof AlbumMedia> = {
  media_id: ids.media,
  org_id: ids.org,
  uploader_id: USER,
  original_filename: 'IMG_0815.HEIC',
  mime_type: 'image/heic',
  file_size_bytes: 2_400_000,
  upload_status: 'processing',
  created_at: '2026-11-21T09:31:00.000Z',
  captured_at: null,
  original_url: 'https://api.example.org/v1/d/1qbzz4YvT0i/original',
  expires_in: 3600,
  variants: {
    image_url: null,
    image_webp_url: null,
    image_thumb_url: null,
    hls_master_url: null,
    live_photo_video_url: null,
    asset_identifier: null,
  },
  placeholder: null,
  conversion_progress: null,
  can: ['media.delete', 'media.read', 'media.read_location'],
  caption: 'Still the same laugh',
  added_by: USER,
  added_at: '2026-11-21T09:32:00.000Z',
}
const LAST_PAGE = { next_cursor: null, has_more: false }

const AlbumItems = listOf('media', AlbumMedia).extend({ total: AlbumMediaTotal }).meta({ id: 'AlbumMediaPage' })

const FOR_MANAGERS =
  'For the owner of the album, the owner of its event, and the owners and administrators of the organization.'
const NOT_THE_MEDIA =
  'What an album keeps from others is its selection, its order and its captions, not the media items themselves: every member of the organization can see those.'
const READ_ONLY = 'An album in `ARCHIVE` (`ALBUM_ARCHIVED`), or of an archived event (`EVENT_ARCHIVED`), is read-only.'
const CHANGE_PROBLEMS = ['EVENT_ARCHIVED', 'ALBUM_ARCHIVED'] as const

/** Albums, and the media items in them. */
export function albumRoutes(deps: ApiDeps): Route[] {
  const { links, clock, config } = deps
  const { read, write, steps } = inOrganization(deps)
  const archive = { isReadOnly: config.ALBUM_ARCHIVE_READ_ONLY }
  return [
    write({
      method: 'post',
      path: ALBUMS,
      operationId: 'createAlbum',
      tags,
      summary: 'Create an album, as a draft',
      description:
        'For every member, who becomes its owner. An event that the caller can see may be named, unless it is archived; it can have one album (409 `CONFLICT`). Only the owner of the album, the owner of its event and the owners and administrators of the organization can see it until its status is `PUBLIC`. ' +
        NOT_THE_MEDIA,
      problems: ['EVENT_ARCHIVED', 'CONFLICT'],
      action: albumActions.create,
      params: InOrg,
      body: CreateAlbum,
      status: 201,
      response: Album,
      examples: { request: GIVEN, response: { ...DRAFT, event_id: null, visibility: 'organization' } },
      handle: async (request) => toAlbum(await createAlbum(request, request.body), request, archive),
    }),
    read({
      method: 'get',
      path: ALBUMS,
      operationId: 'listAlbums',
      tags,
      summary: 'List the albums that the caller can see, newest first',
      description:
        'One’s own, and those that are `PUBLIC` for the caller; owners and administrators of the organization see all.',
      action: albumActions.list,
      params: InOrg,
      query: pageQuery({ default: 20, max: 100 }),
      response: listOf('albums', ListedAlbum),
      examples: { response: { albums: [LISTED], ...LAST_PAGE } },
      async handle({ tx, orgId, actor, member, can, page }) {
        await member
        const asked = { orgId, callerId: actor.userId, seesAll: can(albumActions.listAll, undefined) }
        return page(
          'albums',
          (wanted) => listAlbums(tx, { ...asked, ...wanted }),
          (row) => toListedAlbum(row, can),
        )
      },
    }),
    read({
      method: 'get',
      path: ONE_ALBUM,
      operationId: 'getAlbum',
      tags,
      summary: 'Show one album',
      description: `For those who can see it: see \`status\` and \`visibility\`. ${NOT_THE_MEDIA} Guests of an event see only those in its album, and those attached to comments.`,
      action: albumActions.read,
      params: OneAlbum,
      response: Album,
      examples: { response: PUBLIC },
      oneRoundTrip: true,
      handle: async ({ tx, orgId, actor, params, permit, can, now }) =>
        toAlbum(
          permit(found(await findShownAlbum(tx, { orgId, callerId: actor.userId, by: 'album', id: params.album_id }))),
          { can, now },
          archive,
        ),
    }),
    read({
      method: 'get',
      path: '/api/orgs/{org_id}/events/{event_id}/album',
      operationId: 'getEventAlbum',
      tags,
      summary: 'Show the album of an event',
      description: 'For those who can see the event and the album; 404 for an event without an album.',
      action: albumActions.read,
      params: OfEvent,
      response: Album,
      examples: { response: PUBLIC },
      async handle({ tx, orgId, actor, params, permit, can, now }) {
        const id = params.event_id
        const [event, album] = await Promise.all([
          findEventFor(tx, orgId, id, actor.userId),
          findShownAlbum(tx, { orgId, callerId: actor.userId, by: 'event', id }),
        ])
        return toAlbum(permit(found(event && can(eventActions.read, event) ? album : undefined)), { can, now }, archive)
      },
    }),
    write({
      method: 'patch',
      path: ONE_ALBUM,
      operationId: 'updateAlbum',
      tags,
      summary: 'Change some fields of an album',
      description: `${FOR_MANAGERS} A field that the request does not name stays as it is; null clears an optional one. ${READ_ONLY}`,
      problems: [...CHANGE_PROBLEMS],
      action: albumActions.update,
      params: OneAlbum,
      body: UpdateAlbum,
      status: 200,
      response: Album,
      examples: { request: { title: 'Class reunion 2027' }, response: { ...PUBLIC, title: 'Class reunion 2027' } },
      handle: async (request) =>
        toAlbum(await changeAlbum(request, request.params.album_id, request.body, archive), request, archive),
    }),
    write({
      method: 'delete',
      path: ONE_ALBUM,
      operationId: 'deleteAlbum',
      tags,
      summary: 'Delete an album',
      description: `${FOR_MANAGERS} The media items stay in the library. Highlights of the album stay with an \`album_id\` of null: their creators and the owners and administrators of the organization see them. An album in \`ARCHIVE\` is refused (\`ALBUM_ARCHIVED\`), and so is the album of an event (\`CONFLICT\`), which goes with the event. Nothing is deleted that a legal hold keeps (\`LEGAL_HOLD\`).`,
      problems: ['ALBUM_ARCHIVED', 'CONFLICT', 'LEGAL_HOLD'],
      action: albumActions.delete,
      params: OneAlbum,
      status: 204,
      handle: (request) => deleteAlbum(request, request.params.album_id),
    }),
    write({
      method: 'put',
      path: '/api/v1/albums/status',
      operationId: 'setAlbumStatus',
      tags,
      summary: 'Publish an album, archive it, or make it a draft again',
      description:
        'For the owner of the album and the owner of its event: other members of its organization get 403. For the owners and administrators of the organization once the owner of the album has left it. Every status can follow every other; the one that the album has already changes nothing. The response is not wrapped in `data`.',
      problems: ['FORBIDDEN', 'NOT_FOUND'],
      action: albumActions.setStatus,
      organization: { of: 'albums', id: ({ body }) => body.album_id },
      isOpen: true,
      unwrapped: true,
      body: SetAlbumStatus,
      status: 200,
      response: AlbumStatusSet,
      examples: {
        request: { album_id: DRAFT.album_id, status: 'PUBLIC' },
        response: {
          album_id: DRAFT.album_id,
          status: 'PUBLIC',
          meta: { request_id: exampleId('request'), timestamp: '2026-11-22T10:00:00.000Z' },
        },
      },
      async handle(request) {
        const { body, context } = request
        const { id, status } = await setStatus(request, body.album_id, body.status)
        const meta = { request_id: context.requestId, timestamp: timestamp(clock.now()) }
        return { album_id: id, status, meta }
      },
    }),
    read({
      method: 'get',
      path: ITEMS,
      operationId: 'listAlbumMedia',
      tags,
      summary: 'List the media items of an album, in its order',
      description:
        'For those who can see the album. A Live Photo appears once, as its image. Deleted media items are left out, and have their places again when they are restored.',
      action: albumActions.read,
      params: OneAlbum,
      query: pageQuery({ default: 500, max: 500 }),
      response: AlbumItems,
      examples: { response: { media: [ITEM], total: 1, ...LAST_PAGE } },
      async handle({ tx, orgId, actor, params, permit, now, page }) {
        const { id } = permit(found(await findAlbum(tx, { orgId, id: params.album_id, callerId: actor.userId })))
        const [listed, total] = await Promise.all([
          page(
            'media',
            (wanted) => listItems(tx, { albumId: id, ...wanted }),
            (row) => toAlbumMedia(row, { links, now }),
            (row) => row.position,
          ),
          countItems(tx, id),
        ])
        return { ...listed, total }
      },
    }),
    renewed(
      steps({
        method: 'post',
        path: ITEMS,
        operationId: 'addAlbumMedia',
        tags,
        summary: 'Add a media item to an album, at its end',
        description: `${FOR_MANAGERS} While the album is \`PUBLIC\`, also for those who can see it and have accepted an invitation to its event. Any media item of the organization, whatever the state of its conversion; either half of a Live Photo adds the Live Photo. One that is in the album already is refused (409 \`CONFLICT\`), and so is one more than ${MAX_ITEMS} (\`QUOTA_EXCEEDED\`). ${READ_ONLY}`,
        problems: [...CHANGE_PROBLEMS, 'CONFLICT', 'QUOTA_EXCEEDED'],
        action: albumActions.addMedia,
        params: OneAlbum,
        body: AddMedia,
        status: 201,
        response: AlbumMedia,
        examples: { request: { media_id: ids.media, caption: 'Still the same laugh' }, response: ITEM },
        handle({ answer, params, body }) {
          const given = { mediaId: body.media_id, caption: body.caption ?? null }
          return whilePaired(() =>
            answer(async (request) =>
              toAlbumMedia(await addMedia(request, params.album_id, given, archive), { links, now: request.now }),
            ),
          )
        },
      }),
      (shown: AlbumMedia) => withNewLinks(shown, links),
    ),
    write({
      method: 'post',
      path: `${ITEMS}/reorder`,
      operationId: 'reorderAlbumMedia',
      tags,
      summary: 'Put the media items of an album in another order',
      description: `${FOR_MANAGERS} The request names every media item of the album once, as the list shows them; otherwise the answer is \`REORDER_MISMATCH\`, in particular if another request has added or removed one meanwhile. ${READ_ONLY}`,
      problems: [...CHANGE_PROBLEMS, 'REORDER_MISMATCH'],
      limit: 'reorder',
      action: albumActions.update,
      params: OneAlbum,
      body: Reorder,
      status: 200,
      response: Reordered,
      examples: { request: { media_ids: [ids.media] }, response: { media_ids: [ids.media] } },
      async handle(request) {
        const { params, body } = request
        await reorderMedia(request, params.album_id, body.media_ids, archive)
        return { media_ids: body.media_ids }
      },
    }),
    write({
      method: 'patch',
      path: ONE_ITEM,
      operationId: 'setAlbumMediaCaption',
      tags,
      summary: 'Change the caption of a media item in an album',
      description: `${FOR_MANAGERS} Null removes the caption. ${READ_ONLY}`,
      problems: [...CHANGE_PROBLEMS],
      action: albumActions.update,
      params: OneItem,
      body: SetCaption,
      status: 200,
      response: AlbumMedia,
      examples: { request: { caption: 'Still the same laugh' }, response: ITEM },
      async handle(request) {
        const { params, body } = request
        const given = { mediaId: params.media_id, caption: body.caption }
        return toAlbumMedia(await captionMedia(request, params.album_id, given, archive), { links, now: request.now })
      },
    }),
    write({
      method: 'delete',
      path: ONE_ITEM,
      operationId: 'removeAlbumMedia',
      tags,
      summary: 'Remove a media item from an album',
      description: `${FOR_MANAGERS} From the album only: the media item stays in the organization. Under a legal hold it stays in the album (\`LEGAL_HOLD\`). ${READ_ONLY}`,
      problems: [...CHANGE_PROBLEMS, 'LEGAL_HOLD'],
      action: albumActions.update,
      params: OneItem,
      status: 204,
      handle: (request) => removeMedia(request, request.params.album_id, request.params.media_id, archive),
    }),
  ]
}
