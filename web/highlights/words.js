import { may } from '../lib/permissions.js'
import { clock, plural } from '../lib/words.js'

/** What the page says about highlights. No browser is needed here. */

export const MAX_ITEMS = 30
const FPS = 30
const IMAGE_SECONDS = 3
const VIDEO_SECONDS = 15
/** What a video counts as until its length is known, and a Live Photo: phones record about 3 s. */
const UNKNOWN_SECONDS = 6
const MOTION_SECONDS = 3
const CROSSFADE_FRAMES = 15

const STATUSES = { processing: 'Being made', completed: 'Ready', failed: 'Could not be made' }

/** The state of a highlight in two words. */
export const statusOf = ({ status, variants }) =>
  status === 'processing' && variants.hls_master_url ? 'Playable' : STATUSES[status]

export const TRANSITIONS = { cut: 'Cuts', crossfade: 'Crossfades', fade: 'Fades through black' }

/** How long the highlight is; while it is being made, how long it is going to be. */
export const lengthOf = ({ duration_sec: known, estimated_duration_sec: expected }) =>
  known === null ? `About ${clock(expected)}` : clock(known)

export const itemsOf = ({ media_ids: ids }) => plural(ids.length, 'item')

/**
 * Whole seconds of the highlight that the API would make of items: {kind, seconds}, in order. `seconds` of a video or Live
 * Photo may be undefined as long as it is not known; it then counts as the API counts it.
 */
export function estimateOf(items, transition) {
  const frames = items.map((item) => Math.max(1, Math.round(secondsOf(item) * FPS)))
  const shared = frames.slice(1).map((count, i) => (transition === 'crossfade' ? overlapOf(frames[i], count) : 0))
  const sum = (numbers) => numbers.reduce((total, each) => total + each, 0)
  return Math.ceil((sum(frames) - sum(shared)) / FPS)
}

const overlapOf = (one, next) => Math.min(CROSSFADE_FRAMES, Math.floor(Math.min(one, next) / 2))

function secondsOf({ kind, seconds }) {
  if (kind === 'photo') return IMAGE_SECONDS
  return Math.min(VIDEO_SECONDS, seconds ?? (kind === 'live' ? MOTION_SECONDS : UNKNOWN_SECONDS))
}

/** The part of all progress that is encoding: it starts at the first percentage and ends at the second. */
const ENCODED = { from: 5, to: 97 }

/**
 * How far a highlight is, item by item: {done, text}. `done` counts the items that are finished. The API reports a
 * percentage of its length; photos have a known share of it, the other items share the rest.
 */
export function progressOf({ items, progress, estimated_duration_sec: total }) {
  if (!progress) return { done: 0, text: 'Waiting to be made' }
  const { percent } = progress
  if (percent < ENCODED.from) return { done: 0, text: 'Fetching the items' }
  if (percent >= ENCODED.to) return { done: items.length, text: 'Finishing' }
  const reached = (total * (percent - ENCODED.from)) / (ENCODED.to - ENCODED.from)
  const done = itemAt(items, total, reached)
  return { done, text: `Item ${done + 1} of ${items.length}` }
}

function itemAt(items, total, reached) {
  const others = items.filter(({ type }) => type !== 'image').length
  const share = Math.max(1, (total - IMAGE_SECONDS * (items.length - others)) / Math.max(1, others))
  const lengths = items.map(({ type }) => (type === 'image' ? IMAGE_SECONDS : share))
  const sum = lengths.reduce((all, each) => all + each, 0)
  let end = 0
  const index = lengths.findIndex((length) => {
    end += (length / sum) * total
    return reached < end
  })
  return index < 0 ? items.length - 1 : index
}

/** Who sees a highlight. `album` is undefined where it has none, or one that the viewer does not see. */
export function audienceOf({ album_id: id }, album) {
  if (!id) return 'Only its creator and the administrators see it. Make it in an album to share it.'
  return album ? 'Those who can see its album can see it.' : 'Its album is not published for you.'
}

/** Whether a highlight can be made of an album: of one with items, by those whom the API says. */
export const mayMakeOf = (album) => album.media_count > 0 && may(album, 'highlight.create_in_album')

/** Of an album that the viewer does not see, only its other members can make another highlight. */
export const mayMakeAgain = ({ album_id: id }, album) => !id || Boolean(album && mayMakeOf(album))

