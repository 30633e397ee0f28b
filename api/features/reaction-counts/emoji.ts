/** The fixed set of the specification. The heart has the variation selector that makes it an emoji. */
export const EMOJIS = ['\u2764\uFE0F', '😂', '🎉', '😢', '👏', '🔥'] as const
export type Emoji = (typeof EMOJIS)[number]

const EMOJI_PRESENTATION = '\uFE0F'
const withoutSelector = (text: string) => (text.endsWith(EMOJI_PRESENTATION) ? text.slice(0, -1) : text)
const BY_BASE = new Map<string, Emoji>(EMOJIS.map((emoji) => [withoutSelector(emoji), emoji]))

/** The emoji of the set, given with or without the variation selector; undefined for anything else. */
export const parseEmoji = (given: string): Emoji | undefined => BY_BASE.get(withoutSelector(given))
