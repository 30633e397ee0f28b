// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is removed
const CONTROLS = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g
/** Marks, embeddings, overrides and isolates: they reorder what stands around them, such as an address. */
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g
const LINES = /\r\n?|[\u0085\u2028\u2029]/g

/** The text of a person for several lines: line feeds are the only control characters that stay. */
export const cleanLines = (text: string): string =>
  text
    .toWellFormed()
    .replace(LINES, '\n')
    .replace(/\t/g, ' ')
    .replace(CONTROLS, '')
    .replace(BIDI, '')
    .replace(/\n{3,}/g, '\n\n')
    .trim()

/** The same in one line, for headers and names. */
export const cleanLine = (text: string): string => cleanLines(text).replace(/\s+/g, ' ')

/** Made when it is needed: it loads tables of ICU, a hundredth of the start of an API. */
let graphemes: Intl.Segmenter | undefined

/** At most `most` UTF-16 code units, cut between characters as people see them, with `…` in place of the rest. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text
  let kept = ''
  graphemes ??= new Intl.Segmenter('und', { granularity: 'grapheme' })
  for (const { segment } of graphemes.segment(text)) {
    if (kept.length + segment.length > most - 1) break
    kept += segment
  }
  return `${kept.trimEnd()}…`
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/** For HTML text and for attributes in quotes. */
export const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (sign) => ENTITIES[sign] ?? '')
