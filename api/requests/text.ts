/**
 * Makes text of users safe to store. Every step that costs more than one pass over the text comes after the length
 * check: Unicode normalization is quadratic in the combining marks of one run, and a body may have 256 KiB.
 */
export interface TextBounds {
  /** In code points, after normalization. */
  min: number
  max: number
}

// Control characters except newline and tab. A carriage return is a line end, see `tidyText`.
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is its purpose
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/

/**
 * UAX #15 §13 (Stream-Safe Text Format): no text of any language has more than 30 non-starters in a row. Every
 * character with a combining class other than 0 has the general category M, so these expressions find all of them.
 */
const MAX_MARKS = 30
// The lookbehind starts one search per run; without it every mark would start one.
const MARK_FLOOD = new RegExp(`(?<!\\p{M})\\p{M}{${MAX_MARKS + 1}}`, 'u')
const MARK_EXCESS = new RegExp(`(?<!\\p{M})(\\p{M}{${MAX_MARKS}})\\p{M}+`, 'gu')

/**
 * UTF-16 units that `max` code points can have before NFC composes them: iPhones and macOS send decomposed names, and a
 * decomposed character that NFC composes has at most four units (Unicode FAQ, Normalization, maximum expansion).
 */
const unitsOf = (max: number) => 4 * max

/** Returns the text in NFC, with `\n` as line end, trimmed; or the issue. Linear in `max` for any input. */
export function tidyText(given: string, { min, max }: TextBounds): { text: string } | { issue: string } {
  const tooLong = { issue: `must have at most ${max} characters` }
  if (given.length > unitsOf(max)) return tooLong
  const lines = given.replace(/\r\n?/g, '\n')
  if (CONTROL.test(lines) || !isKeepable(lines)) return { issue: 'contains characters that are not allowed' }
  if (MARK_FLOOD.test(lines)) return { issue: `contains more than ${MAX_MARKS} combining marks in a row` }
  const text = lines.normalize('NFC').trim()
  const length = [...text].length
  if (length < min) return { issue: min === 1 ? 'must not be empty' : `must have at least ${min} characters` }
  return length > max ? tooLong : { text }
}

/** Postgres stores neither NUL (an error) nor halves of surrogate pairs (all become U+FFFD). */
export const isKeepable = (text: string) => text.isWellFormed() && !text.includes('\0')

/** The same normal form, for text that is made to fit instead of refused: a file name. */
export function fitText(given: string, max: number): string {
  const bounded = given.slice(0, unitsOf(max)).toWellFormed().replace(MARK_EXCESS, '$1').normalize('NFC')
  return [...bounded].slice(0, max).join('')
}
