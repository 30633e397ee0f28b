import { editAlbum } from './album-form.js'
import { audienceOf, itemsOf, STATUSES } from './album-words.js'
import { link } from './client.js'
import { $, copyOf, showProblem } from './dom.js'
import { mediaOf } from './media-cache.js'
import { newPager } from './pager.js'
import { drawPlaceholder } from './picture.js'
import { inWords } from './refusal-words.js'
import { linkToAlbum } from './views.js'
import { hue } from './words.js'

let organization
let list

/** The albums of a group that the person can see, newest first. */
export async function openAlbums(org) {
  if (org !== organization) {
    $('album-cards').replaceChildren()
    $('albums-empty').hidden = true
  }
  organization = org
  $('albums-summary').textContent = org.name
  list = newPager(`/api/orgs/${org.org_id}/albums`, 'albums', { limit: '48' })
  await load(list.again())
}

/** Answers that arrive later belong to no view. */
export function closeAlbums() {
  list = undefined
}

async function load(request) {
  const mine = list
  try {
    await request
    if (mine !== list) return
    showProblem()
    render()
  } catch (error) {
    if (mine === list) showProblem(new Error(inWords(error)))
  }
}

function render() {
  const albums = list.items()
  $('albums-empty').hidden = albums.length > 0
  $('album-cards').replaceChildren(...albums.map((album) => albumCard(album, organization)))
  $('albums-more').hidden = !list.hasMore()
}

/** An album as a link to it, with its cover. */
export function albumCard(album, org) {
  const item = copyOf('album-card')
  item.dataset.album = album.album_id
  item.dataset.status = album.status
  item.querySelector('a').href = linkToAlbum(album.album_id)
  item.querySelector('.name').textContent = album.title
  item.querySelector('.items').textContent = itemsOf(album)
  item.querySelector('.audience').textContent = audienceOf(album)
  const state = item.querySelector('.badge-state')
  state.textContent = STATUSES[album.status]
  state.hidden = album.status === 'PUBLIC'
  const cover = item.querySelector('.album-cover')
  cover.style.setProperty('--hue', hue(album.album_id))
  if (album.cover_media_id) void showCover(cover, org, album.cover_media_id)
  return item
}

async function showCover(cover, org, id) {
  const m = await mediaOf(org, id)
  if (!m) return
  cover.querySelector('.blur').hidden = !drawPlaceholder(cover.querySelector('.blur'), m.placeholder)
  const url = m.variants.image_webp_url ?? m.variants.image_url ?? m.variants.image_thumb_url
  if (url) showThumb(cover.querySelector('.thumb'), url, () => mediaOf(org, id, { isFresh: true }))
}

/** Shows a picture, with a new link when the present one has expired. */
function showThumb(image, url, ask) {
  image.onload = () => image.classList.add('loaded')
  image.onerror = async () => {
    image.onerror = null
    const fresh = await ask()
    const again = fresh?.variants.image_webp_url ?? fresh?.variants.image_thumb_url
    if (again) image.src = link(again)
  }
  image.src = link(url)
}

function create() {
  // A person without a group has no list either.
  if (!list) return
  editAlbum({ org: organization, onSaved: (album) => location.assign(linkToAlbum(album.album_id)) })
}
for (const id of ['new-album', 'first-album']) $(id).addEventListener('click', create)
$('albums-more').addEventListener('click', () => void load(list.more()))
document.addEventListener('visibilitychange', () => {
  if (list && !document.hidden) void load(list.again())
})
