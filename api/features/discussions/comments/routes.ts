import type * as z from 'zod'
import type { ApiDeps } from '../../../deps.ts'
import { inOrganization } from '../../../http/in-organization.ts'
import type { Route } from '../../../http/route.ts'
import { MENTION_LIMIT } from '../../../limits/classes.ts'
import { countedPoints } from '../../../limits/points.ts'
import { exampleId, listOf, pageQuery } from '../../../requests/schemas.ts'
import { isGuest } from '../../events/guests.ts'
import { NO_REACTIONS } from '../../reaction-counts/reaction-counts.ts'
import { findReactions } from '../../reaction-counts/target-queries.ts'
import { changeComment, deleteComment, openThread, postComment, showComment } from './commands.ts'
import {
  Comment,
  CommentDeletion,
  CommentDeletionQuery,
  CommentEdit,
  DeletedQuery,
  InThread,
  NewComment,
  OneComment,
  ThreadTarget,
  targetOf,
  toComment,
  toThreadTarget,
} from './comment.ts'
import { commentActions } from './policy.ts'
import { listComments } from './queries.ts'

const tags = ['Comments']
const COMMENTS = '/api/orgs/{org_id}/events/{event_id}/{action_destination}/{action_id}/comments'
const ONE_COMMENT = `${COMMENTS}/{comment_id}` as const

const GIVEN = { body: 'Do you remember this evening?', media_ids: [], mentions: [] }
const EXAMPLE: z.output<typeof Comment> = {
  comment_id: exampleId('comment'),
  event_id: exampleId('event'),
  target: { type: 'meta', id: exampleId('event') },
  author_id: exampleId('user'),
  author_name: 'Ann',
  ...GIVEN,
  reply_count: 0,
  edited: false,
  deleted: false,
  created_at: '2026-11-21T09:30:00.000Z',
  updated_at: '2026-11-21T09:30:00.000Z',
  reaction_counts: NO_REACTIONS,
  my_reaction: null,
  can: ['comment.delete', 'comment.edit'],
}
const EDITED: z.output<typeof Comment> = {
  ...EXAMPLE,
  body: 'Do you remember this night?',
  edited: true,
  updated_at: '2026-11-21T09:31:00.000Z',
}

const EXAMPLE_THREAD = { ...EXAMPLE.target, reaction_counts: { ...NO_REACTIONS, '🎉': 2 }, my_reaction: null }

const CommentPage = listOf('comments', Comment).extend({ target: ThreadTarget }).meta({ id: 'CommentPage' })

const TARGETS =
  'Comments are about the event (`meta`, and the id of the event), about a comment that is no reply itself, or about a media item that is in the album of the event, if the caller can see the album, or attached to a comment of the event. Either half of a Live Photo names the Live Photo, whose comments have the id of its image.'
const MENTIONS =
  'Mentioned users are those of `mentions` and those whom the body names as `@user_id`; each has to be able to see the comment, as a member or as a guest of the event. One user can mention 300 others an hour (`RATE_LIMITED`).'

const threadPath = (params: { event_id: string } & Parameters<typeof targetOf>[0]) => ({
  eventId: params.event_id,
  target: targetOf(params),
})

