import { call, link } from '../lib/api.js'
import { openDialog } from '../lib/dialogs.js'
import { Field, FormDialog, useForm } from '../lib/form.js'
import { classes, html, useEffect, useRef, useState } from '../lib/html.js'
import { nameOf } from '../lib/media.js'
import { mediaOf, useMediaOf } from '../lib/media-cache.js'
import { usePages } from '../lib/pages.js'
import { Avatar, Problem, Wait } from '../lib/parts.js'
import { may } from '../lib/permissions.js'
import { inWords } from '../lib/refusals.js'
import { announce, toast } from '../lib/toast.js'
import { Composer } from './composer.js'
import { draftOf, draftsIn } from './drafts.js'
import { Reactions } from './reactions.js'
import { ago, piecesOf, repliesOf, toDraft, withGone } from './words.js'

export const LOOK_MS = 5000

const say = (error) => toast(inWords(error))

/**
 * A comment with what is below it. `at`: {event, org, path, names, discussed, openViewer, base, root} of the discussion; `list` and
 * `base` are those of the comments that it is among, `parent` is the comment to which it is a reply.
 */
export function Comment({ c, at, list, base, parent }) {
  const { org, path, names } = at
  const id = c.comment_id
  const about = parent ? [c, parent] : [c]
  const replyPath = `${path}/comment/${id}/comments`
  /** `kept` after the discussion was closed and opened again: then it does not take the focus. */
  const [replying, setReplying] = useState(() => draftOf(at.base, `reply ${id}`) && 'kept')
  const [editing, setEditing] = useState(() => draftOf(at.base, `edit ${id}`))
  const [isOpen, setOpen] = useState(() => draftsIn(at.base).some((draft) => draft.about?.[1]?.comment_id === id))
  const root = useRef()
  const replies = useRef()
  const focusOn = (part) =>
    setTimeout(() => (root.current?.querySelector(`:scope > * > .comment-foot > ${part}`) ?? root.current)?.focus())
  const changed = () => list.reload()

  async function edit() {
    // Without what is attached, saving would take it off.
    const attached = await Promise.all(c.media_ids.map((media) => mediaOf(org, media))).catch(say)
    if (attached) setEditing({ ...toDraft(c, names.of), media: attached.filter(Boolean) })
  }
  const edited = async () => {
    setEditing(undefined)
    announce('The comment is changed')
    await changed()
    focusOn('.edit')
  }
  const cancelEdit = () => {
    setEditing(undefined)
    focusOn('.edit')
    if (c.deleted) void changed()
  }
  function reply() {
    if (c.reply_count > 0) setOpen(true)
    if (replying) root.current.querySelector('.reply-new textarea').focus()
    else setReplying('begun')
  }
  const endReply = () => {
    setReplying(undefined)
    focusOn('.reply')
    if (c.deleted) void changed()
  }
  const replied = async () => {
    announce('The reply is posted')
    setOpen(true)
    endReply()
    await (replies.current ?? list).reload()
  }
  /** What was deleted may be gone with its buttons, even before the answer: then what was next to it has the focus. */
  async function remove(body) {
    const here = root.current
    const near = here?.nextElementSibling ?? here?.previousElementSibling ?? here?.parentElement.closest('.comment')
    await call('DELETE', `${base}/${id}`, body)
    return async () => {
      announce('The comment is deleted')
      await changed()
      setTimeout(() =>
        [here, near, at.root.current?.querySelector('.comment-list')].find((node) => node?.isConnected)?.focus(),
      )
    }
  }
  const askToRemove = () => openDialog((close) => html`<${Deletion} remove=${remove} onClose=${close} />`)

  return html`
    <li ref=${root} class=${classes('comment', c.deleted && 'deleted')} data-comment=${id} tabindex="-1">
      <${Avatar} name=${c.deleted ? ' ' : (c.author_name ?? '?')} />
      <div class="comment-main">
        ${!c.deleted && html`<${Head} c=${c} />`}
        ${
          editing
            ? html`<${Composer}
                org=${org} path=${at.path} label="Change the comment" submit="Save" hasFocus=${!editing.before} initial=${editing} kept=${{ base: at.base, slot: `edit ${id}`, about }}
                send=${(body) => call('PATCH', `${base}/${id}`, body)} onSent=${edited} onCancel=${cancelEdit}
              />`
            : html`<${Said} c=${c} at=${at} />`
        }
        ${!c.deleted && html`<${Foot} c=${c} at=${at} does=${{ changed, remove: askToRemove, edit: !editing && edit, reply: !parent && reply }} />`}
        ${
          (c.reply_count > 0 || isOpen) &&
          html`<button class="button quiet show-replies" type="button" aria-expanded=${String(isOpen)} onClick=${() => setOpen(!isOpen)}>${isOpen ? 'Hide the replies' : repliesOf(c)}</button>`
        }
        ${isOpen && html`<${Replies} c=${c} at=${at} base=${replyPath} handle=${replies} onChanged=${changed} />`}
        ${
          replying &&
          html`
            <div class="reply-new">
              <${Composer}
                org=${org} path=${at.path} label=${`Reply to ${c.author_name ?? 'the comment'}`} submit="Reply" hasFocus=${replying === 'begun'} kept=${{ base: at.base, slot: `reply ${id}`, about }}
                send=${(body, key) => call('POST', replyPath, body, key)} onSent=${replied} onCancel=${endReply}
              />
            </div>`
        }
      </div>
    </li>`
}

