import * as z from 'zod'
import type { ApiDeps } from '../../deps.ts'
import { inOrganization } from '../../http/in-organization.ts'
import type { Route } from '../../http/route.ts'
import { found } from '../../requests/found.ts'
import type { PageWanted } from '../../requests/page.ts'
import { EXAMPLE_ID, pageQuery, pathId, pathUser, text, wholeNumber } from '../../requests/schemas.ts'
import { type AboveOrganizations, changeMember, changeOrganization, removeMember } from './commands.ts'
import { Member, MemberList, RoleName, toMember } from './member.ts'
import { Organization, UpdateOrganization } from './organization.ts'
import { memberActions, organizationActions } from './policy.ts'
import {
  countMembers,
  findOrganization,
  findOrganizationName,
  listMembers,
  type OrganizationRow,
  searchMembers,
} from './queries.ts'
import { MAX_EVENT_RETENTION_YEARS } from './retention-plan.ts'

const InOrg = z.object({ org_id: pathId('organization') })
const OneMember = InOrg.extend({ user_id: pathUser() })
const tags = ['Organizations']

const example: z.input<typeof Member> = {
  user_id: EXAMPLE_ID,
  display_name: 'Ann',
  joined_at: '2026-11-21',
  role: 'admin',
  can: ['member.change_role', 'member.remove'],
}

const ORGANIZATION: z.input<typeof Organization> = {
  org_id: EXAMPLE_ID,
  name: 'Class of 1994',
  event_retention_years: 20,
}
const toOrganization = ({ id, name, eventRetentionYears }: OrganizationRow): z.input<typeof Organization> => ({
  org_id: id,
  name,
  event_retention_years: eventRetentionYears,
})

export function organizationRoutes(deps: ApiDeps, above: AboveOrganizations): Route[] {
  const { read, write } = inOrganization(deps)
  return [
    read({
      method: 'get',
      path: '/api/organizations/{org_id}',
      operationId: 'getOrganization',
      tags,
      summary: 'Show the settings of an organization',
      description: 'An addition to the interface specification. For members.',
      action: organizationActions.read,
      params: InOrg,
      response: Organization,
      examples: { response: ORGANIZATION },
      async handle({ tx, orgId, member }) {
        await member
        return toOrganization(found(await findOrganization(tx, orgId)))
      },
    }),
    write({
      method: 'patch',
      path: '/api/organizations/{org_id}',
      operationId: 'updateOrganization',
      tags,
      summary: 'Change how long an organization keeps archived events',
      description: `An addition to the interface specification. For owners of the organization. At most ${MAX_EVENT_RETENTION_YEARS} years, and longer than the installation keeps archived events; null follows the installation. \`purge_at\` of archived events follows at once. A shorter time than before purges no event before its owner was told.`,
      action: organizationActions.update,
      params: InOrg,
      body: UpdateOrganization,
      status: 200,
      response: Organization,
      examples: { request: { event_retention_years: 20 }, response: ORGANIZATION },
      handle: async (request) => toOrganization(await changeOrganization(request, request.body.event_retention_years)),
    }),
    read({
      method: 'get',
      path: '/api/organizations/{org_id}/members',
      operationId: 'listMembers',
      tags,
      summary: 'List the members of an organization, the latest to join first',
      description:
        'For members only. Ids are bare UUIDs, which every operation accepts. With filters, `total_count` counts what matches them.',
      action: memberActions.list,
      params: InOrg,
      query: pageQuery({ default: 100, max: 500 }).extend({
        query: text(1, 100).optional().meta({
          description: 'Part of the display name, in upper or lower case. Has no wildcards',
          example: 'ann',
        }),
        joined_year: wholeNumber(1900, 2200)
          .optional()
          .meta({ description: 'The year in which the member joined, in UTC', example: 2026 }),
      }),
      response: MemberList,
      examples: {
        response: {
          org_id: EXAMPLE_ID,
          org_name: 'Class of 1994',
          members: [example],
          total_count: 1,
          next_cursor: null,
          has_more: false,
        },
      },
      async handle({ tx, orgId, query, now, page }) {
        const filter = { orgId, joinedYear: query.joined_year }
        const text = query.query
        let searched = 0
        const list = async (wanted: PageWanted) => {
          if (text === undefined) return listMembers(tx, { ...filter, ...wanted })
          const { members, total } = await searchMembers(tx, { ...filter, query: text, ...wanted })
          searched = total
          return members
        }
        const [name, counted, members] = await Promise.all([
          findOrganizationName(tx, orgId),
          text === undefined ? countMembers(tx, filter) : undefined,
          page('members', list, (row) => toMember(row, now)),
        ])
        return { org_id: orgId, org_name: found(name), ...members, total_count: counted ?? searched }
      },
    }),
    write({
      method: 'patch',
      path: '/api/organizations/{org_id}/members/{user_id}',
      operationId: 'changeMember',
      tags,
      summary: 'Change the role of a member',
      description:
        'An addition to the interface specification. Owners and administrators change roles, also their own; an administrator cannot change an owner, or make one. It takes effect with the next request of the member. An organization always has an owner: without another one, changing the role of the owner is a `CONFLICT`.',
      action: memberActions.changeRole,
      problems: ['CONFLICT'],
      params: OneMember,
      body: z.object({ role: RoleName }),
      status: 200,
      response: Member,
      examples: { request: { role: 'admin' }, response: example },
      handle: async (request) => {
        const userId = request.params.user_id(request.actor)
        return toMember(await changeMember(request, { userId, role: request.body.role }), request.now)
      },
    }),
    write({
      method: 'delete',
      path: '/api/organizations/{org_id}/members/{user_id}',
      operationId: 'removeMember',
      tags,
      summary: 'Remove a member, or leave',
      description:
        'An addition to the interface specification. Every member leaves with `me` or their own id; owners and administrators remove others, but an administrator no owner. The membership ends with the next request of the user, and so does what they take part in; what they have uploaded stays, and no longer counts in their storage. Their open uploads are aborted. Removing a member revokes the pending invitations to them, by user id or by the verified e-mail address of their account; leaving does not. The last owner cannot leave: `CONFLICT`.',
      action: memberActions.remove,
      problems: ['CONFLICT'],
      params: OneMember,
      status: 204,
      handle: (request) => removeMember(request, request.params.user_id(request.actor), above),
    }),
  ]
}
