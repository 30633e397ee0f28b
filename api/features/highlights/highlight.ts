import * as z from 'zod'
import { HIGHLIGHT_ERROR_CODES } from '../../../lib/contract/highlight-error.ts'
import { Can } from '../../permissions/can.ts'
import { bodyId, outputArray, outputId, outputTime, text } from '../../requests/schemas.ts'
import { Progress } from '../media/media.ts'

const MAX_ITEMS = 30

const Transition = z.enum(['cut', 'crossfade', 'fade']).meta({
  id: 'HighlightTransition',
  description:
    'Between two items. `crossfade`: they overlap for up to half a second; `fade`: through black, without overlap',
})
const Orientation = z.enum(['auto', 'landscape', 'portrait', 'square']).meta({
  id: 'HighlightOrientation',
  description: 'Shape of the highlight: 16:9, 9:16 or 1:1. `auto`: landscape or portrait, as most of the items are',
})
const Fill = z.enum(['blur', 'black']).meta({
  id: 'HighlightFill',
  description: 'What surrounds an item of another shape: itself, enlarged and blurred, or black',
})
const Captions = z.enum(['none', 'caption', 'date']).meta({
  id: 'HighlightCaptions',
  description:
    'Text over the items: none, the caption in the album, or the date on which the item was taken, by the clock of the camera. An item without one has no text. The date of a video is unknown if its file gives the time in UTC only, and that of any item if its conversion has not ended when the highlight begins to be rendered',
})
const HighlightStatus = z.enum(['processing', 'completed', 'failed']).meta({ id: 'HighlightStatus' })

const MediaIds = z
  .array(bodyId('media'))
  .min(1)
  .max(MAX_ITEMS)
  .refine((ids) => new Set(ids).size === ids.length, 'must not have the same media item twice')
  .meta({ uniqueItems: true, description: 'In playback order' })

export const NewHighlight = z.object({
  title: text(1, 200),
  media_ids: MediaIds,
  transition: Transition.nullish().meta({ description: '`cut` unless given' }),
  music_track_id: bodyId('track').nullish(),
  orientation: Orientation.nullish().meta({ description: '`auto` unless given' }),
  fill: Fill.nullish().meta({ description: '`blur` unless given' }),
  ken_burns: z.boolean().nullish().meta({ description: 'Whether photos move slowly; true unless given' }),
  show_title: z
    .boolean()
    .nullish()
    .meta({ description: 'Whether the title appears over the first seconds; true unless given' }),
  captions: Captions.nullish().meta({ description: '`none` unless given' }),
  skip_broken: z.boolean().nullish().meta({
    description:
      'true: items that cannot be decoded are left out, and `items` says so. false, unless given: the highlight fails, or is refused where the conversion of an item has failed already',
  }),
})
export type NewHighlight = z.output<typeof NewHighlight>

const Seconds = z.number().min(0).max(86_400)
const WholeSeconds = z.int().min(0).max(86_400)

export const CreatedHighlight = z
  .object({
    highlight_id: outputId('highlight'),
    album_id: outputId('album').nullable(),
    status: HighlightStatus,
    estimated_duration_sec: WholeSeconds.meta({
      description:
        'Whole seconds, rounded up. A video that is still `processing` counts as if it were 6 seconds long, the moving part of a Live Photo as if it were 3',
    }),
    skipped_media_ids: outputArray(outputId('media'), MAX_ITEMS).meta({
      description: 'With `skip_broken`: media items that are left out because their conversion has failed',
    }),
  })
  .meta({ id: 'CreatedHighlight' })
export type CreatedHighlight = z.input<typeof CreatedHighlight>

const HighlightError = z
  .object({
    code: z.enum(HIGHLIGHT_ERROR_CODES).meta({
      id: 'HighlightErrorCode',
      description:
        '`SOURCE_DELETED`: a media item was deleted before the highlight was finished. `SOURCE_ERASED`: the highlight showed media items or words of a user who has been erased. `ITEM_FAILED`: an item cannot be used',
    }),
    message: z.string(),
    media_id: outputId('media').nullable().meta({ description: 'The media item that it is about' }),
  })
  .meta({ id: 'HighlightError' })

const HighlightItem = z
  .object({
    media_id: outputId('media'),
    type: z.enum(['image', 'video', 'motion']).meta({
      id: 'HighlightItemType',
      description: '`motion`: the moving part of a Live Photo. It can become `image` before the render begins',
    }),
    start_sec: Seconds.nullable().meta({ description: 'When it begins in the highlight; null until that is finished' }),
    duration_sec: Seconds.nullable(),
    skipped: z
      .string()
      .nullable()
      .meta({ description: 'Why the item was left out; null for an item that is in the highlight' }),
  })
  .meta({ id: 'HighlightItem' })

const HighlightVariants = z
  .object({
    hls_master_url: z.string().nullable().meta({
      description:
        'HLS master playlist. Present as soon as the beginning of the highlight can be played, even while `processing`',
    }),
    image_webp_url: z.string().nullable().meta({ description: 'A frame of the highlight' }),
    image_thumb_url: z.string().nullable().meta({ description: 'A frame of the highlight, for grids' }),
  })
  .meta({ id: 'HighlightVariants', description: 'Null for one that does not exist' })

export const Highlight = z
  .object({
    highlight_id: outputId('highlight'),
    org_id: outputId('organization'),
    album_id: outputId('album').nullable().meta({ description: 'Who can see the album can see the highlight' }),
    title: z.string(),
    status: HighlightStatus,
    media_ids: outputArray(outputId('media'), MAX_ITEMS).meta({
      description: 'In playback order, as they were chosen: also those that have been deleted since',
    }),
    transition: Transition,
    music_track_id: outputId('track').nullable(),
    orientation: Orientation,
    fill: Fill,
    ken_burns: z.boolean(),
    show_title: z.boolean(),
    captions: Captions,
    skip_broken: z.boolean(),
    estimated_duration_sec: WholeSeconds,
    duration_sec: Seconds.nullable().meta({ description: 'Null until the highlight is finished' }),
    variants: HighlightVariants,
    placeholder: z.string().nullable().meta({ description: 'Thumbhash of a frame, in base64' }),
    expires_in: z.int().min(1).max(86_400).meta({ description: 'Minimum number of seconds for which the links work' }),
    progress: Progress.nullable().meta({ description: 'Null when the highlight is not being rendered' }),
    items: outputArray(HighlightItem, MAX_ITEMS),
    created_by: outputId('user'),
    created_at: outputTime(),
    error: HighlightError.nullable(),
    can: Can,
  })
  .meta({ id: 'Highlight' })
export type Highlight = z.input<typeof Highlight>
