import type { SharedRow } from './queries.ts'
import type { Connection } from './user.ts'

/** One connection for each user. `rows` has the rows of a user next to each other. */
export function connectionsOf(rows: readonly SharedRow[]): Connection[] {
  const connections: Connection[] = []
  for (const { userId, displayName, orgId, orgName } of rows) {
    const shared = { org_id: orgId, org_name: orgName }
    const last = connections.at(-1)
    if (last?.user_id === userId) last.connected_via.push(shared)
    else connections.push({ user_id: userId, display_name: displayName, connected_via: [shared] })
  }
  return connections
}
