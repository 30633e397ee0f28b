import { call, link } from './client.js'
import { ago, commentActionsFor, piecesOf, repliesOf, toDraft } from './comment-words.js'
import { arrange, avatar, copyOf, toast } from './dom.js'
import { newComposer } from './composer.js'
import { nameOf } from './item.js'
import { mediaOf } from './media-cache.js'
import { askToDelete } from './comment-deletion.js'
import { newPager } from './pager.js'
import { reactionBar } from './reactions.js'
import { inWords } from './refusal-words.js'

/**
 * A comment with what is below it. `at`: {event, org, path, me, names, openViewer} of the discussion, `context`: {base,
 * changed()} of the list that it is in.
 */
export function newComment(at, context) {
  const element = copyOf('comment')
  const find = (part) => element.querySelector(part)
  const bar = reactionBar({ onChanged: () => context.changed() })
  find('.comment-reactions').append(bar.element)
  let comment
  let drawn
  let editor
  let replyTo
  let replies

  const put = (part, text) => {
    find(part).textContent = text
    find(part).hidden = text === ''
  }
  const place = () => `${context.base}/${comment.comment_id}`

  function update(given) {
    comment = given
    const can = commentActionsFor(comment, at.event, { userId: at.me.user_id, role: at.org.role }, Date.now())
    element.dataset.comment = comment.comment_id
    element.classList.toggle('deleted', comment.deleted)
    put('.comment-author', comment.deleted ? '' : (comment.author_name ?? 'A former member'))
    put('.comment-time', comment.deleted ? '' : ago(comment.created_at, Date.now()))
    find('.comment-time').title = new Date(comment.created_at).toLocaleString()
    put('.comment-edited', comment.edited ? 'edited' : '')
    find('.reply').hidden = !can.reply
    find('.edit').hidden = !can.edit || Boolean(editor)
    find('.delete').hidden = !can.remove
    sayReplies()
    find('.comment-foot').hidden = comment.deleted
    bar.update({ target: comment, place: { path: at.path, type: 'comment', id: comment.comment_id }, mayReact: can.react })
    drawContent()
  }

  function sayReplies() {
    const isShown = Boolean(replies) && !find('.replies').hidden
    put('.show-replies', isShown ? 'Hide the replies' : repliesOf(comment))
    find('.show-replies').ariaExpanded = String(isShown)
  }

  /** What is selected in a text that is drawn anew is lost. */
  function drawContent() {
    const { body, mentions, media_ids: media, author_name: author, deleted } = comment
    const state = JSON.stringify([body, mentions.map(at.names.of), media, author, deleted])
    if (state === drawn) return
    drawn = state
    find('.comment-avatar').replaceChildren(avatar(author ?? '?'))
    find('.comment-body').replaceChildren(...(deleted ? ['This comment was deleted.'] : piecesOf(comment).map(pieceElement)))
    find('.comment-media').hidden = media.length === 0
    find('.comment-media').replaceChildren(...media.map((id) => mediaElement(id)))
  }

  function pieceElement({ text, id }) {
    if (!id) return document.createTextNode(text)
    return Object.assign(document.createElement('bdi'), { className: 'mention', textContent: `@${at.names.of(id)}` })
  }

  function mediaElement(id) {
    const item = copyOf('comment-photo')
    void mediaOf(at.org, id).then((m) => {
      if (!m) return item.remove()
      const button = item.querySelector('button')
      button.ariaLabel = `Open ${nameOf(m)}`
      if (m.variants.image_thumb_url) item.querySelector('img').src = link(m.variants.image_thumb_url)
      button.addEventListener('click', () => void open(id))
    })
    return item
  }

  /** The viewer goes through what is attached to the comment. */
  async function open(id) {
    const ids = comment.media_ids
    const all = (await Promise.all(ids.map((other) => mediaOf(at.org, other, { isFresh: true })))).filter(Boolean)
    const here = (wanted) => all.findIndex((m) => m.media_id === wanted)
    if (here(id) < 0) return
    at.openViewer(all[here(id)], {
      find: (wanted) => all[here(wanted)],
      neighbour: (wanted, step) => ({ item: all[here(wanted) + step] }),
      refresh: (m) => mediaOf(at.org, m.media_id, { isFresh: true }),
      discussed: { event: () => at.event, org: at.org, path: at.path, me: at.me },
      closed: () => element.querySelector('.comment-media button')?.focus(),
    })
  }

  async function edit() {
    await at.names.need(comment.mentions)
    const attached = (await Promise.all(comment.media_ids.map((id) => mediaOf(at.org, id)))).filter(Boolean)
    const { text, chosen } = toDraft(comment, at.names.of)
    editor = newComposer({
      ...{ org: at.org, label: 'Change the comment', submit: 'Save', draft: { text, chosen, media: attached } },
      async send(body) {
        await call('PATCH', place(), body)
        leave()
        await context.changed()
      },
      onCancel: leave,
    })
    find('.comment-content').hidden = true
    find('.comment-editor').replaceChildren(editor.element)
    find('.edit').hidden = true
    editor.focus()
  }

  function leave() {
    editor = undefined
    find('.comment-editor').replaceChildren()
    find('.comment-content').hidden = false
    find('.edit').hidden = false
  }

  async function showReplies() {
    if (!replies) {
      const base = `${at.path}/comment/${comment.comment_id}/comments`
      const list = newPager(base, 'comments', { limit: '50', include_deleted: 'true' })
      replies = { base, list, nodes: new Map() }
      await look().catch((error) => {
        replies = undefined
        throw error
      })
    }
  }

  /** They stay, with what is typed in them. */
  function toggleReplies() {
    find('.replies').hidden = Boolean(replies) && !find('.replies').hidden
    find('.earlier-replies').hidden = find('.replies').hidden || !replies?.list.hasMore()
    return showReplies().then(sayReplies)
  }

  async function look() {
    const mine = replies
    if (!mine) return
    await mine.list.again()
    await renderReplies(mine)
  }

  /** The oldest first, as one reads them. */
  async function renderReplies(mine) {
    const found = mine.list.items().toReversed()
    await at.names.need(found.flatMap(({ mentions }) => mentions))
    if (mine !== replies) return
    const below = { ...context, base: mine.base, changed: () => look().then(context.changed) }
    for (const reply of found) {
      const node = mine.nodes.get(reply.comment_id) ?? newComment(at, below)
      mine.nodes.set(reply.comment_id, node)
      node.update(reply)
    }
    arrange(find('.replies'), found.map(({ comment_id }) => mine.nodes.get(comment_id).element))
    find('.earlier-replies').hidden = find('.replies').hidden || !mine.list.hasMore()
    sayReplies()
  }

  async function reply() {
    if (find('.reply-new').hasChildNodes()) return replyTo.focus()
    if (comment.reply_count > 0) await showReplies()
    const composer = newComposer({
      ...{ org: at.org, label: `Reply to ${comment.author_name ?? 'the comment'}`, submit: 'Reply' },
      async send(body, key) {
        await call('POST', `${at.path}/comment/${comment.comment_id}/comments`, body, key)
        find('.reply-new').replaceChildren()
        if (!replies) await showReplies()
        else await look()
        await context.changed()
      },
      onCancel: () => find('.reply-new').replaceChildren(),
    })
    replyTo = composer
    find('.reply-new').replaceChildren(composer.element)
    composer.focus()
  }

  const on = (part, run) =>
    find(part).addEventListener('click', () => {
      Promise.resolve(run()).catch((error) => toast(inWords(error)))
    })
  on('.show-replies', toggleReplies)
  on('.earlier-replies', async () => {
    await replies.list.more()
    await renderReplies(replies)
  })
  on('.reply', reply)
  on('.edit', edit)
  on('.delete', () => askToDelete({ path: place(), done: context.changed }))

  return {
    element,
    update,
    look,
    comment: () => comment,
    /** Whether a change of it, a reply, or a change of a reply was begun and not sent. */
    isUnsent: () => element.querySelector('.composer[data-unsent]') !== null,
  }
}
