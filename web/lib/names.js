import { call } from './api.js'
import { uuidOf } from './ids.js'

export const NAMELESS = 'Member without a name'

/** Names of the members of a group. Comments name those whom they mention by their ids alone. */
export function newNames({ org_id }) {
  const names = new Map()
  let cursor
  let isWhole = false
  let loading

  async function nextPage() {
    const query = new URLSearchParams({ limit: '500', ...(cursor && { cursor }) })
    const { members, next_cursor } = await call('GET', `/api/organizations/${org_id}/members?${query}`)
    learn(members)
    cursor = next_cursor
    isWhole = !next_cursor
  }

  function learn(members) {
    for (const { user_id, display_name } of members) names.set(uuidOf(user_id), display_name ?? NAMELESS)
  }

  async function load(ids) {
    while (!isWhole && ids.some((id) => !names.has(id))) await nextPage()
  }

  return {
    learn,
    /** Resolves once all of them are known, or no member of the group has them. One search at a time. */
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
