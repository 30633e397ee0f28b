import { call } from './api.js'
import { uuidOf } from './ids.js'

export const NAMELESS = 'Member without a name'

/**
 * Names of the members of a group, and with `event`, the path of one, of its guests. Comments name those whom they mention by
 * their ids alone. Guests themselves get no list of members.
 */
export function newNames({ org_id, isGuest }, event) {
  const names = new Map()
  const lists = [
    ...(isGuest ? [] : [{ path: `/api/organizations/${org_id}/members`, name: 'members' }]),
    ...(event ? [{ path: `${event}/participants`, name: 'participants' }] : []),
  ]
  let cursor
  let loading

  async function nextPage() {
    const query = new URLSearchParams({ limit: '500', ...(cursor && { cursor }) })
    const [{ path, name }] = lists
    const page = await call('GET', `${path}?${query}`)
    // Of who is only invited, the event gives no name.
    learn(name === 'members' ? page.members : page.participants.filter(({ status }) => status === 'accepted'))
    cursor = page.next_cursor
    if (!cursor) lists.shift()
  }

  function learn(people) {
    for (const { user_id, display_name } of people) names.set(uuidOf(user_id), display_name ?? NAMELESS)
  }

  async function load(ids) {
    while (lists.length > 0 && ids.some((id) => !names.has(id))) await nextPage()
  }

  return {
    learn,
    /** Resolves once all of them are known, or no list has them. One search at a time. */
    async need(ids) {
      while (loading) await loading
      loading = load(ids.map(uuidOf)).finally(() => {
        loading = undefined
      })
      await loading
    },
    of: (id) => names.get(uuidOf(id)) ?? 'a former member',
  }
}
