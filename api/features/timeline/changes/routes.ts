import * as z from 'zod'
import type { ApiDeps } from '../../../deps.ts'
import { eventStream, type Route } from '../../../http/route.ts'
import { text } from '../../../requests/schemas.ts'
import { type ChangesHub, openHub } from './hub.ts'
import { changesActions } from './policy.ts'
import { positions } from './position.ts'

const EVENTS = `Server-sent events (HTML Living Standard §9.2), which tell that something changed and never what:

- \`changed\`, data \`{"org_ids": ["org_…"]}\`: the feed or the timeline of these organizations changed. At most four a
  second.
- \`reset\`, data \`{}\`: the position in \`Last-Event-ID\` is unknown or too old, or an organization was left. Read the
  first page of everything anew.
- \`bye\`, data \`{"reason": "…"}\`: the server ends the stream. Connect again after \`retry\` milliseconds; after
  \`expired\` and \`revoked\` with a new token.
- \`replaced\`, data \`{}\`: a newer stream of the same device, or the sixth of the user, has taken the place of this one.
  Do not connect again by yourself.

Clients ignore events with other names. A comment (\`:\`) comes every 15 seconds while nothing changes.`

const Query = z.object({
  device_id: text(1, 64).optional().meta({
    description: 'A name that the device gave itself. Its earlier stream is replaced.',
    example: 'phone-7f3a',
  }),
})

const Headers = z.object({
  'Last-Event-ID': z.string().optional().meta({
    description:
      'The last `id` that the client received: what changed since comes at once. Without it the stream starts now.',
    example: 'AWka5xDmMDLNaZ0CBvD7f0ZtnIQ',
  }),
})

export function changesRoutes(deps: ApiDeps): Route[] {
  let hub: ChangesHub | undefined
  const open = () => {
    const { config, clock } = deps
    hub ??= openHub({ ...deps, positions: positions(config.CURSOR_KEY, () => clock.now().getTime() / 1000) })
    return hub
  }
  return [
    eventStream({
      path: '/api/users/me/feed/changes',
      operationId: 'followFeed',
      tags: ['Timeline'],
      summary: 'Follow changes of the feed',
      description: `For apps that are open. Then read the feed and the timelines concerned, with \`If-None-Match\`. A
stream ends after a quarter of an hour, with its token, and with a membership; a user has up to five. Connect with the
\`id\` of the last event in \`Last-Event-ID\`, and nothing is missed. 503 with \`Retry-After\` while this server has too many
streams.`.replaceAll('\n', ' '),
      action: changesActions.follow,
      limit: 'changes',
      query: Query,
      headers: Headers,
      events: EVENTS,
      handle: ({ actor, query, headers }) =>
        open().follow(actor.userId, { since: headers['last-event-id'] as string | undefined, device: query.device_id }),
    }),
  ]
}
