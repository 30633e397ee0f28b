import { type EraseDeps, type Erased, type ErasedPerson, type PersonalPart, step } from '../../personal/part.ts'
import { commentsOf, eraseComment, eraseMentions, eraseReactions, eraseReasons } from './erasure-queries.ts'

export const discussionsPart: PersonalPart = {
  personal: {
    comments: {
      holds: 'comments',
      kept: 'as long as the event',
      columns: {
        author_id: { person: { stays: 'of a comment without words that others replied to' } },
        target_id: { harmless: 'the id of what the comment is about' },
        media_id: { harmless: 'the id of a media item' },
        body: { erase: 'row deleted, or emptied where others replied', canary: 'text' },
        mentions_given: { erase: 'the id is removed, also from comments of others', canary: 'id' },
        mentions: { erase: 'the id is removed, also from comments of others', canary: 'id' },
        deleted_by: { person: { stays: 'of comments of others that the person deleted' } },
        deleted_reason: { erase: 'removed where the person wrote it', canary: 'text' },
      },
    },
    comment_versions: {
      holds: 'what an edit of a comment replaced',
      kept: 'as long as the comment',
      columns: {
        body: { erase: 'row deleted; mentions in those of others are removed', canary: 'text' },
        media_ids: { harmless: 'ids of media items' },
        mentions: { erase: 'the id is removed, also from comments of others', canary: 'id' },
      },
    },
    comment_media: {
      holds: 'media items that are attached to comments',
      kept: 'as long as the comment',
      columns: { event_id: { harmless: 'the id of an event' } },
    },
    reactions: {
      holds: 'reactions',
      kept: 'as long as the event',
      columns: {
        target_id: { harmless: 'the id of what the reaction is to' },
        user_id: { person: 'gone' },
      },
    },
  },
  erase: [
    {
      name: 'discussions.comments',
      phase: 'texts',
      does: 'comments of the person are deleted with all versions and reasons of deletion; where others replied, an empty deleted comment stays',
      run: removeComments,
    },
    step({
      name: 'discussions.reasons',
      phase: 'texts',
      does: 'reasons that the person gave for the deletion of comments of others are removed',
      run: async ({ db }, { userId }) => ({ reasons: await eraseReasons(db, userId) }),
    }),
    step({
      name: 'discussions.mentions',
      phase: 'texts',
      does: 'mentions of the person in comments of others and in their earlier versions are removed',
      run: async ({ db, signal }, { userId }) => ({ mentions: await eraseMentions(db, userId, signal) }),
    }),
    step({
      name: 'discussions.reactions',
      phase: 'texts',
      does: 'reactions of the person are deleted',
      run: async ({ db }, person) => ({ reactions: await eraseReactions(db, person) }),
    }),
  ],
}

async function removeComments({ db, signal }: EraseDeps, person: ErasedPerson): Promise<Erased> {
  const ids = await db.inTransaction({}, (tx) => commentsOf(tx, person))
  for (const id of ids) {
    signal?.throwIfAborted()
    await db.inTransaction({}, (tx) => eraseComment(tx, id))
  }
  return { counts: { comments: ids.length } }
}
