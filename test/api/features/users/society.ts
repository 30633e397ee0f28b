import { membershipOf, type Organization, type Part, type Society, type User } from '../../../support/society.ts'
import { storedBy } from '../media/society.ts'

const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1)
const shared = (society: Society, user: User, other: User): Organization[] =>
  society.organizations
    .filter((one) => membershipOf(society, user, one) && membershipOf(society, other, one))
    .toSorted(byId)

/** Users know each other by the organizations that they share. */
function connection(society: Society, user: User, other: User) {
  const via = shared(society, user, other).map(({ id, name }) => ({ org_id: id, org_name: name }))
  if (via.length === 0 && user !== other) return undefined
  return { user_id: other.id, display_name: other.name, connected_via: via }
}

export const part: Part = {
  ask(society, who) {
    const others = society.users.filter((other) => other !== who).toSorted(byId)
    const connected = others.flatMap((other) => connection(society, who, other) ?? [])
    const me = {
      ...{ user_id: who.wireId, display_name: who.name, email: who.email },
      storage: { used_bytes: storedBy(society, who) },
      organizations: shared(society, who, who).map((one) => ({
        ...{ org_id: one.wireId, name: one.name, role: membershipOf(society, who, one)?.role },
      })),
    }
    return [
      { route: 'getMe', want: me },
      {
        route: 'listConnectedMembers',
        list: 'members',
        want: { members: connected, total_count: connected.length },
      },
      ...society.users.map((other) => ({
        ...{ route: 'getConnections', params: { user_id: other.id }, want: connection(society, who, other) },
      })),
    ]
  },
}
