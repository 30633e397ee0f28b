import * as z from 'zod'
import { formatId, type Uuid } from '../../../../lib/contract/ids.ts'
import { outputId } from '../../../requests/schemas.ts'
import { EMOJIS, type Emoji, parseEmoji } from './emoji.ts'

/** Generators of clients make no names of emojis. */
const NAMES = { 'x-enum-varnames': ['HEART', 'LAUGHING', 'PARTY', 'CRYING', 'CLAPPING', 'FIRE'] }

const ReactionEmoji = z.enum(EMOJIS).meta({ id: 'ReactionEmoji', ...NAMES })

const GivenEmoji = z
  .string()
  .meta({
    id: 'GivenEmoji',
    description: 'One of six, with or without the variation selector U+FE0F',
    override: ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) =>
      void Object.assign(jsonSchema, { type: 'string', enum: EMOJIS, ...NAMES }),
  })
  .transform((given, ctx): Emoji => {
    const emoji = parseEmoji(given)
    if (emoji) return emoji
    ctx.addIssue({ code: 'custom', message: `must be one of ${EMOJIS.join(' ')}` })
    return z.NEVER
  })

const Count = z
  .int()
  .min(0)
  .max(2 ** 31 - 1)

export type Counts = Record<Emoji, number>

export const NO_REACTIONS = Object.fromEntries(EMOJIS.map((emoji) => [emoji, 0])) as Counts

/** The database counts what there is; those who read want all six. */
export const toCounts = (counted: Partial<Counts> | null): Counts => ({ ...NO_REACTIONS, ...counted })

export const ReactionCounts = z.record(ReactionEmoji, Count).meta({
  id: 'ReactionCounts',
  description: 'By emoji; always all six',
  example: NO_REACTIONS,
  // A map for generated clients: names of required fields would make them look for fields.
  override: ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) => void delete jsonSchema['required'],
})

export const OwnReaction = z
  .object({ reaction_id: outputId('reaction'), emoji: ReactionEmoji })
  .meta({ id: 'OwnReaction', description: 'The reaction of the caller' })

/** A row as JSON of a subquery. */
export type OwnReactionRow = { id: Uuid; emoji: Emoji } | null

/** The reactions to a target, as the caller sees them. */
export interface FoundReactions {
  /** Null without reactions. */
  counts: Partial<Counts> | null
  own: OwnReactionRow
}

export const toOwnReaction = (row: OwnReactionRow): z.input<typeof OwnReaction> | null =>
  row && { reaction_id: formatId('reaction', row.id), emoji: row.emoji }

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
