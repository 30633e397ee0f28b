import * as z from 'zod'
import type { ApiDeps } from '../../deps.ts'
import { type Route, route } from '../../http/route.ts'
import { EXAMPLE_ID, exampleId, pageQuery, pathUser } from '../../requests/schemas.ts'
import { listConnected, quotasOf, showConnections, showMe } from './commands.ts'
import { userActions } from './policy.ts'
import { ConnectedMembers, Connection, Me } from './user.ts'

const example: z.output<typeof Me> = {
  user_id: exampleId('user'),
  display_name: 'Ann',
  email: 'ann@example.org',
  organizations: [
    {
      org_id: exampleId('organization'),
      name: 'Class of 1994',
      role: 'member',
      joined_at: '2026-11-21T09:30:00.000Z',
    },
  ],
  storage: { used_bytes: 3_221_225_472, quota_bytes: 214_748_364_800 },
  platform_admin: false,
}

const connection: Connection = {
  user_id: EXAMPLE_ID,
  display_name: 'Ben',
  connected_via: [{ org_id: EXAMPLE_ID, org_name: 'Class of 1994' }],
}

export const userRoutes = ({ db, cursors, config }: ApiDeps): Route[] => [
  route({
    method: 'get',
    path: '/api/users/me',
    operationId: 'getMe',
    tags: ['Users'],
    summary: 'Show the caller’s own account',
    description:
      'An app calls this first. The answer shows the signed-in user, their organizations with the role in each, and how much of their storage is used. The list is empty for a user who belongs to no organization yet.',
    action: userActions.readSelf,
    problems: ['NOT_FOUND'],
    status: 200,
    response: Me,
    examples: { response: example },
    handle: async ({ actor }) => ({ data: await showMe(db, quotasOf(config), actor) }),
  }),
  route({
    method: 'get',
    path: '/api/users/me/connected-members',
    operationId: 'listConnectedMembers',
    tags: ['Users'],
    summary: 'List all users with whom the caller shares an organization',
    description:
      'Each user once, with all organizations that they share with the caller, in order of `user_id`. Ids are bare UUIDs, which every operation accepts.',
    action: userActions.listConnected,
    query: pageQuery({ default: 100, max: 500 }),
    status: 200,
    response: ConnectedMembers,
    examples: { response: { members: [connection], total_count: 1, next_cursor: null, has_more: false } },
    handle: async ({ actor, query }) => ({ data: await listConnected({ db, cursors }, actor, query) }),
  }),
  route({
    method: 'get',
    path: '/api/users/{user_id}/connections',
    operationId: 'getConnections',
    tags: ['Users'],
    summary: 'Show the organizations that connect the caller with a user',
    description:
      'Only organizations that have both as members. A user without a common organization is `NOT_FOUND`, as an unknown one. For `me`, all organizations of the caller. Ids are bare UUIDs, which every operation accepts.',
    action: userActions.readConnections,
    params: z.object({ user_id: pathUser() }),
    status: 200,
    response: Connection,
    examples: { response: connection },
    handle: async ({ actor, params }) => ({ data: await showConnections(db, actor, params.user_id(actor)) }),
  }),
]
