import { linkToAlbum, linkToEvent } from '../shell/views.js'

/** What the page says about items of a timeline. No browser is needed here. */

/** What a summary calls those of whom it has no name. */
const NAMELESS = ['A member', 'A former member']

/** Who did it, and what: the summary tells both in one sentence. */
export function sentenceOf({ actor_name: actor, summary }) {
  const name = [actor, ...NAMELESS].find((one) => one && summary.startsWith(`${one} `))
  return name ? { name, text: summary.slice(name.length).trim() } : { name: actor || 'Someone', text: summary }
}

const DISCUSSED = new Set(['comment_posted', 'reaction_added'])

/** Where an item leads, `{href, label}`; undefined for what has no view of its own. */
export function linkOf({ type, event_id: event, album_id: album }) {
  if (DISCUSSED.has(type) && event) return { href: linkToEvent(event), label: 'See the discussion' }
  if (album) return { href: linkToAlbum(album), label: 'See the album' }
  return event ? { href: linkToEvent(event), label: 'See the event' } : undefined
}

/** The pictures that an item shows, and how many more there are. */
export const picturesOf = ({ media, count }) => ({
  shown: media.map(({ image_thumb_url, image_webp_url, ...m }) => ({
    ...m,
    variants: { image_thumb_url, image_webp_url },
  })),
  more: media.length === 0 ? 0 : Math.max(0, (count ?? 0) - media.length),
})

/** The chip above a list that has grown where the reader does not look. */
export const newsOf = (count) => (count >= 100 ? '99+ new' : `${count} new`)

const GLYPHS = {
  media_uploaded: 'upload',
  event_created: 'event',
  event_activated: 'event',
  album_created: 'album',
  album_updated: 'album',
  member_joined: 'person',
  reaction_added: 'heart',
  comment_posted: 'comment',
}
export const glyphOf = ({ type }) => GLYPHS[type] ?? 'info'
