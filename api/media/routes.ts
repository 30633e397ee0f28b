import * as z from 'zod'
import { Problem } from '../../lib/contract/problem.ts'
import type { ApiDeps } from '../deps.ts'
import { type Route, route } from '../http/route.ts'
import { listOf, pageQuery, pathId } from '../http/schemas.ts'
import { requireMember } from '../organizations/membership.ts'
import { deliveryRoutes } from './delivery/delivery-routes.ts'
import { Media, MediaMetadata, MimeFilter } from './media.ts'
import { maySeeLocation } from './policy.ts'
import { toMedia, toMetadata } from './present.ts'
import { findMedia, type ListedMedia, listMedia } from './queries.ts'
import { uploadRoutes } from './uploads/upload-routes.ts'

const InOrg = z.object({ org_id: pathId('organization') })
const OneMedia = InOrg.extend({ media_id: pathId('media') })
const tags = ['Storage']

const required = <T>(media: T | undefined): T => {
  if (media) return media
  throw new Problem('NOT_FOUND', 'There is no such media')
}

/** Everything below /api/media, and the links that come of it. */
export function mediaRoutes(deps: ApiDeps): Route[] {
  const { db, links, cursors } = deps
  return [
    ...uploadRoutes(deps),
    route({
      method: 'get',
      path: '/api/media/{org_id}',
      operationId: 'listMedia',
      tags,
      summary: 'List the media of an organization, newest first',
      description: 'Every member sees every media: to upload into an organization is to share with it.',
      problems: ['NOT_FOUND', 'INVALID_CURSOR'],
      params: InOrg,
      query: pageQuery({ default: 20, max: 100 }).extend({ mime_type: MimeFilter.optional() }),
      status: 200,
      response: listOf('media', Media),
      handle: async ({ actor, params, query }) => {
        const scope = { list: 'media', org: params.org_id, filters: { mime_type: query.mime_type } }
        const page = {
          orgId: params.org_id,
          mimeType: query.mime_type,
          after: query.cursor === undefined ? undefined : cursors.decode(scope, query.cursor),
          limit: query.limit,
        }
        // Both leave together; a stranger's answer is thrown away.
        const [, rows] = await db.readAtOnce({ org: params.org_id }, (tx) =>
          Promise.all([requireMember(tx, actor, params.org_id), listMedia(tx, page)]),
        )
        const shown = rows.slice(0, query.limit)
        const last = rows.length > query.limit ? shown.at(-1) : undefined
        return {
          data: {
            media: shown.map((row) => toMedia(row, links)),
            next_cursor: last ? cursors.encode(scope, { createdAt: last.createdAt, id: last.id }) : null,
            has_more: last !== undefined,
          },
          etag: [links.window(), query.limit, rows.length, ...shown.map(tagOf)].join(),
        }
      },
    }),
    route({
      method: 'get',
      path: '/api/media/{org_id}/{media_id}',
      operationId: 'getMedia',
      tags,
      summary: 'Show one media',
      description:
        'Any member of the organization may. While `upload_status` is `processing`, show a placeholder or the original; a video can often be played long before it is `completed`.',
      problems: ['NOT_FOUND'],
      params: OneMedia,
      status: 200,
      response: Media,
      handle: async ({ actor, params }) => {
        const [, found] = await db.readAtOnce({ org: params.org_id }, (tx) =>
          Promise.all([requireMember(tx, actor, params.org_id), findMedia(tx, params.org_id, params.media_id)]),
        )
        const row = required(found)
        return { data: toMedia(row, links), etag: `${links.window()},${tagOf(row)}` }
      },
    }),
    route({
      method: 'get',
      path: '/api/media/{org_id}/{media_id}/metadata',
      operationId: 'getMediaMetadata',
      tags,
      summary: 'Show what the file says of itself, and how its conversion goes',
      problems: ['NOT_FOUND'],
      params: OneMedia,
      status: 200,
      response: MediaMetadata,
      handle: async ({ actor, params }) => {
        const [member, found] = await db.readAtOnce({ org: params.org_id }, (tx) =>
          Promise.all([requireMember(tx, actor, params.org_id), findMedia(tx, params.org_id, params.media_id)]),
        )
        const row = required(found)
        const mayLocate = maySeeLocation(member, row)
        return { data: toMetadata(row, mayLocate), etag: `metadata,${mayLocate},${tagOf(row)}` }
      },
    }),
    ...deliveryRoutes({ ...deps, keys: deps.config.LINK_KEYS }),
  ]
}

const tagOf = (row: Pick<ListedMedia, 'id' | 'version'>) => `${row.id}:${row.version}`
