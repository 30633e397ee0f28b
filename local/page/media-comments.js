import { newDiscussion } from './discussion.js'
import { $, toast } from './dom.js'
import { reactionBar } from './reactions.js'
import { inWords } from './refusal-words.js'

/** Beside a media item in the viewer: what is said about it at an event, and the reactions to it. */

const LOOK_MS = 5000
const HIDDEN_MS = 60_000

let at
let timer
const discussion = newDiscussion({
  fresh: $('viewer-comment-new'),
  none: $('viewer-comments-none'),
  list: $('viewer-comment-list'),
  more: $('viewer-comments-more'),
})
const bar = reactionBar({
  onChanged(target, { id }) {
    reacted.set(id, target)
    if (at?.place.id === id) $('viewer-reactions-hint').hidden = true
  },
})
$('viewer-reactions').append(bar.element)
/** The API tells the reactions to a media item to those who react alone: what it said last. */
const reacted = new Map()
const UNKNOWN = { reaction_counts: undefined, my_reaction: null }

/**
 * Shows the comments on a media item. `given`: {event(), org, path, me}, the event with its path; `openViewer` shows what
 * is attached to a comment.
 */
export function openMediaComments(m, { event, org, path, me }, openViewer) {
  const base = `${path}/media/${m.media_id}/comments`
  if (at?.base === base) return
  closeMediaComments()
  at = { base, event, place: { path, type: 'media', id: m.media_id } }
  $('viewer-comments-gone').hidden = true
  discussion.open({ event: event(), org, path, me, base, label: 'Write a comment. @ mentions someone', openViewer })
  void look()
}

/** Returns whether a comment was begun and not sent. It is there again when the media item is opened again. */
export function closeMediaComments() {
  clearTimeout(timer)
  at = undefined
  return discussion.close()
}

export const forgetReactions = () => reacted.clear()

async function look() {
  clearTimeout(timer)
  const mine = at
  if (!mine) return
  const event = mine.event()
  bar.update({ target: reacted.get(mine.place.id) ?? UNKNOWN, place: mine.place, mayReact: event.status !== 'archived' })
  $('viewer-reactions-hint').hidden = event.status === 'archived' || reacted.has(mine.place.id)
  try {
    await discussion.look(event)
    if (mine === at) $('viewer-comments-gone').hidden = true
  } catch (error) {
    if (mine !== at) return
    // Taken out of the album meanwhile, or the album is no longer for this person. What is typed stays, to be copied.
    if (error.status === 404) $('viewer-comments-gone').hidden = false
    else if (error.status !== 429) toast(inWords(error))
  }
  if (mine === at) timer = setTimeout(look, document.hidden ? HIDDEN_MS : LOOK_MS)
}

document.addEventListener('visibilitychange', () => {
  if (!document.hidden) void look()
})
