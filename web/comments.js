import { newDiscussion } from './discussion.js'
import { $ } from './dom.js'
import { reactionBar } from './reactions.js'
import { openViewer } from './viewer.js'

/** Below an event: its comments, and the reactions to it. */

let at
const discussion = newDiscussion({
  fresh: $('comment-new'),
  none: $('comments-none'),
  list: $('comment-list'),
  more: $('comments-more'),
})
const bar = reactionBar({ onChanged: () => at?.look() })
$('event-reactions').append(bar.element)

/** Shows the comments on an event, and the reactions to it. `look` asks for the present state of all of it. */
export function openComments({ event, org, path, me, look }) {
  at = { path, look }
  const base = `${path}/meta/${event.event_id}/comments`
  discussion.open({ event, org, path, me, base, label: 'Write a comment. @ mentions someone', openViewer })
}

export function closeComments() {
  at = undefined
  discussion.close()
}

/** Brings the comments up to date. `event` is the present state of the event. */
export async function lookAtComments(event) {
  if (!at) return
  bar.update({
    target: { reaction_counts: event.reaction_counts, my_reaction: event.my_reaction },
    place: { path: at.path, type: 'meta', id: event.event_id },
    mayReact: event.status !== 'archived',
  })
  await discussion.look(event)
}
