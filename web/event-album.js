import { editAlbum } from './albums/form.js'
import { itemsOf, STATUSES } from './albums/words.js'
import { call, link } from './client.js'
import { $, copyOf } from './dom.js'
import { drawPlaceholder } from './picture.js'
import { linkToAlbum } from './views.js'
import { hue } from './words.js'

const SHOWN = '6'
let drawn

/** Shows the album of an event, or offers to make one. Throws Refusal. */
export async function lookAtEventAlbum({ event, org, path }, isStill) {
  const album = event.album_id ? await call('GET', `${path}/album`).catch(ifGone) : undefined
  const state = album && [org.org_id, album.album_id, album.updated_at, album.media_count, drawn?.isConverting && Date.now()].join()
  const isKnown = album && drawn?.state === state
  const media = album && !isKnown ? await firstOf(org, album) : undefined
  if (!isStill()) return
  const isOpen = event.status !== 'archived'
  $('event-album').hidden = !album && !isOpen
  $('event-album-none').hidden = Boolean(album)
  $('event-album-new').onclick = () =>
    editAlbum({ org, event, onSaved: ({ album_id }) => location.assign(linkToAlbum(album_id)) })
  $('event-album-link').hidden = !album
  if (!album || isKnown) return
  drawn = { state, isConverting: media.some((m) => m.upload_status === 'processing') }
  $('event-album-link').href = linkToAlbum(album.album_id)
  $('event-album-title').textContent = album.title
  const status = album.status === 'PUBLIC' ? '' : ` · ${STATUSES[album.status]}`
  $('event-album-facts').textContent = itemsOf(album) + status
  $('event-album-strip').replaceChildren(...media.map(pictureElement))
}

/** Its owner may have made it a draft meanwhile. */
const ifGone = (error) => {
  if (error.status !== 404) throw error
}

async function firstOf(org, { album_id }) {
  const { media } = await call('GET', `/api/orgs/${org.org_id}/albums/${album_id}/media?limit=${SHOWN}`)
  return media
}

function pictureElement(m) {
  const picture = copyOf('strip-picture')
  picture.style.setProperty('--hue', hue(m.media_id))
  const blur = picture.querySelector('.blur')
  blur.hidden = !drawPlaceholder(blur, m.placeholder)
  const image = picture.querySelector('.thumb')
  image.addEventListener('load', () => image.classList.add('loaded'))
  if (m.variants.image_thumb_url) image.src = link(m.variants.image_thumb_url)
  return picture
}
