/** What the page knows of a feed or a timeline. No browser is needed here. */

const PAGE = 20
const MAX_PAGE = 100

const idsOf = (items) => new Set(items.map((item) => item.timeline_item_id))

/**
 * The items that are known, newest first, with what a look from the top has found: `{items, added, isReset}`. Items that
 * the look should have found and did not are gone; those below it stay. `added` counts what is new above everything known.
 * `isReset`: so much is new that what was known does not follow on it.
 */
export function merged(known, page) {
  const found = idsOf(page.items)
  const last = known.findLastIndex((item) => found.has(item.timeline_item_id))
  const before = idsOf(known)
  const firstKnown = page.items.findIndex((item) => before.has(item.timeline_item_id))
  const added = known.length === 0 ? 0 : firstKnown < 0 ? page.items.length : firstKnown
  const isReset = last < 0 && known.length > 0
  const rest = page.has_more && !isReset ? known.slice(last + 1) : []
  return { items: [...page.items, ...rest], added, isReset, hasRest: rest.length > 0 }
}

/** Resolves with undefined where the cursor is too old: it is good for a day. */
const orUndefined = (page) =>
  page.catch((error) => {
    if (error.code !== 'INVALID_CURSOR') throw error
  })

/**
 * A list of timeline items that grows at both ends. `load({limit, cursor})` asks for a page. One request at a time, so that
 * a page and a look do not miss each other.
 */
export function newFeed(load) {
  let known = []
  let cursor
  let hasMore = false
  let turn = Promise.resolve()
  const inTurn = (work) => {
    turn = turn.then(work, work)
    return turn
  }
  const shown = (added) => ({ items: known, hasMore, added })

  /** The newest items, as many as are known and at most 100: what is further down is looked at when it is loaded anew. */
  async function look() {
    const limit = Math.min(MAX_PAGE, Math.max(PAGE, known.length))
    const page = await load({ limit })
    const { items, added, hasRest } = merged(known, page)
    known = items
    if (!hasRest) {
      cursor = page.next_cursor
      hasMore = page.has_more
    }
    return shown(added)
  }

  /** From the top until behind the last item that is known. */
  async function again() {
    const oldest = known.at(-1)
    const items = []
    let page
    do {
      page = await load({ limit: MAX_PAGE, ...(page && { cursor: page.next_cursor }) })
      items.push(...page.items)
    } while (oldest && page.has_more && !items.some((item) => item.created_at < oldest.created_at))
    known = [...new Map(items.map((item) => [item.timeline_item_id, item])).values()]
    cursor = page.next_cursor
    hasMore = page.has_more
    return shown(0)
  }

  async function more() {
    if (!hasMore) return shown(0)
    const page = await orUndefined(load({ limit: PAGE, cursor }))
    if (!page) return again()
    const there = idsOf(known)
    known = [...known, ...page.items.filter((item) => !there.has(item.timeline_item_id))]
    cursor = page.next_cursor
    hasMore = page.has_more
    return shown(0)
  }

  return { look: () => inTurn(look), more: () => inTurn(more) }
}
