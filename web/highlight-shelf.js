import { HighlightShelf } from './highlights/shelf.js'
import { html, render } from './lib/html.js'

/** The highlights of one album, within an element of a view that is not a component yet. */
export function newHighlightShelf(host) {
  const level = Number(host.dataset.level)
  const draw = (org, album) =>
    render(album ? html`<${HighlightShelf} key=${album} org=${org} query=${{ album_id: album }} level=${level} />` : null, host)
  return { open: draw, close: () => draw() }
}
