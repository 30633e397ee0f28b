import * as z from 'zod'
import { type OwnData, titleIfSeen } from '../../requests/own-data.ts'
import { outputId, outputTime } from '../../requests/schemas.ts'
import { ownComments, ownReactions } from './own-data-queries.ts'

export const ownDiscussions: OwnData = {
  sections: [
    {
      name: 'comments',
      title: 'Your comments',
      heading: 'event_title',
      record: z.strictObject({
        comment_id: outputId('comment'),
        event_id: outputId('event'),
        event_title: titleIfSeen,
        media_id: outputId('media').nullable(),
        text: z.string(),
        earlier_texts: z.array(z.string()).meta({ description: 'Before edits, the oldest first' }),
        created_at: outputTime(),
        updated_at: outputTime(),
        deleted_at: outputTime().nullable(),
      }),
      list: ownComments,
    },
    {
      name: 'reactions',
      title: 'Your reactions',
      heading: 'emoji',
      record: z.strictObject({
        reaction_id: outputId('reaction'),
        emoji: z.string(),
        event_id: outputId('event'),
        event_title: titleIfSeen,
        comment_id: outputId('comment').nullable(),
        media_id: outputId('media').nullable(),
        created_at: outputTime(),
      }),
      list: ownReactions,
    },
  ],
}
