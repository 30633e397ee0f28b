import { ago } from '../discussions/words.js'
import { html, useRef } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { mediaOf } from '../lib/media-cache.js'
import { Avatar } from '../lib/parts.js'
import { largeUrl, Picture } from '../lib/picture.js'
import { usePolled } from '../lib/poll.js'
import { inWords } from '../lib/refusals.js'
import { toast } from '../lib/toast.js'
import { hue } from '../lib/words.js'
import { linkToPerson } from '../shell/views.js'
import { openViewer } from '../viewer/viewer.js'
import { glyphOf, linkOf, picturesOf, sentenceOf } from './words.js'

const BUSY_MS = 1500

/** One thing that happened: who, what, when, and its newest pictures. */
export function Item({ item, org, inAll }) {
  const { name, text } = sentenceOf(item)
  const { shown, more } = picturesOf(item)
  const link = linkOf(item)
  const root = useRef()
  return html`
    <li ref=${root} class="news" data-item=${item.timeline_item_id} data-type=${item.type} tabindex="-1">
      <span class="news-who"><${Avatar} name=${name} /><span class="news-glyph"><${Icon} name=${glyphOf(item)} size="14" /></span></span>
      <div class="news-main">
        <p class="news-text" dir="auto"><a class="news-actor" href=${linkToPerson(item.actor_id)}><bdi>${name}</bdi></a> ${text}</p>
        <p class="muted small news-facts"><time datetime=${item.created_at} title=${new Date(item.created_at).toLocaleString()}>${ago(item.created_at, Date.now())}</time>${inAll && html`<span class="news-group" dir="auto">${org.name}</span>`}</p>
        ${shown.length > 0 && html`<${Pictures} org=${org} shown=${shown} more=${more} root=${root} />`}
        ${link && html`<a class="button quiet news-link" href=${link.href}>${link.label}<${Icon} name="next" size="16" /></a>`}
      </div>
    </li>`
}

const Pictures = ({ org, shown, more, root }) => {
  const ids = shown.map((m) => m.media_id)
  return html`
    <ul class="news-pictures" data-count=${ids.length} aria-label="Photos">
      ${shown.map((m, i) => html`<${Shown} key=${m.media_id} org=${org} m=${m} isAlone=${ids.length === 1} more=${i === ids.length - 1 ? more : 0} onOpen=${() => open(org, ids, m.media_id, root.current)} />`)}
    </ul>`
}

const pauseOf = ({ m }) => (m?.upload_status === 'processing' ? BUSY_MS : 0)

/** A picture of an item. While the media item is converted, its picture is yet to come. */
function Shown({ org, m, isAlone, more, onOpen }) {
  const id = m.media_id
  const isReady = Boolean(m.variants.image_thumb_url)
  const look = async () => ({ m: isReady ? m : await mediaOf(org, id, { isFresh: true }) })
  const { data } = usePolled(look, [id, isReady], pauseOf)
  const now = isReady ? m : (data?.m ?? m)
  const what = m.kind === 'video' ? 'Open the video' : 'Open the photo'
  return html`
    <li data-media=${id} data-state=${isReady ? 'completed' : (data?.m?.upload_status ?? 'processing')} data-kind=${m.kind}>
      <button class="frame" type="button" style=${{ '--hue': hue(id) }} aria-label=${more > 0 ? `${what}, and ${more.toLocaleString()} more` : what} onClick=${onOpen}>
        <${Picture} key=${String(Boolean(now.variants?.image_thumb_url))} m=${now} urlOf=${isAlone ? largeUrl : undefined} refresh=${() => mediaOf(org, id, { isFresh: true })} isLazy />
        ${m.kind === 'video' && html`<span class="news-play" aria-hidden="true"></span>`}
        ${more > 0 && html`<span class="news-more" aria-hidden="true">+${more.toLocaleString()}</span>`}
      </button>
    </li>`
}

/** Opens a picture; the viewer goes through all that the item shows. */
async function open(org, ids, id, root) {
  try {
    const all = (await Promise.all(ids.map((one) => mediaOf(org, one, { isFresh: true })))).filter(Boolean)
    const at = (wanted) => all.findIndex((m) => m.media_id === wanted)
    if (at(id) < 0) return toast('This photo was deleted.')
    openViewer(all[at(id)], {
      find: (wanted) => all[at(wanted)],
      neighbour: (wanted, step) => ({ item: at(wanted) < 0 ? undefined : all[at(wanted) + step] }),
      refresh: (m) => mediaOf(org, m.media_id, { isFresh: true }),
      closed: (last) => root?.querySelector(`[data-media="${last}"] button`)?.focus(),
    })
  } catch (error) {
    if (error.code !== 'OFFLINE') toast(inWords(error))
  }
}
