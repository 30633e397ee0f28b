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
const bar = reactionBar({ onChanged: () => look() })
$('viewer-reactions').append(bar.element)
const UNKNOWN = { reaction_counts: undefined, my_reaction: null }
/** Counts the looks: an answer from before a reaction must not be shown after it. */
let turn = 0

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
  bar.update({ target: UNKNOWN, place: at.place, mayReact: false })
  discussion.open({ event: event(), org, path, me, base, label: 'Write a comment. @ mentions someone', openViewer })
  void look()
}

/** Returns whether a comment was begun and not sent. It is there again when the media item is opened again. */
export function closeMediaComments() {
  clearTimeout(timer)
  at = undefined
  return discussion.close()
}

async function look() {
  clearTimeout(timer)
  const mine = at
  if (!mine) return
  const event = mine.event()
  const now = ++turn
  try {
    const target = await discussion.look(event)
    if (mine !== at) return
    $('viewer-comments-gone').hidden = true
    if (target && now === turn) bar.update({ target, place: mine.place, mayReact: event.status !== 'archived' })
  } catch (error) {
    if (mine !== at) return
    // Taken out of the album meanwhile, or the album is no longer for this person. What is typed stays, to be copied.
    if (error.status === 404) $('viewer-comments-gone').hidden = false
    else if (error.status !== 429) toast(inWords(error))
  }
  if (mine === at && now === turn) timer = setTimeout(look, document.hidden ? HIDDEN_MS : LOOK_MS)
}

document.addEventListener('visibilitychange', () => {
  if (!document.hidden) void look()
})
