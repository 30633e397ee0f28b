import { link } from './client.js'
import { announce, copyOf } from './dom.js'
import { describe, detailsOf, isPlayable, kindOf, knownDuration, nameOf, stateOf } from './item.js'
import { playOnHover } from './live-photo.js'
import { drawPlaceholder } from './picture.js'
import { clock, day, hue } from './words.js'

const KINDS = { photo: 'Photo', live: 'Live Photo', video: 'Video' }

/** A tile of the grid. `does`: {open(id), remove(id), canRemove(m), refresh(m), find(id)}, and mark(tile, m) for more. */
export function newTile(m, does) {
  const tile = copyOf('tile')
  const id = m.media_id
  tile.dataset.media = id
  const [frame, image, remove] = ['.frame', '.thumb', '.remove'].map((s) => tile.querySelector(s))
  frame.style.setProperty('--hue', hue(id))
  frame.addEventListener('click', () => does.open(id))
  remove.addEventListener('click', () => does.remove(id))
  image.addEventListener('load', () => image.classList.add('loaded'))
  image.addEventListener('error', () => {
    // The link has expired, or the media item was deleted. Once, so that a broken picture is not asked for again and again.
    if (!image.getAttribute('src') || image.dataset.again) return
    image.dataset.again = 'yes'
    image.removeAttribute('src')
    void does.refresh(m)
  })
  playOnHover(tile, frame, () => does.find(id), does.refresh)
  return tile
}

export function updateTile(tile, m, does) {
  const [before, state, kind] = [tile.dataset.state, stateOf(m), kindOf(m)]
  tile.dataset.state = state
  tile.dataset.kind = kind
  tile.querySelector('.meter span').style.width = `${m.conversion_progress?.percent ?? 0}%`
  tile.querySelector('.remove').hidden = !does.canRemove(m)
  tile.querySelector('.remove').ariaLabel = `Delete ${nameOf(m)}`
  const canvas = tile.querySelector('.blur')
  canvas.hidden = !drawPlaceholder(canvas, m.placeholder)
  const image = tile.querySelector('.thumb')
  if (m.variants.image_thumb_url && !image.getAttribute('src')) image.src = link(m.variants.image_thumb_url)
  say(tile, m)
  does.mark?.(tile, m)
  if (kind === 'video' && state === 'completed') void showDuration(tile, m)
  if (state === 'failed' && before !== 'failed') void detailsOf(m).then(() => say(tile, m), () => {})
  if (before && before !== state) {
    const news = { playable: 'can be played', completed: 'is ready', failed: 'could not be converted' }
    announce(`${nameOf(m)} ${news[state] ?? ''}`)
  }
}

/** Ends the loading of pictures that scrolled out of sight. */
export function releaseTile(tile) {
  tile.querySelector('.thumb').removeAttribute('src')
  tile.dispatchEvent(new PointerEvent('pointerleave'))
}

function say(tile, m) {
  const text = describe(m)
  const duration = knownDuration(m)
  const long = duration === undefined ? '' : clock(duration)
  tile.querySelector('.state').textContent = text
  tile.querySelector('.badge').textContent = { live: 'Live', video: long }[kindOf(m)] ?? ''
  const kind = isPlayable(m) ? 'Play' : KINDS[kindOf(m)]
  const when = day(m.captured_at ?? m.created_at)
  tile.querySelector('.frame').ariaLabel = [`${kind} ${nameOf(m)}`, when, long, text].filter(Boolean).join(', ')
}

async function showDuration(tile, m) {
  if (knownDuration(m) !== undefined) return
  await detailsOf(m).catch(() => {})
  say(tile, m)
}
