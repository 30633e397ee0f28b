import {
  isMember,
  latestFirst,
  type Organization,
  type Part,
  type Society,
  type User,
} from '../../../support/society.ts'

/** Members know each other. */
function members(society: Society, who: User, organization: Organization, isWanted = (_: User) => true) {
  if (!isMember(society, who, organization)) return undefined
  const present = society.members.filter((one) => one.organization === organization && !one.hasLeft)
  const listed = latestFirst(present.map(({ user, role }) => ({ id: user.id, user, role })))
    .filter(({ user }) => isWanted(user))
    .map(({ user, role }) => ({ user_id: user.id, display_name: user.name, role }))
  return { org_id: organization.id, org_name: organization.name, members: listed, total_count: listed.length }
}

export const part: Part = {
  ask: (society, who) =>
    society.organizations.flatMap((organization) => {
      const ask = (query: Record<string, string>, isWanted?: (user: User) => boolean) => ({
        ...{ route: 'listMembers', list: 'members', params: { org_id: organization.id }, query },
        want: members(society, who, organization, isWanted),
      })
      const someone = society.users.at(-1)
      return [
        {
          ...{ route: 'getOrganization', params: { org_id: organization.id } },
          want: isMember(society, who, organization)
            ? { org_id: organization.id, name: organization.name, event_retention_years: null }
            : undefined,
        },
        ask({}),
        ask({ query: 'name' }),
        ask({ query: someone?.name ?? '' }, (user) => user === someone),
        ask({ joined_year: '2024' }),
        ask({ joined_year: '2023' }, () => false),
      ]
    }),
}
