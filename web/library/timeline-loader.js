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

  async function walk() {
    for (let tried = 0; !isEnded; ) {
      const { month, index } = wanted
      const start = timeline.startFor(month, index)
      if (!start) return
      const query = new URLSearchParams({ limit: PAGE, sort: 'captured_at', ...(start.cursor && { cursor: start.cursor }) })
      try {
        const page = await patiently(() => call('GET', `/api/media/${org_id}?${query}`))
        if (isEnded) return
        timeline.receive(start, page)
        tried = 0
        onPage()
      } catch (error) {
        if (error.code !== 'INVALID_CURSOR' || tried++ > 0) throw error
        timeline.restart()
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
