import { call } from './client.js'
import { newFilmCards } from './film-card.js'

const PAGE = '100'
const BUSY_MS = 4000
const LOOK_MS = 30_000
const HIDDEN_MS = 60_000

/** The highlights of one album, within a section that is hidden while there are none. */
export function newHighlightShelf(section) {
  const cards = newFilmCards(section.querySelector('.film-cards'))
  let at
  let timer

  function open(org, albumId) {
    if (at?.org.org_id === org.org_id && at.albumId === albumId) return
    close()
    if (!albumId) return
    at = { org, albumId }
    void look()
  }

  function close() {
    clearTimeout(timer)
    at = undefined
    section.hidden = true
    cards.show([])
  }

  async function look() {
    clearTimeout(timer)
    const mine = at
    if (!mine) return
    const found = await highlightsOf(mine).catch(() => undefined)
    if (mine !== at) return
    if (found) {
      section.hidden = found.length === 0
      cards.show(found)
    }
    const isBusy = found?.some(({ status }) => status === 'processing')
    timer = setTimeout(look, document.hidden ? HIDDEN_MS : isBusy ? BUSY_MS : LOOK_MS)
  }

  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) void look()
  })
  return { open, close }
}

/** The newest of the album. */
async function highlightsOf({ org, albumId }) {
  const query = new URLSearchParams({ album_id: albumId, limit: PAGE })
  const { highlights } = await call('GET', `/api/media/${org.org_id}/highlights?${query}`)
  return highlights
}
