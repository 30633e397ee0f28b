import * as z from 'zod'
import { publicIdOfAnyKind } from '../../../lib/contract/public-id.ts'
import type { RefType as Ref, TimelineType as Type } from '../../db/schema/timeline.ts'
import { listOf, outputArray, outputId, outputTime, pageQuery, timeBound } from '../../requests/schemas.ts'
import { MAX_COUNT } from './summary.ts'

export const TimelineType = z
  .enum([
    'event_created',
    'event_activated',
    'album_created',
    'album_updated',
    'media_uploaded',
    'member_joined',
    'reaction_added',
    'comment_posted',
  ] satisfies Type[])
  .meta({ id: 'TimelineType' })
export const RefType = z
  .enum(['event', 'album', 'media', 'user', 'comment', 'reaction'] satisfies Ref[])
  .meta({ id: 'TimelineRefType', description: 'What `ref_id` is the id of' })

const TimelineMedia = z
  .object({
    media_id: outputId('media'),
    kind: z.enum(['image', 'video']).meta({ id: 'TimelineMediaKind' }),
    image_thumb_url: z.string().nullable().meta({ description: 'Null until the media item is converted' }),
    image_webp_url: z.string().nullable(),
    placeholder: z.string().nullable().meta({ description: 'Thumbhash in base64' }),
  })
  .meta({ id: 'TimelineMedia' })

/** Something that a member did, or did many times within a few hours. */
export const TimelineItem = z
  .object({
    timeline_item_id: outputId('timelineItem'),
    org_id: outputId('organization'),
    type: TimelineType,
    actor_id: outputId('user'),
    actor_name: z.string().nullable().meta({ description: 'Null for a user without a name, and for a former member' }),
    ref_type: RefType,
    ref_id: publicIdOfAnyKind(),
    event_id: outputId('event').nullable().meta({ description: 'The event to which it belongs' }),
    album_id: outputId('album').nullable(),
    title: z.string().nullable().meta({ description: 'Of the album, or of the event' }),
    summary: z.string().meta({ description: 'One line of English text', example: 'Mira added 5,000 photos' }),
    count: z
      .int()
      .min(1)
      .max(MAX_COUNT + 1)
      .nullable()
      .meta({
        description: `How many media items were added; ${MAX_COUNT + 1} stands for more than ${MAX_COUNT}. It grows while the item keeps its place. Null where none were added.`,
      }),
    media: outputArray(TimelineMedia, 4).meta({ description: 'The latest of them' }),
    created_at: outputTime().meta({ description: 'The position in the list, which never changes' }),
  })
  .meta({ id: 'TimelineItem' })
export type TimelineItem = z.input<typeof TimelineItem>

export const TimelineItems = listOf('items', TimelineItem)
export type TimelineItems = z.input<typeof TimelineItems>

export const timelineQuery = () =>
  pageQuery({ default: 20, max: 100 })
    .extend({
      from: timeBound().optional().meta({ description: 'No items from before this time' }),
      to: timeBound().optional().meta({ description: 'Only items from before this time' }),
    })
    .refine(({ from, to }) => from === undefined || to === undefined || from <= to, {
      path: ['from'],
      message: 'must not be after `to`',
    })
