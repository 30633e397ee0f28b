/** More marks than any script puts on one letter: beyond that they only climb out of the picture. */
const MARKS = 4

/** Letters of mathematics, which people use as bold or cursive ones (docs/adr/0030). */
const MATHEMATICAL = /[\u{1D400}-\u{1D7FF}]/gu

/**
 * What people wrote, as one paragraph without what cannot be drawn: control characters, halves of pairs, and code points
 * that stand for nothing. Pure.
 */
export function cleanText(text: string): string {
  return text
    .replace(MATHEMATICAL, (letter) => letter.normalize('NFKC'))
    .normalize('NFC')
    .replace(/[\s\u2028\u2029]+/gu, ' ')
    .replace(/[\p{Cc}\p{Cs}\p{Co}\p{Cn}]/gu, '')
    .replace(new RegExp(`(\\p{Mn}{${MARKS}})\\p{Mn}+`, 'gu'), '$1')
    .trim()
}

/** Text as Pango's markup takes it: nothing in it is a tag or an entity. Pure. */
export const asMarkup = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)

/** Made when a text is too long: it costs 50 ms, a fifth of the start of the program. */
let segmenter: Intl.Segmenter | undefined

/** What people see as one character each: an emoji of several people, or a letter with its marks, is not cut in two. */
export function charactersOf(text: string): string[] {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' })
  return [...segmenter.segment(text)].map(({ segment }) => segment)
}
