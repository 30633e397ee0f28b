import { call, patiently } from '../lib/api.js'

const PAGE = 100

/**
 * Loads pages of a library into a timeline until the media item at a place is known. One walk at a time; the last place
 * asked for wins. `onPage` is called after each page.
 */
export function newLoader({ org_id }, timeline, onPage) {
  let wanted
  let walking
  let isEnded = false

  function pageFrom(cursor) {
    const query = new URLSearchParams({ limit: PAGE, sort: 'captured_at', ...(cursor && { cursor }) })
    return call('GET', `/api/media/${org_id}?${query}`)
  }

  function restart(error) {
    if (error.code !== 'INVALID_CURSOR') throw error
    timeline.restart()
  }

  async function walk() {
    for (let tried = 0; !isEnded; ) {
      const { month, index } = wanted
      const start = timeline.startFor(month, index)
      if (!start) return
      try {
        const page = await patiently(() => pageFrom(start.cursor))
        if (isEnded) return
        timeline.receive(start, page)
        tried = 0
        onPage()
      } catch (error) {
        if (tried++ > 0) throw error
        restart(error)
      }
    }
  }

  return {
    load(place) {
      wanted = place
      walking ??= walk().finally(() => {
        walking = undefined
      })
      return walking
    },
    end() {
      isEnded = true
    },
  }
}
