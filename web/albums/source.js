import { patiently } from '../lib/api.js'
import { newPager } from './pager.js'

const PAGE = '100'

/** The items of an album, in its order, for the picker to choose from. */
export const albumSource = (album) => (org, onPage) => {
  const pager = newPager(`/api/orgs/${org.org_id}/albums/${album.album_id}/media`, 'media', { limit: PAGE })
  /** States that are newer than those of the pages. */
  const fresh = new Map()
  const items = () => pager.items().map((m) => fresh.get(m.media_id) ?? m)
  let loading
  return {
    begin: () => pager.again(),
    months() {
      const found = items()
      if (found.length === 0) return []
      const places = pager.hasMore() ? Math.max(album.media_count, found.length + 1) : found.length
      return [{ month: album.album_id, title: album.title, count: places, places, items: found }]
    },
    find: (id) => items().find((m) => m.media_id === id),
    put: (m) => void fresh.set(m.media_id, m),
    load() {
      loading ??= patiently(() => pager.more())
        .then(onPage)
        .finally(() => {
          loading = undefined
        })
      return loading
    },
    end() {},
  }
}
