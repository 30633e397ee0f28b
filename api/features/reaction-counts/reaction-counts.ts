import * as z from 'zod'
import type { Uuid } from '../../../lib/contract/ids.ts'
import { outputId } from '../../requests/schemas.ts'
import { EMOJIS, type Emoji } from './emoji.ts'

/** Client generators cannot make names of emojis. */
export const EMOJI_NAMES = { 'x-enum-varnames': ['HEART', 'LAUGHING', 'PARTY', 'CRYING', 'CLAPPING', 'FIRE'] }

export const ReactionEmoji = z.enum(EMOJIS).meta({ id: 'ReactionEmoji', ...EMOJI_NAMES })

const Count = z
  .int()
  .min(0)
  .max(2 ** 31 - 1)

export type Counts = Record<Emoji, number>

export const NO_REACTIONS = Object.fromEntries(EMOJIS.map((emoji) => [emoji, 0])) as Counts

/** Responses have all six emojis; the database returns only those with a reaction. */
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
  row && { reaction_id: row.id, emoji: row.emoji }
