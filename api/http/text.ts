/**
 * Rules for text that users wrote. Unicode normalization is quadratic in the combining marks of one run, and a body may have
 * 256 KiB, so the length and the runs are checked first.
 */
export interface TextBounds {
  /** In code points, after normalization. */
  min: number
  max: number
}

// Control characters but for newline and tab.
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is its purpose
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/

/**
 * UAX #15 §13 (Stream-Safe Text Format): no text of any language has more than 30 non-starters in a row. Every character
 * with a combining class other than 0 is of the general category M, so this finds all of them.
 */
const MOST_MARKS = 30
// The lookbehind makes each run count once: without it every mark begins a search of its own.
const MARK_FLOOD = new RegExp(`(?<!\\p{M})\\p{M}{${MOST_MARKS + 1}}`, 'u')
const MARK_EXCESS = new RegExp(`(?<!\\p{M})(\\p{M}{${MOST_MARKS}})\\p{M}+`, 'gu')

/**
 * UTF-16 units that `max` code points can have before NFC composes them: iPhones and macOS send names decomposed, and a
 * character that NFC composes again is at most four units long then (Unicode FAQ, Normalization, maximum expansion).
 */
const unitsOf = (max: number) => 4 * max

/** NFC, with `\n` as the end of a line, trimmed; or what is wrong with it. Linear in `max`, whatever was sent. */
export function tidyText(given: string, { min, max }: TextBounds): { text: string } | { issue: string } {
  const tooLong = { issue: `must have at most ${max} characters` }
  if (given.length > unitsOf(max)) return tooLong
  const lines = given.replaceAll('\r\n', '\n')
  if (CONTROL.test(lines) || !isKeepable(lines)) return { issue: 'holds characters that are not allowed' }
  if (MARK_FLOOD.test(lines)) return { issue: `holds more than ${MOST_MARKS} combining marks in a row` }
  const text = lines.normalize('NFC').trim()
  const length = [...text].length
  if (length < min) return { issue: min === 1 ? 'must not be empty' : `must have at least ${min} characters` }
  return length > max ? tooLong : { text }
}

/** Postgres keeps neither NUL nor halves of surrogate pairs: the one is an error, the others all become U+FFFD. */
export const isKeepable = (text: string) => text.isWellFormed() && !text.includes('\0')

/** The same normal form for text that is not refused but made to fit: a name of a file. */
export function fitText(given: string, max: number): string {
  const bounded = given.slice(0, unitsOf(max)).toWellFormed().replace(MARK_EXCESS, '$1').normalize('NFC')
  return [...bounded].slice(0, max).join('')
}
