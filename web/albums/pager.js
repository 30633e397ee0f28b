import { call } from '../lib/api.js'

/**
 * A list of the API, page by page. `again` loads as many pages as were shown, so that a list can be brought up to date
 * without becoming shorter.
 */
export function newPager(path, name, query = {}) {
  let pages = []
  /** Counts the loads: of an old and a new state of the list, the new one stays. */
  let turn = 0
  const last = () => pages.at(-1)
  const load = (cursor) => call('GET', `${path}?${new URLSearchParams({ ...query, ...(cursor && { cursor }) })}`)
  async function reread(count) {
    const mine = ++turn
    const fresh = []
    do fresh.push(await load(fresh.at(-1)?.next_cursor))
    while (fresh.length < count && fresh.at(-1).has_more)
    if (mine === turn) pages = fresh
    return mine === turn
  }
  return {
    items: () => pages.flatMap((page) => page[name]),
    hasMore: () => last()?.has_more ?? false,
    async more() {
      turn++
      try {
        const page = await load(last()?.next_cursor)
        pages = [...pages, page]
      } catch (error) {
        // A cursor is good for a day.
        if (error.code !== 'INVALID_CURSOR') throw error
        await reread(pages.length + 1)
      }
    },
    /** Returns whether it is the newest load, which stays. */
    again: () => reread(pages.length),
  }
}
