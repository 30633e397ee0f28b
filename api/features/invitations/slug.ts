import { randomInt } from 'node:crypto'

/** Without 0, O, 1, I and L, which people confuse. */
const ALPHABET = '23456789ABCDEFGHJKMNPQRSTUVWXYZ'
const LENGTH = 8
const SLUG = new RegExp(`^[${ALPHABET}]{${LENGTH}}$`)

/** A slug identifies an invitation and is no credential: 40 bits are few enough to guess without rate limits. */
export const newSlug = () => Array.from({ length: LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')

/** Returns the stored form of a slug as a person has typed it; undefined for text that is not a slug. */
export function parseSlug(text: string): string | undefined {
  // Before toUpperCase(), which makes SS of ß and K of the Kelvin sign.
  if (!/^[0-9A-Za-z]+$/.test(text)) return undefined
  const slug = text.toUpperCase()
  return SLUG.test(slug) ? slug : undefined
}
