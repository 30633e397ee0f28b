import { html } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { usePages } from '../lib/pages.js'
import { Empty, Intro, More, Problem, Wait } from '../lib/parts.js'
import { largeUrl, PictureOf } from '../lib/picture.js'
import { hue } from '../lib/words.js'
import { linkToAlbum } from '../shell/views.js'
import { editAlbum } from './form.js'
import { audienceOf, itemsOf, STATUSES } from './words.js'

const PICTURE = html`<rect x="14" y="6" width="42" height="32" rx="5" /><rect x="8" y="11" width="42" height="32" rx="5" class="front" /><path d="m12 38 11-13 9 10 5-5 10 9" /><circle cx="40" cy="19" r="3.5" />`

/** The albums of a group that the person can see, newest first. */
export function Albums({ org }) {
  const list = usePages(`/api/orgs/${org.org_id}/albums`, 'albums', { query: { limit: '48' } })
  const create = () => editAlbum({ org, onSaved: (album) => location.assign(linkToAlbum(album.album_id)) })
  return html`
    <section class="view-albums" aria-label="Albums">
      <${Intro} title="Albums" text=${org.name}>
        <button class="button primary" type="button" onClick=${create}><${Icon} name="add" size="18" />New album</button>
      <//>
      <${Problem} class="banner" error=${list.error} />
      ${!list.items && !list.error && html`<${Wait} />`}
      <ul class="album-cards" aria-label="Albums">
        ${list.items?.map((album) => html`<${Card} key=${album.album_id} album=${album} org=${org} />`)}
      </ul>
      ${
        list.items?.length === 0 &&
        html`
          <${Empty} title="No albums yet" text="Choose the best photos of a day, put them in order and write a line below them." picture=${PICTURE}>
            <button class="button primary" type="button" onClick=${create}>Make an album</button>
          <//>`
      }
      <${More} list=${list} />
    </section>`
}

/** An album as a link to it, with its cover. */
const Card = ({ album, org }) => html`
  <li class="album-card" data-status=${album.status}>
    <a href=${linkToAlbum(album.album_id)}>
      <span class="album-cover" aria-hidden="true" style=${{ '--hue': hue(album.album_id) }}>
        <${PictureOf} org=${org} id=${album.cover_media_id} urlOf=${largeUrl} isLazy />
        ${album.status !== 'PUBLIC' && html`<span class="badge-state chip">${STATUSES[album.status]}</span>`}
      </span>
      <strong class="name" dir="auto">${album.title}</strong>
      <span class="muted small">${itemsOf(album)} · ${audienceOf(album)}</span>
    </a>
  </li>`
