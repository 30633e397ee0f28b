import type { IncomingHttpHeaders } from 'node:http'
import * as z from 'zod'
import type { ApiDeps } from '../../deps.ts'
import { inOrganization } from '../../http/in-organization.ts'
import { type Route, route } from '../../http/route.ts'
import { EXAMPLE_ID, exampleId, pathId, pathUser } from '../../requests/schemas.ts'
import { pageOfItems, versionedPage } from './pages.ts'
import { timelineActions } from './policy.ts'
import { TimelineItems, timelineQuery } from './timeline-item.ts'

const example: z.output<typeof TimelineItems> = {
  items: [
    {
      timeline_item_id: exampleId('timelineItem'),
      org_id: exampleId('organization'),
      type: 'media_uploaded',
      actor_id: exampleId('user'),
      actor_name: 'Mira',
      ref_type: 'media',
      ref_id: exampleId('media'),
      event_id: null,
      album_id: null,
      title: null,
      summary: 'Mira added 5,000 photos',
      count: 5000,
      media: [
        {
          media_id: exampleId('media'),
          kind: 'image',
          image_thumb_url: `https://keepsake.example/api/files/${EXAMPLE_ID}`,
          image_webp_url: null,
          placeholder: null,
        },
      ],
      created_at: '2026-11-21T09:30:00.000Z',
    },
  ],
  next_cursor: null,
  has_more: false,
}

const ABOUT =
  'Newest first. An item that counts many uploads grows and keeps its place. Items about what the caller may not see are left out; after very many of them in a row, a page can be shorter than `limit` while `has_more` is true.'
const POLLED = ' A poll with `If-None-Match` costs little while nothing has changed.'

const hasTag = (headers: IncomingHttpHeaders) => ({ hasTag: headers['if-none-match'] !== undefined })

export function timelineRoutes(deps: ApiDeps): Route[] {
  const { read } = inOrganization(deps)
  return [
    route({
      method: 'get',
      path: '/api/users/me/feed',
      operationId: 'getFeed',
      tags: ['Timeline'],
      summary: 'Show what happened in all organizations of the caller',
      description: ABOUT + POLLED,
      action: timelineActions.readFeed,
      query: timelineQuery(),
      status: 200,
      response: TimelineItems,
      examples: { response: example },
      handle: ({ actor, query, headers }) =>
        versionedPage(deps, { source: { of: 'feed' }, callerId: actor.userId, query }, hasTag(headers)),
    }),
    route({
      method: 'get',
      path: '/api/users/{user_id}/timeline',
      operationId: 'getUserTimeline',
      tags: ['Timeline'],
      summary: 'Show what a user did',
      description: `${ABOUT}${POLLED} Only in organizations that the caller shares with the user; a user without a common organization is \`NOT_FOUND\`, as an unknown one.`,
      action: timelineActions.readUser,
      params: z.object({ user_id: pathUser() }),
      query: timelineQuery(),
      status: 200,
      response: TimelineItems,
      examples: { response: example },
      handle: ({ actor, params, query, headers }) =>
        versionedPage(
          deps,
          { source: { of: 'user', userId: params.user_id(actor) }, callerId: actor.userId, query },
          hasTag(headers),
        ),
    }),
    read({
      method: 'get',
      path: '/api/orgs/{org_id}/timeline',
      operationId: 'getOrganizationTimeline',
      tags: ['Timeline'],
      summary: 'Show what happened in an organization',
      description: ABOUT,
      action: timelineActions.readOrganization,
      params: z.object({ org_id: pathId('organization') }),
      query: timelineQuery(),
      response: TimelineItems,
      examples: { response: example },
      handle: ({ tx, orgId, actor, query, member }) =>
        member.then(() =>
          pageOfItems(tx, deps, { source: { of: 'organization', orgId }, callerId: actor.userId, query }),
        ),
    }),
  ]
}
