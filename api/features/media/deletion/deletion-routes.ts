import * as z from 'zod'
import type { ApiDeps } from '../../../deps.ts'
import { inOrganization } from '../../../http/in-organization.ts'
import { type Route, renewed } from '../../../http/route.ts'
import type { Now } from '../../../permissions/permit.ts'
import { listOf, outputTime, pageQuery, pathId, timestamp } from '../../../requests/schemas.ts'
import { Media } from '../media.ts'
import { mediaActions, VISIBLE } from '../policy.ts'
import { toMedia, withNewLinks } from '../present.ts'
import { variantKeys } from '../variants.ts'
import { deleteMedia, restoreMedia, whilePaired } from './commands.ts'
import { listTrash, type TrashedRow } from './queries.ts'

const InOrg = z.object({ org_id: pathId('organization') })
const OneMedia = InOrg.extend({ media_id: pathId('media') })
const tags = ['Storage']

const TrashedMedia = Media.extend({
  deleted_at: outputTime(),
  purge_at: outputTime().nullable().meta({
    description: 'Until then the media item can be restored; it is purged soon after. Null: it is not purged',
  }),
  thumbnail_url: z.string().nullable().meta({
    description:
      'What `variants.image_thumb_url` is otherwise: the one link that works while the media item is in the trash. For those who may restore it; null for others, and where there is no thumbnail',
  }),
}).meta({ id: 'TrashedMedia', description: 'A deleted media item. Its other links work again when it is restored' })

export function deletionRoutes(deps: ApiDeps): Route[] {
  const { links } = deps
  const { read, steps } = inOrganization(deps)
  const toTrashed = (row: TrashedRow, now: Now): z.input<typeof TrashedMedia> => {
    const deletion = { ...VISIBLE, deletedAt: new Date(row.deletedAt), deletedBy: row.deletedBy }
    const shown = toMedia(row, { links, now }, deletion)
    const thumb = shown.can.includes(mediaActions.restore.name) ? variantKeys(row).image_thumb_url : null
    return {
      ...shown,
      deleted_at: `${row.deletedAt.slice(0, 23)}Z`,
      purge_at: timestamp(row.purgeAt),
      thumbnail_url: thumb && links.trashed(thumb),
    }
  }
  return [
    read({
      method: 'get',
      path: '/api/media/{org_id}/trash',
      operationId: 'listTrash',
      tags,
      summary: 'List deleted media items that can be restored, the latest deletion first',
      description:
        'Members see what they have uploaded or deleted; owners and administrators of the organization see everything. An uploader cannot restore what an administrator has deleted. A Live Photo appears once, as its image.',
      action: mediaActions.listTrash,
      params: InOrg,
      query: pageQuery({ default: 20, max: 100 }),
      response: listOf('media', TrashedMedia),
      async handle({ tx, orgId, actor, member, can, now, page }) {
        await member
        const of = can(mediaActions.listAllTrash, undefined) ? undefined : actor.userId
        return page(
          'media',
          (wanted) => listTrash(tx, { orgId, of, ...wanted }),
          (row) => toTrashed(row, now),
          (row) => row.deletedAt,
        )
      },
    }),
    steps({
      method: 'delete',
      path: '/api/media/{org_id}/{media_id}',
      operationId: 'deleteMedia',
      tags,
      summary: 'Delete a media item',
      description:
        'The media item and its links stop working at once for all members, and it stays in the trash for 30 days; then it is purged. It counts against the uploader’s storage until then. Deleting either half of a Live Photo deletes both. Deleting it again succeeds.',
      action: mediaActions.delete,
      params: OneMedia,
      status: 204,
      handle: ({ answer, params }) => whilePaired(() => answer((request) => deleteMedia(request, params.media_id))),
    }),
    renewed(
      steps({
        method: 'post',
        path: '/api/media/{org_id}/{media_id}/restore',
        operationId: 'restoreMedia',
        tags,
        summary: 'Restore a deleted media item',
        description:
          'Within 30 days, by the user who deleted it or by an owner or administrator of the organization; later the answer is `RESTORE_WINDOW_EXPIRED`. Restoring either half of a Live Photo restores both. A half whose counterpart has been uploaded meanwhile is paired with it. Restoring what is not deleted changes nothing.',
        problems: ['RESTORE_WINDOW_EXPIRED'],
        action: mediaActions.restore,
        params: OneMedia,
        status: 200,
        response: Media,
        handle: ({ answer, params }) =>
          whilePaired(() =>
            answer(async (request) =>
              toMedia(await restoreMedia(request, params.media_id), { links, now: request.now }),
            ),
          ),
      }),
      (shown: Media) => withNewLinks(shown, links),
    ),
  ]
}