/** Comments on an event and on what belongs to it. */
export function commentRoutes(deps: ApiDeps): Route[] {
  const { read, write } = inOrganization(deps)
  const telling = { takeMentions: countedPoints('mention', MENTION_LIMIT, deps.config.RATE_LIMIT_FACTOR) }
  return [
    write({
      method: 'post',
      path: COMMENTS,
      operationId: 'createComment',
      tags,
      summary: 'Comment on an event, a comment or a media item',
      description: `For all who can see what the comment is about. ${TARGETS} ${MENTIONS} Members can attach up to four media items of the organization; guests of the event have none to attach (\`MEDIA_NOT_AVAILABLE\`). Replies have one level: a reply to a reply is refused.`,
      problems: ['EVENT_ARCHIVED', 'MEDIA_NOT_AVAILABLE'],
      limit: 'comment',
      action: commentActions.create,
      isGuest,
      params: InThread,
      body: NewComment,
      status: 201,
      response: Comment,
      examples: { request: GIVEN, response: EXAMPLE },
      handle: (request) =>
        postComment(request, { ...threadPath(request.params), field: 'path.action_id' }, request.body, telling),
    }),
    read({
      method: 'get',
      path: COMMENTS,
      operationId: 'listComments',
      tags,
      summary: 'List comments, newest first',
      description: `${TARGETS} Replies are listed with their comment as the target, also after that comment was deleted. Deleted comments are left out, unless \`include_deleted\` asks for those that have replies; they are shown without what they said. The target is there with the reactions to it.`,
      action: commentActions.read,
      params: InThread,
      query: pageQuery({ default: 20, max: 100 }).extend(DeletedQuery.shape),
      response: CommentPage,
      examples: { response: { comments: [EXAMPLE], next_cursor: null, has_more: false, target: EXAMPLE_THREAD } },
      async handle(request) {
        const withDeleted = request.query.include_deleted
        const thread = { ...(await openThread(request, threadPath(request.params))), withDeleted }
        const { callerId: userId, type: targetType, eventId, ids, sees } = thread
        // Independent of each other, so that they leave together.
        const [listed, reactions] = await Promise.all([
          request.page(
            'comments',
            (wanted) => listComments(request.tx, { ...thread, ...wanted }),
            (row) => toComment(row, thread, request.now),
          ),
          findReactions(request.tx, { eventId, targetType, ids, sees, userId }),
        ])
        return { ...listed, target: toThreadTarget(thread, reactions) }
      },
    }),
    read({
      method: 'get',
      path: ONE_COMMENT,
      operationId: 'getComment',
      tags,
      summary: 'Show one comment',
      description:
        'For all who can see what the comment is about. A deleted comment is not found, unless it has replies and `include_deleted` asks for it; it is shown without what it said.',
      action: commentActions.read,
      params: OneComment,
      query: DeletedQuery,
      response: Comment,
      examples: { response: EXAMPLE },
      handle: (request) =>
        showComment(request, commentPath(request.params), { withDeleted: request.query.include_deleted }),
    }),
    write({
      method: 'patch',
      path: ONE_COMMENT,
      operationId: 'editComment',
      tags,
      summary: 'Edit a comment within 15 minutes',
      description: `For the author, within 15 minutes after the comment was posted. A field that the request does not name stays as it is; null clears the attachments or the mentions of the field. Earlier versions are kept. ${MENTIONS} Users whom the comment has mentioned before are not told again.`,
      problems: ['EVENT_ARCHIVED', 'COMMENT_EDIT_WINDOW_EXPIRED', 'MEDIA_NOT_AVAILABLE'],
      limit: 'comment',
      action: commentActions.edit,
      isGuest,
      params: OneComment,
      body: CommentEdit,
      status: 200,
      response: Comment,
      examples: { request: { body: EDITED.body }, response: EDITED },
      handle: (request) => changeComment(request, commentPath(request.params), request.body, telling),
    }),
    write({
      method: 'delete',
      path: ONE_COMMENT,
      operationId: 'deleteComment',
      tags,
      summary: 'Delete a comment',
      description:
        'For the author, the owner of the event and the owners and administrators of the organization, also of an archived event. Replies stay.',
      action: commentActions.delete,
      isGuest,
      params: OneComment,
      query: CommentDeletionQuery,
      body: CommentDeletion,
      status: 204,
      examples: { request: { reason: 'Names a guest who does not want to be named' } },
      handle: (request) =>
        deleteComment(request, commentPath(request.params), request.body.reason ?? request.query.reason ?? null),
    }),
  ]
}

const commentPath = (params: { comment_id: string } & Parameters<typeof threadPath>[0]) => ({
  ...threadPath(params),
  id: params.comment_id,
})
