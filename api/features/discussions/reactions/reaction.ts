import * as z from 'zod'
import { outputId } from '../../../requests/schemas.ts'
import { EMOJIS, type Emoji, parseEmoji } from '../../reaction-counts/emoji.ts'
import { EMOJI_NAMES, ReactionCounts, ReactionEmoji } from '../../reaction-counts/reaction-counts.ts'

const GivenEmoji = z
  .string()
  .meta({
    id: 'GivenEmoji',
    description: 'One of six, with or without the variation selector U+FE0F',
    override: ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) =>
      void Object.assign(jsonSchema, { type: 'string', enum: EMOJIS, ...EMOJI_NAMES }),
  })
  .transform((given, ctx): Emoji => {
    const emoji = parseEmoji(given)
    if (emoji) return emoji
    ctx.addIssue({ code: 'custom', message: `must be one of ${EMOJIS.join(' ')}` })
    return z.NEVER
  })

const ANY_ID =
  /^(?:[a-z]{3}_[0-7][0-9a-hjkmnp-tv-z]{25}|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})$/

export const NewReaction = z.object({
  action_id: z.string().regex(ANY_ID, 'is not an id').meta({
    description: 'What the reaction is to, with its prefix or as a bare UUID: the event for `meta`',
    example: 'evt_01j4p0f84wfhz8mpfz3mjs2qaf',
  }),
  emoji: GivenEmoji,
})

export const Reaction = z
  .object({
    reaction_id: outputId('reaction').meta({ description: 'Stays the same if the user takes another emoji' }),
    emoji: ReactionEmoji,
    counts: ReactionCounts,
  })
  .meta({ id: 'Reaction' })
