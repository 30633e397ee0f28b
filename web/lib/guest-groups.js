import { call } from './api.js'

/** The groups that the person is no member of, but of whose events a guest: `{org_id, name, isGuest}`. */
export async function guestGroups() {
  const groups = new Map()
  let cursor
  do {
    const query = new URLSearchParams({ as_guest: 'true', limit: '100', ...(cursor && { cursor }) })
    const { events, next_cursor } = await call('GET', `/api/users/me/events?${query}`)
    for (const { org_id, org_name: name } of events) groups.set(org_id, { org_id, name, isGuest: true })
    cursor = next_cursor
  } while (cursor)
  return [...groups.values()]
}
