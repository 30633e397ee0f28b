import { call } from './client.js'
import { newComment } from './comment-view.js'
import { tombstoneOf, withOthers } from './comment-words.js'
import { announce, arrange, toast } from './dom.js'
import { newComposer } from './composer.js'
import { newNames } from './lib/names.js'
import { newPager } from './pager.js'
import { inWords } from './refusal-words.js'

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
    const mine = { names: newNames(org), nodes: new Map(), list: newPager(base, 'comments', { limit: '20', include_deleted: 'true' }) }
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

  /**
   * Brings the comments up to date. `event` is the present state of the event. Returns what the comments are about, with
   * the reactions to it; undefined if a later look is to say so.
   */
  async function look(event) {
    if (!at) return
    at.event = event
    return lookAt(at)
  }

  async function lookAt(mine) {
    const [isNewest] = await Promise.all([mine.list.again(), ...[...mine.nodes.values()].map((node) => node.look())])
    const target = isNewest ? mine.list.target() : undefined
    await render(mine)
    return target
  }

  async function render(mine) {
    const comments = mine.list.items()
    await mine.names.need(comments.flatMap(({ mentions }) => mentions))
    if (mine !== at) return
    const shown = withOthers(comments, unsentBelow(mine, comments))
    parts.fresh.hidden = mine.event.status === 'archived'
    parts.none.hidden = shown.length > 0
    parts.more.hidden = !mine.list.hasMore()
    const nodes = new Map(shown.map((comment) => [comment.comment_id, nodeOf(mine, comment)]))
    for (const comment of shown) nodes.get(comment.comment_id).update(comment)
    mine.nodes = nodes
    arrange(parts.list, [...nodes.values()].map(({ element }) => element))
  }

  /** Comments that are no longer there, below which something is typed and not sent: it stays, to be copied. */
  function unsentBelow(mine, comments) {
    const there = new Set(comments.map(({ comment_id }) => comment_id))
    const end = mine.list.hasMore() ? comments.at(-1)?.created_at : undefined
    const isGone = (c) => !there.has(c.comment_id) && (!end || c.created_at > end)
    const kept = [...mine.nodes.values()].filter((node) => node.isUnsent() && isGone(node.comment()))
    return kept.map((node) => tombstoneOf(node.comment()))
  }

  /** Elements of comments that are there stay, with what is typed in them. */
  const nodeOf = (mine, { comment_id: id }) => mine.nodes.get(id) ?? newComment(mine, contextOf(mine))

  const contextOf = (mine) => ({ base: mine.base, changed: () => lookAt(mine) })

  parts.more.addEventListener('click', async () => {
    const mine = at
    await mine.list.more().catch((error) => toast(inWords(error)))
    if (mine === at) await render(mine)
  })

  return { open, close, look }
}