const Head = ({ c }) => html`
  <p class="comment-head">
    <bdi class="comment-author">${c.author_name ?? 'Someone'}</bdi> <time class="muted small comment-time" datetime=${c.created_at} title=${new Date(c.created_at).toLocaleString()}>${ago(c.created_at, Date.now())}</time>${c.edited && html` <span class="muted small comment-edited">· edited</span>`}
  </p>`

const Foot = ({ c, at: { event, path }, does }) => html`
  <div class="comment-foot">
    <${Reactions} target=${c} place=${{ path, type: 'comment', id: c.comment_id }} mayReact=${may(event, 'reaction.add')} onChanged=${does.changed} />
    ${does.reply && may(event, 'comment.create') && html`<button class="button quiet reply" type="button" onClick=${does.reply}>Reply</button>`}
    ${does.edit && may(c, 'comment.edit') && html`<button class="button quiet edit" type="button" onClick=${does.edit}>Change</button>`}
    ${may(c, 'comment.delete') && html`<button class="button quiet delete" type="button" onClick=${does.remove}>Delete</button>`}
  </div>`

/** The oldest first, as one reads them. */
function Replies({ c, at, base, handle, onChanged }) {
  const list = usePages(base, 'comments', {
    query: { limit: '50', include_deleted: 'true' },
    every: LOOK_MS,
    prepare: (comments) => at.names.need(comments.flatMap(({ mentions }) => mentions)),
  })
  handle.current = { ...list, reload: () => list.reload().then(onChanged) }
  useEffect(() => () => (handle.current = undefined), [])
  const mine = draftsIn(at.base).filter(({ about }) => about?.[1]?.comment_id === c.comment_id)
  const replies =
    list.items &&
    withGone(
      list.items,
      list.hasMore,
      mine.map(({ about }) => about[0]),
    ).toReversed()
  return html`
    ${list.hasMore && html`<button class="button quiet earlier-replies" type="button" disabled=${list.isMore} onClick=${list.more}>Earlier replies</button>`}
    <${Problem} class="small" error=${list.error} />
    ${!replies && !list.error && html`<${Wait} label="Loading the replies" />`}
    <ul class="replies" aria-label="Replies">
      ${replies?.map((reply) => html`<${Comment} key=${reply.comment_id} c=${reply} at=${at} list=${handle.current} base=${base} parent=${c} />`)}
    </ul>`
}

const Said = ({ c, at }) => html`
  <div class="comment-content">
    <p class="comment-body" dir="auto">
      ${c.deleted ? 'This comment was deleted.' : piecesOf(c).map(({ text, id }) => (id ? html`<bdi class="mention">@${at.names.of(id)}</bdi>` : text))}
    </p>
    ${c.media_ids.length > 0 && html`<ul class="comment-media" aria-label="Attached">${c.media_ids.map((id) => html`<${Attached} key=${id} id=${id} c=${c} at=${at} />`)}</ul>`}
  </div>`

/** A media item of a comment; the viewer goes through all of them. */
function Attached({ id, c, at }) {
  const { org, discussed, openViewer } = at
  const found = useMediaOf(org, id)
  const [isGone, setGone] = useState(false)
  const m = isGone ? null : found
  const button = useRef()
  async function open() {
    const asked = c.media_ids.map((other) => mediaOf(org, other, { isFresh: true }))
    const all = (await Promise.all(asked).catch(say))?.filter(Boolean)
    if (!all) return
    const here = (wanted) => all.findIndex((other) => other.media_id === wanted)
    if (here(id) < 0) {
      setGone(true)
      return toast('This photo was deleted.')
    }
    openViewer(all[here(id)], {
      find: (wanted) => all[here(wanted)],
      neighbour: (wanted, step) => ({ item: all[here(wanted) + step] }),
      refresh: (other) => mediaOf(org, other.media_id, { isFresh: true }),
      discussed,
      closed: () => button.current?.focus(),
    })
  }
  if (m === null) return null
  return html`
    <li>
      ${m && html`<button ref=${button} type="button" aria-label=${`Open ${nameOf(m)}`} onClick=${open}>${m.variants.image_thumb_url && html`<img alt="" src=${link(m.variants.image_thumb_url)} />`}</button>`}
    </li>`
}

/** `remove(body)` returns what is to be done once the dialog is closed. */
function Deletion({ remove, onClose }) {
  const form = useForm({
    initial: { reason: '' },
    async save({ reason }) {
      const done = await remove(reason.trim() === '' ? {} : { reason: reason.trim() })
      onClose()
      await done()
    },
  })
  return html`
    <${FormDialog} title="Delete this comment?" form=${form} label="Delete" isNarrow onClose=${onClose}>
      <p class="muted">Replies to it stay. This cannot be taken back.</p>
      <${Field} form=${form} name="reason" label="Reason" hint="optional" maxlength="500" autocomplete="off" />
    <//>`
}