/** Where highlights of a place are made: {org, album, event}, of which the last two may be missing. */
export function pathTo({ org, album, event }) {
  if (event) return `/api/orgs/${org.org_id}/events/${event.event_id}/highlights`
  return album ? `/api/orgs/${org.org_id}/albums/${album.album_id}/highlights` : `/api/media/${org.org_id}/highlights`
}

const itemAndName = (place, name) => `item ${place}${name ? ` (${name})` : ''}`
const capital = (text) => text[0].toUpperCase() + text.slice(1)

/**
 * Why a highlight could not be made, as {text, advice}. `nameOf(id)` names a media item that still exists, for the item
 * that is to blame.
 */
export function failureOf({ error, media_ids: ids }, nameOf = () => undefined) {
  const place = ids.indexOf(error.media_id) + 1
  const item = place > 0 ? capital(itemAndName(place, nameOf(error.media_id))) : 'One of the items'
  const AGAIN = 'Make it again without this item.'
  const texts = {
    SOURCE_DELETED: [`${item} was deleted before the highlight was finished.`, AGAIN],
    SOURCE_ERASED: [
      'It showed photos of a member who has left and had everything erased.',
      'It cannot be shown any more.',
    ],
    ITEM_FAILED: [`${item} cannot be used: the file is damaged, or of a kind that cannot be read.`, AGAIN],
    TIMEOUT: ['It took too long to make.', 'Try again with fewer or shorter items.'],
    INTERNAL: ['Something went wrong on our side. It is not because of your photos.', 'Try again in a while.'],
  }
  const [text, advice] = texts[error.code] ?? [error.message, '']
  return { text, advice }
}

/** Which items a highlight does not show, although they were chosen; empty when it shows all. */
export function leftOutOf({ items, media_ids: ids }, nameOf = () => undefined) {
  const left = items.flatMap(({ skipped }, i) => (skipped ? [itemAndName(i + 1, nameOf(ids[i]))] : []))
  if (left.length === 0) return ''
  return `Left out, because ${left.length === 1 ? 'it' : 'they'} could not be read: ${left.join(', ')}.`
}

/**
 * What becomes of a highlight's items when it is made again: {kept, note}. Left out are those that are deleted (`of(id)`
 * is undefined), that were left out before, and the one that is to blame; `note` says which, for the form.
 */
export function itemsAgain({ items, media_ids: ids, error }, of, nameOf) {
  const isOut = (id, i) => !of(id) || items[i].skipped || error?.media_id === id
  const gone = ids.flatMap((id, i) => (isOut(id, i) ? [itemAndName(i + 1, of(id) && nameOf(of(id)))] : []))
  const were = gone.length === 1 ? 'it was' : 'they were'
  return {
    kept: ids.flatMap((id, i) => (isOut(id, i) ? [] : [of(id)])),
    note:
      gone.length === 0 ? '' : `Not chosen again, because ${were} deleted or could not be read: ${gone.join(', ')}.`,
  }
}

/** What the API's answers mean for a new highlight. */
export const HIGHLIGHT_REFUSALS = {
  MEDIA_NOT_AVAILABLE: 'The marked items cannot be used. Take them out.',
  ALBUM_ARCHIVED: 'The album was archived meanwhile. Open it again to make a highlight of it.',
  NOT_FOUND: 'The album is not there any more. Choose again.',
  MUSIC_TRACK_NOT_FOUND: 'This music is no longer offered. Choose other music.',
}

/** Of an item whose conversion has failed. A highlight can leave it out. */
export const CANNOT_BE_READ = 'Cannot be read'
const ISSUES = {
  'is not available': 'Deleted',
  'is not in the album': 'Not in the album any more',
  'could not be converted': CANNOT_BE_READ,
}

/** Why the API refused items, in words, by their places counted from 0. */
export const refusedItems = (error) =>
  new Map(
    (error.details ?? []).flatMap(({ field, issue }) => {
      const [, place] = /^body\.media_ids\.(\d+)$/.exec(field) ?? []
      return place === undefined ? [] : [[Number(place), ISSUES[issue] ?? issue]]
    }),
  )

/** What is wrong with a form, by field. */
export function highlightMistakes({ title, items }) {
  return {
    ...(title.trim() === '' && { title: 'Give the highlight a name.' }),
    ...(items.length === 0 && { items: 'Choose at least one photo or video.' }),
  }
}

/** The items with one of them moved by some places; ±Infinity is an end. */
export function movedBy(items, index, by) {
  const to = Math.min(Math.max(index + by, 0), items.length - 1)
  return items.toSpliced(index, 1).toSpliced(to, 0, items[index])
}
