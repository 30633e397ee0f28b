import { uuidOf } from '../lib/ids.js'
import { plural } from '../lib/words.js'

/** What the page makes of comments and reactions. No browser is needed here. */

export const EMOJIS = ['\u2764\uFE0F', '😂', '🎉', '😢', '👏', '🔥']
export const EMOJI_NAMES = ['heart', 'laughing', 'party', 'sad', 'applause', 'fire']

/** How long ago, roughly; after a week, the day. */
export function ago(iso, now, { locale = [], timeZone } = {}) {
  const minutes = Math.floor((now - Date.parse(iso)) / 60_000)
  if (minutes < 1) return 'just now'
  if (minutes < 60) return `${minutes} min ago`
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ago`
  if (minutes < 7 * 24 * 60) return `${plural(Math.floor(minutes / (24 * 60)), 'day')} ago`
  return new Intl.DateTimeFormat(locale, { day: 'numeric', month: 'long', year: 'numeric', timeZone }).format(
    new Date(iso),
  )
}

export const repliesOf = ({ reply_count: count }) => (count === 0 ? '' : plural(count, 'reply', 'replies'))

/** A comment that is no longer there, as the API shows one that is deleted. */
const tombstoneOf = (comment) => ({
  ...comment,
  ...{
    deleted: true,
    body: '',
    media_ids: [],
    mentions: [],
    reply_count: 0,
    edited: false,
    author_name: null,
    can: [],
  },
})

/**
 * The comments of a list, newest first, with those in their places that are gone and below which something is typed and not
 * sent: it stays, to be copied. What comes after the end of a list with more pages may still be there.
 */
export function withGone(comments, hasMore, typedBelow) {
  const there = new Set(comments.map((c) => c.comment_id))
  const end = hasMore ? comments.at(-1).created_at : ''
  const isGone = (c) => !there.has(c.comment_id) && c.created_at > end
  const gone = new Map(typedBelow.filter(isGone).map((c) => [c.comment_id, tombstoneOf(c)]))
  if (gone.size === 0) return comments
  return [...comments, ...gone.values()].sort((a, b) => Date.parse(b.created_at) - Date.parse(a.created_at))
}

const MENTION =
  /(?<![\p{L}\p{N}])@(usr_[0-9a-z]{26}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?!-?[\p{L}\p{N}])/gu

/** A comment in pieces: text, and mentions with the `id` of a member. Any other id is text. */
export function piecesOf({ body, mentions }) {
  const known = new Set(mentions.map(uuidOf))
  const pieces = []
  let end = 0
  for (const found of body.matchAll(MENTION)) {
    const id = uuidOf(found[1])
    if (!known.has(id)) continue
    pieces.push({ text: body.slice(end, found.index) }, { id })
    end = found.index + found[0].length
  }
  return [...pieces, { text: body.slice(end) }].filter((piece) => piece.id || piece.text !== '')
}

/** The mention that is being typed before the caret: where its `@` is, and what follows it. A name has up to three words. */
export function mentionAt(text, caret) {
  const found = /(?<![\p{L}\p{N}])@((?:[^\s@]+ ){0,2}[^\s@]*)$/u.exec(text.slice(0, caret))
  return found ? { from: found.index, query: found[1].trim() } : undefined
}

/** What stands for a member in the text: `@` and the name, with a number where two have the same name. */
export function labelFor({ id, name }, chosen) {
  const plain = `@${name.replace(/[\s@]+/g, ' ').trim()}`
  for (let n = 1; ; n++) {
    const label = n === 1 ? plain : `${plain} (${n})`
    if ((chosen.get(label) ?? id) === id) return label
  }
}

/** The text with a member in the place of what was typed, and where the caret is then. */
export function withMention(text, caret, { from }, label) {
  const before = `${text.slice(0, from)}${label} `
  return { text: before + text.slice(caret).replace(/^ /, ''), caret: before.length }
}

/** The text as the API has it: ids in the place of the labels. Of two that begin alike, the longer one is meant. */
export function withIds(text, chosen) {
  const labels = [...chosen.keys()].sort((a, b) => b.length - a.length)
  if (labels.length === 0) return text
  const escaped = labels.map((label) => label.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])(?:${escaped.join('|')})(?!-?[\\p{L}\\p{N}])`, 'gu')
  return text.replace(pattern, (label) => `@${chosen.get(label)}`)
}

/** A comment as its author edits it: labels in the place of ids. */
export function toDraft(comment, nameOf) {
  const chosen = new Map()
  const parts = piecesOf(comment).map(({ text, id }) => {
    if (!id) return text
    const label = labelFor({ id, name: nameOf(id) }, chosen)
    chosen.set(label, id)
    return label
  })
  return { text: parts.join(''), chosen }
}

/** The counts of a target once the viewer has reacted otherwise than before. */
export function recount(counts, before, after) {
  const next = { ...counts }
  if (before) next[before] = Math.max(0, (next[before] ?? 0) - 1)
  if (after) next[after] = (next[after] ?? 0) + 1
  return next
}

/** Those whose name contains the text, as the search for members finds them. */
export const named = (people, text) =>
  people.filter(({ display_name: name }) => name.toLowerCase().includes(text.toLowerCase()))
