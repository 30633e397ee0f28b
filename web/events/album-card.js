import { editAlbum } from '../albums/form.js'
import { itemsOf, STATUSES } from '../albums/words.js'
import { HighlightShelf } from '../highlights/shelf.js'
import { call } from '../lib/api.js'
import { html, useRef } from '../lib/html.js'
import { mediaOf } from '../lib/media-cache.js'
import { Picture } from '../lib/picture.js'
import { usePolled } from '../lib/poll.js'
import { hue } from '../lib/words.js'
import { linkToAlbum } from '../shell/views.js'

const LOOK_MS = 5000
const SHOWN = '6'

/** The album of an event with its first pictures and its highlights, or the offer to make one. */
export function AlbumCard({ event, org, path }) {
  const last = useRef()
  const { data } = usePolled(() => look({ event, org, path, last }), [event.album_id], LOOK_MS)
  const isOpen = event.status !== 'archived' && !org.isGuest
  const make = () => editAlbum({ org, event, onSaved: ({ album_id }) => location.assign(linkToAlbum(album_id)) })
  if (!data || (!data.album && !isOpen)) return null
  return html`
    <section id="event-album" class="panel" aria-labelledby="event-album-heading">
      <h2 id="event-album-heading">Album</h2>
      ${
        data.album
          ? html`<${Link} ...${data} org=${org} />`
          : html`
            <div class="event-album-none">
              <p class="muted">${event.status === 'draft' ? 'No album yet.' : 'No album of this event that you can see.'}</p>
              <button class="button" type="button" onClick=${make}>Make an album</button>
            </div>`
      }
      ${event.album_id && html`<${HighlightShelf} key=${event.album_id} org=${org} albumId=${event.album_id} level=${3} />`}
    </section>`
}

/** The pictures are asked for when the album has changed, or while some of them are being converted. */
async function look({ event, org, path, last }) {
  const album = event.album_id ? await call('GET', `${path}/album`).catch(ifGone) : undefined
  if (!album) return {}
  const state = [album.album_id, album.updated_at, album.media_count].join()
  if (last.current?.state !== state || last.current.isConverting) {
    const { media } = await call('GET', `/api/orgs/${org.org_id}/albums/${album.album_id}/media?limit=${SHOWN}`)
    last.current = { state, media, isConverting: media.some((m) => m.upload_status === 'processing') }
  }
  return { album, media: last.current.media }
}

/** Its owner may have made it a draft meanwhile. */
const ifGone = (error) => {
  if (error.status !== 404) throw error
}

const Link = ({ album, media, org }) => html`
  <a id="event-album-link" class="event-album-link" href=${linkToAlbum(album.album_id)}>
    <span class="strip">
      ${media.map((m) => html`<span key=${m.media_id} class="strip-picture" style=${{ '--hue': hue(m.media_id) }}><${Picture} m=${m} refresh=${() => mediaOf(org, m.media_id, { isFresh: true })} /></span>`)}
    </span>
    <span class="event-album-words">
      <strong id="event-album-title" dir="auto">${album.title}</strong>
      <span id="event-album-facts" class="muted small">${itemsOf(album)}${album.status !== 'PUBLIC' && ` · ${STATUSES[album.status]}`}</span>
    </span>
  </a>`
