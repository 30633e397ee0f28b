import { call } from './client.js'
import { newComment } from './comment-view.js'
import { tombstoneOf, withTombstones } from './comment-words.js'
import { announce, arrange, toast } from './dom.js'
import { newComposer } from './composer.js'
import { newNames } from './names.js'
import { newPager } from './pager.js'
import { inWords } from './refusal-words.js'
import { forgetReplied, rememberReplied, repliedIn } from './replied-comments.js'

/** Discussions that were left with something unsent, by where they are: their elements, with all that is typed in them. */
const unsent = new Map()

/** What is unsent belongs to the person who wrote it. */
export const forgetUnsent = () => unsent.clear()

/**
 * Comments on one target at a time: a form, and the list. `parts`: the elements {fresh, none, list, more}. What a person
 * has begun to write about a target is there again when that target is opened again.
 */
export function newDiscussion(parts) {
  let at

  /**
   * Shows the discussion at `base`, the path of its comments. `given`: {base, event, org, path, me, label, openViewer}.
   * Call `look` to fill it.
   */
  function open(given) {
    at = unsent.get(given.base) ?? begin(given)
    unsent.delete(given.base)
    Object.assign(at, given)
    parts.list.replaceChildren()
    parts.none.hidden = true
    parts.more.hidden = true
    parts.fresh.replaceChildren(at.composer.element)
    parts.fresh.hidden = at.event.status === 'archived'
  }

  function begin({ base, org, me, label }) {
    const mine = { names: newNames(org), nodes: new Map(), list: newPager(base, 'comments', { limit: '20' }) }
    mine.names.learn([{ user_id: me.user_id, display_name: me.display_name }])
    mine.composer = newComposer({
      ...{ org, label, submit: 'Comment' },
      async send(body, key) {
        await call('POST', base, body, key)
        announce('The comment is posted')
        await lookAt(mine)
      },
    })
    return mine
  }

  /** Returns whether something was left unsent. It is kept for the next time. */
  function close() {
    if (!at) return false
    const isUnsent = at.composer.isUnsent() || [...at.nodes.values()].some((node) => node.isUnsent())
    if (isUnsent) unsent.set(at.base, at)
    at = undefined
    for (const part of [parts.fresh, parts.list]) part.replaceChildren()
    return isUnsent
  }

  /** Brings the comments up to date. `event` is the present state of the event. */
  async function look(event) {
    if (!at) return
    at.event = event
    await lookAt(at)
  }

  async function lookAt(mine) {
    await Promise.all([mine.list.again(), ...[...mine.nodes.values()].map((node) => node.look())])
    await render(mine)
  }

  async function render(mine) {
    const comments = mine.list.items()
    rememberReplied(mine.base, comments)
    await mine.names.need(comments.flatMap(({ mentions }) => mentions))
    const shown = withTombstones(comments, await deletedOf(mine, comments))
    if (mine !== at) return
    parts.fresh.hidden = mine.event.status === 'archived'
    parts.none.hidden = shown.length > 0
    parts.more.hidden = !mine.list.hasMore()
    const nodes = new Map(shown.map((comment) => [comment.comment_id, nodeOf(mine, comment)]))
    for (const comment of shown) nodes.get(comment.comment_id).update(comment)
    mine.nodes = nodes
    arrange(parts.list, [...nodes.values()].map(({ element }) => element))
  }

  /** The comments that were there and are deleted, if there is something below them still. The API no longer lists them. */
  async function deletedOf(mine, comments) {
    const there = new Set(comments.map(({ comment_id }) => comment_id))
    const end = mine.list.hasMore() ? comments.at(-1)?.created_at : undefined
    const known = new Map(repliedIn(mine.base).map((comment) => [comment.comment_id, comment]))
    for (const [id, node] of mine.nodes) known.set(id, node.comment())
    const gone = [...known.values()].filter((c) => !there.has(c.comment_id) && (!end || c.created_at > end))
    const found = await Promise.all(gone.map((comment) => tombstone(mine, comment)))
    return found.filter(Boolean)
  }

  /** Elements of comments that are there stay, with what is typed in them. */
  const nodeOf = (mine, { comment_id: id }) => mine.nodes.get(id) ?? newComment(mine, contextOf(mine))

  async function tombstone(mine, { comment_id: id, created_at }) {
    const comment = tombstoneOf({ comment_id: id, created_at })
    const node = nodeOf(mine, comment)
    node.update(comment)
    const hasReplies = await node.showReplies().catch((error) => {
      if (error.status !== 404) throw error
    })
    if (!hasReplies && !node.isUnsent()) return forgetReplied(mine.base, id)
    mine.nodes.set(id, node)
    return comment
  }

  const contextOf = (mine) => ({ base: mine.base, changed: () => lookAt(mine) })

  parts.more.addEventListener('click', async () => {
    const mine = at
    await mine.list.more().catch((error) => toast(inWords(error)))
    if (mine === at) await render(mine)
  })

  return { open, close, look }
}
