import { call } from '../lib/api.js'
import { html, useMemo, useRef } from '../lib/html.js'
import { newNames } from '../lib/names.js'
import { usePages } from '../lib/pages.js'
import { More, Problem, Wait } from '../lib/parts.js'
import { may } from '../lib/permissions.js'
import { announce } from '../lib/toast.js'
import { Comment, LOOK_MS } from './comment.js'
import { Composer } from './composer.js'
import { draftOf, draftsIn } from './drafts.js'
import { Reactions } from './reactions.js'
import { withGone } from './words.js'

const GONE = 'It can no longer be discussed here: it was taken out of the album, or the album is not for you to see.'

/**
 * What is said about an event or about a media item of it, `{type, id}`, with the reactions to it. `path` is that of the
 * event. What a person has begun to write is there again when the discussion is opened again.
 */
export function Discussion({ event, org, path, me, type, id, openViewer }) {
  const base = `${path}/${type}/${id}/comments`
  const names = useMemo(() => {
    const known = newNames(org, path)
    known.learn([me])
    return known
  }, [org, path])
  const list = usePages(base, 'comments', {
    query: { limit: '20', include_deleted: 'true' },
    every: LOOK_MS,
    prepare: (comments) => names.need(comments.flatMap(({ mentions }) => mentions)),
  })
  const root = useRef()
  const present = useRef()
  present.current = event
  const discussed = useMemo(() => ({ event: () => present.current, org, path, me }), [org, path])
  const at = { event, org, path, names, discussed, openViewer, base, root }
  const comments =
    list.items &&
    withGone(
      list.items,
      list.hasMore,
      draftsIn(base).flatMap(({ about = [] }) => about.slice(-1)),
    )
  const isGone = list.error?.status === 404
  const post = (body, key) => call('POST', base, body, key)
  const posted = async () => {
    announce('The comment is posted')
    await list.reload()
  }
  return html`
    <div ref=${root} class="discussed">
      <${Reactions} target=${list.first?.target} place=${{ path, type, id }} mayReact=${may(event, 'reaction.add') && !isGone} onChanged=${list.reload} />
      <${Problem} class="small" text=${isGone ? GONE : undefined} error=${list.error} />
      ${
        (may(event, 'comment.create') || draftOf(base, 'new')) &&
        html`
          <div class="comment-new">
            <${Composer} org=${org} path=${path} label="Write a comment. @ mentions someone" submit="Comment" send=${post} onSent=${posted} kept=${{ base, slot: 'new' }} />
          </div>`
      }
      ${!comments && !list.error && html`<${Wait} label="Loading the comments" />`}
      ${comments?.length === 0 && html`<p class="muted nothing-said">No comments yet.</p>`}
      <ul class="comment-list" aria-label="Comments" tabindex="-1">
        ${comments?.map((c) => html`<${Comment} key=${c.comment_id} c=${c} at=${at} list=${list} base=${base} />`)}
      </ul>
      <${More} list=${list} label="Show earlier comments" />
    </div>`
}
