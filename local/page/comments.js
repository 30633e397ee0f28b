import { call } from './client.js'
import { newComment } from './comment-view.js'
import { sayIn } from './dialogs.js'
import { $, announce, arrange, toast } from './dom.js'
import { newComposer } from './composer.js'
import { newNames } from './names.js'
import { newPager } from './pager.js'
import { reactionBar } from './reactions.js'
import { inWords } from './refusal-words.js'

/** What is shown below an event: {event, org, path, me, names, list, nodes}. */
let at
const bar = reactionBar({ onChanged: () => at?.look() })
$('event-reactions').append(bar.element)

/** Shows the comments on an event, and the reactions to it. `look` asks for the present state of all of it. */
export function openComments({ event, org, path, me, look }) {
  const base = `${path}/meta/${event.event_id}/comments`
  at = { event, org, path, me, look, base, names: newNames(org), nodes: new Map(), list: newPager(base, 'comments', { limit: '20' }) }
  at.names.learn([{ user_id: me.user_id, display_name: me.display_name }])
  const composer = newComposer({
    ...{ org, label: 'Write a comment. @ mentions someone', submit: 'Comment' },
    async send(body, key) {
      await call('POST', base, body, key)
      announce('The comment is posted')
      await lookAtComments(at.event)
    },
  })
  $('comment-new').replaceChildren(composer.element)
  $('comment-list').replaceChildren()
}

export function closeComments() {
  at = undefined
}

/** Brings the comments up to date. `event` is the present state of the event. */
export async function lookAtComments(event) {
  const mine = at
  if (!mine) return
  mine.event = event
  bar.update({
    target: { reaction_counts: event.reaction_counts, my_reaction: event.my_reaction },
    place: { path: mine.path, type: 'meta', id: event.event_id },
    mayReact: event.status !== 'archived',
  })
  await Promise.all([mine.list.again(), ...[...mine.nodes.values()].map((node) => node.look())])
  await render(mine)
}

async function render(mine) {
  const comments = mine.list.items()
  await mine.names.need(comments.flatMap(({ mentions }) => mentions))
  if (mine !== at) return
  $('comment-new').hidden = mine.event.status === 'archived'
  $('comments-none').hidden = comments.length > 0
  $('comments-more').hidden = !mine.list.hasMore()
  arrange($('comment-list'), nodesOf(mine, comments))
}

/** The elements of comments: those that are there stay, with what is typed in them. */
function nodesOf(mine, comments) {
  const known = mine.nodes
  mine.nodes = new Map(comments.map((comment) => [comment.comment_id, known.get(comment.comment_id) ?? newComment(mine, contextOf(mine))]))
  for (const comment of comments) mine.nodes.get(comment.comment_id).update(comment)
  return comments.map(({ comment_id }) => mine.nodes.get(comment_id).element)
}

const contextOf = (mine) => ({
  base: mine.base,
  changed: () => lookAtComments(mine.event),
  askToDelete,
})

let deleting
function askToDelete(wanted) {
  deleting = wanted
  $('comment-reason').value = ''
  sayIn('comment-delete-error')
  $('comment-delete').showModal()
}

$('comment-delete-form').addEventListener('submit', async (event) => {
  event.preventDefault()
  const { path, done } = deleting
  const reason = $('comment-reason').value.trim()
  $('comment-delete-do').disabled = true
  try {
    await call('DELETE', path, reason === '' ? {} : { reason })
    $('comment-delete').close()
    announce('The comment is deleted')
    await done()
  } catch (error) {
    sayIn('comment-delete-error', inWords(error))
  } finally {
    $('comment-delete-do').disabled = false
  }
})
$('comments-more').addEventListener('click', async () => {
  const mine = at
  await mine.list.more().catch((error) => toast(inWords(error)))
  if (mine === at) await render(mine)
})
