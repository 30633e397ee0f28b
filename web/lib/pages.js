import { call } from './api.js'
import { useRef, useState } from './html.js'
import { usePolled } from './poll.js'

/**
 * A list of the API, page by page and kept up to date: `{items, hasMore, more, isMore, first, error, reload, set, data}`.
 * `name` is the field of an answer that holds the items; `items` is undefined until the first answer. A look asks for as
 * many pages as are shown, so the list does not become shorter. `first` is the first answer, for what stands beside the
 * items. `set((items) => …)` shows what a change has made of the list. `path` may be undefined: nothing is asked.
 * `prepare(items)` may get what else has to be known before they are shown. `atFirst` says how many pages are shown before
 * `more` is called.
 */
export function usePages(path, name, { query = {}, every = 0, deps = [], prepare, atFirst = 1 } = {}) {
  const wanted = useRef(atFirst)
  const [isMore, setMore] = useState(false)
  const text = JSON.stringify(query)
  const about = useRef()
  const key = `${path}?${text}`
  if (about.current !== key) wanted.current = atFirst
  about.current = key
  const load = (cursor) => call('GET', `${path}?${new URLSearchParams({ ...query, ...(cursor && { cursor }) })}`)
  const look = async () => {
    if (!path) return undefined
    const pages = []
    do pages.push(await load(pages.at(-1)?.next_cursor))
    while (pages.length < wanted.current && pages.at(-1).has_more)
    const items = pages.flatMap((page) => page[name])
    await prepare?.(items)
    return { first: pages[0], items, hasMore: pages.at(-1).has_more }
  }
  const polled = usePolled(look, [key, ...deps], every)
  const more = async () => {
    wanted.current++
    setMore(true)
    await polled.reload()
    setMore(false)
  }
  const set = (change) => polled.set((data) => data && { ...data, items: change(data.items) })
  const { items, hasMore = false, first } = polled.data ?? {}
  return { ...polled, items, hasMore, first, more, isMore, set }
}
