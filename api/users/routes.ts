import { formatId } from '../../lib/contract/ids.ts'
import type { ApiDeps } from '../deps.ts'
import { type Route, route } from '../http/route.ts'
import { quotasOf, showMe } from './commands.ts'
import { Me } from './user.ts'

const EXAMPLE_ID = '01932c07-209c-7c3e-8a5a-3f1d2b4c5d6e'
const example: Me = {
  user_id: formatId('user', EXAMPLE_ID),
  display_name: 'Ann',
  email: 'ann@example.org',
  organizations: [
    {
      org_id: formatId('organization', EXAMPLE_ID),
      name: 'Class of 1994',
      role: 'member',
      joined_at: '2026-11-21T09:30:00.000Z',
    },
  ],
  storage: { used_bytes: 3_221_225_472, quota_bytes: 214_748_364_800 },
}

export const userRoutes = ({ db, config }: ApiDeps): Route[] => [
  route({
    method: 'get',
    path: '/api/users/me',
    operationId: 'getMe',
    tags: ['Users'],
    summary: 'Show the caller’s own account',
    description:
      'An app calls this first. The answer shows the signed-in user, their organizations with the role in each, and how much of their storage is used. The list is empty for a user who belongs to no organization yet.',
    action: 'user.read_self',
    problems: ['NOT_FOUND'],
    status: 200,
    response: Me,
    examples: { response: example },
    handle: async ({ actor }) => ({ data: await showMe(db, quotasOf(config), actor.userId) }),
  }),
]
