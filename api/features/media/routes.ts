import * as z from 'zod'
import type { Uuid } from '../../../lib/contract/ids.ts'
import type { ApiDeps } from '../../deps.ts'
import { inOrganization } from '../../http/in-organization.ts'
import type { Route } from '../../http/route.ts'
import { found } from '../../requests/found.ts'
import type { Read } from '../../requests/request.ts'
import { listOf, pageQuery, pathId } from '../../requests/schemas.ts'
import type { AboveMedia } from './above.ts'
import { deletionRoutes } from './deletion/deletion-routes.ts'
import { deliveryRoutes } from './delivery/delivery-routes.ts'
import { Media, MediaMetadata, MediaMonths, MediaOrder, MimeFilter } from './media.ts'
import { mediaActions, VISIBLE } from './policy.ts'
import { toMedia, toMetadata } from './present.ts'
import { findListed, findMedia, listMedia, listMonths } from './queries.ts'
import { uploadRoutes } from './uploads/upload-routes.ts'

const InOrg = z.object({ org_id: pathId('organization') })
const OneMedia = InOrg.extend({ media_id: pathId('media') })
const tags = ['Storage']

/** All routes below /api/media, and the route that serves their links. */
export function mediaRoutes(deps: ApiDeps, above: AboveMedia): Route[] {
  const { links } = deps
  const { read } = inOrganization(deps)
  /** With what decides for callers who are no members. */
  const forCaller = async <T extends { id: Uuid }>(
    { tx, orgId, actor, member }: Pick<Read<typeof mediaActions.read>, 'tx' | 'orgId' | 'actor' | 'member'>,
    row: T | undefined,
  ): Promise<T & { isShownToGuest: boolean }> => {
    const { id } = found(row)
    const isMember = (await member) !== undefined
    const isShownToGuest = !isMember && (await above.isShownToGuest(tx, { orgId, mediaId: id, userId: actor.userId }))
    return { ...found(row), isShownToGuest }
  }
  return [
    ...uploadRoutes(deps),
    read({
      method: 'get',
      path: '/api/media/{org_id}',
      operationId: 'listMedia',
      tags,
      summary: 'List the media items of an organization, newest first',
      description:
        'Every member sees every media item: an upload is shared with the whole organization. A Live Photo appears once, as its image.',
      action: mediaActions.list,
      params: InOrg,
      query: pageQuery({ default: 20, max: 100 }).extend({ sort: MediaOrder, mime_type: MimeFilter.optional() }),
      response: listOf('media', Media),
      oneRoundTrip: true,
      handle: ({ tx, orgId, query, now, page }) =>
        page(
          'media',
          (wanted) => listMedia(tx, { orgId, sort: query.sort, mimeType: query.mime_type, ...wanted }),
          (row) => toMedia(row, { links, now }),
          (row) => (query.sort === 'captured_at' ? row.takenAt : row.createdAt),
        ),
    }),
    // Before the media items, whose path it also fits.
    read({
      method: 'get',
      path: '/api/media/{org_id}/months',
      operationId: 'listMediaMonths',
      tags,
      summary: 'Count the media items of each month, newest month first',
      description:
        'The months of `captured_at`, in UTC, with what `GET /api/media/{org_id}?sort=captured_at` lists. Months without media items are left out.',
      action: mediaActions.list,
      params: InOrg,
      response: MediaMonths,
      handle: async ({ tx, orgId }) => ({ months: await listMonths(tx, orgId) }),
    }),
    read({
      method: 'get',
      path: '/api/media/{org_id}/{media_id}',
      operationId: 'getMedia',
      tags,
      summary: 'Show one media item',
      description:
        'For all members of the organization, and for guests of an event, to whom its album, which they can see, or its comments show the media item. While `upload_status` is `processing`, show a placeholder or the original; a video is often playable long before it is `completed`.',
      action: mediaActions.read,
      params: OneMedia,
      response: Media,
      async handle(request) {
        const { tx, orgId, params, permit, now } = request
        const row = permit(await forCaller(request, await findListed(tx, orgId, params.media_id)))
        return toMedia(row, { links, now }, { ...VISIBLE, isShownToGuest: row.isShownToGuest })
      },
    }),
    read({
      method: 'get',
      path: '/api/media/{org_id}/{media_id}/metadata',
      operationId: 'getMediaMetadata',
      tags,
      summary: 'Show the metadata of a file and the state of its conversion',
      action: mediaActions.read,
      description:
        'Dimensions, duration, camera and location from the file, null where it does not contain them; the state of the conversion and the playable renditions.',
      params: OneMedia,
      response: MediaMetadata,
      async handle(request) {
        const { tx, orgId, params, permit, can } = request
        const row = permit(await forCaller(request, await findMedia(tx, orgId, params.media_id)))
        return toMetadata(row, can(mediaActions.readLocation, row))
      },
    }),
    ...deletionRoutes(deps),
    ...deliveryRoutes({ ...deps, keys: deps.config.LINK_KEYS, above }),
  ]
}
