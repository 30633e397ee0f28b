import { link } from './client.js'
import { arrange, copyOf } from './dom.js'
import { itemsOf, lengthOf, progressOf, statusOf } from './highlight-words.js'
import { drawPlaceholder } from './picture.js'
import { linkToHighlight } from './views.js'
import { clock, hue } from './words.js'

/** Shows highlights as links to them, with their posters. Cards of those that stay are kept, so that pictures stay. */
export function newFilmCards(list) {
  const cards = new Map()
  const cardOf = (highlight) => {
    const card = cards.get(highlight.highlight_id) ?? newCard(highlight)
    cards.set(highlight.highlight_id, card)
    update(card, highlight)
    return card
  }
  return {
    show(highlights) {
      arrange(list, highlights.map(cardOf), (card) => cards.delete(card.dataset.highlight))
    },
  }
}

function newCard({ highlight_id: id }) {
  const card = copyOf('film-card')
  card.dataset.highlight = id
  card.querySelector('a').href = linkToHighlight(id)
  card.querySelector('.film-poster').style.setProperty('--hue', hue(id))
  const image = card.querySelector('.thumb')
  image.addEventListener('load', () => image.classList.add('loaded'))
  return card
}

function update(card, highlight) {
  const find = (part) => card.querySelector(part)
  card.dataset.status = highlight.status
  find('.name').textContent = highlight.title
  find('.facts').textContent = factsOf(highlight)
  find('.badge').textContent = highlight.duration_sec === null ? '' : clock(highlight.duration_sec)
  find('.badge-state').textContent = statusOf(highlight)
  find('.badge-state').hidden = highlight.status === 'completed'
  find('.meter').hidden = highlight.status !== 'processing'
  find('.meter span').style.width = `${highlight.progress?.percent ?? 0}%`
  find('.blur').hidden = !drawPlaceholder(find('.blur'), highlight.placeholder)
  const { image_thumb_url: thumb } = highlight.variants
  if (thumb && !find('.thumb').getAttribute('src')) find('.thumb').src = link(thumb)
}

const factsOf = (highlight) =>
  [
    highlight.status === 'processing' ? progressOf(highlight).text : itemsOf(highlight),
    highlight.status !== 'failed' && lengthOf(highlight),
  ]
    .filter(Boolean)
    .join(' · ')
