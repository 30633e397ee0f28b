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
  return {
    items: () => pages.flatMap((page) => page[name]),
    hasMore: () => last()?.has_more ?? false,
    async more() {
      turn++
      const page = await load(last()?.next_cursor)
      pages = [...pages, page]
    },
    /** Returns whether it is the newest load, which stays. */
    async again() {
      const mine = ++turn
      const fresh = []
      do fresh.push(await load(fresh.at(-1)?.next_cursor))
      while (fresh.length < pages.length && fresh.at(-1).has_more)
      if (mine === turn) pages = fresh
      return mine === turn
    },
  }
}
