import { parseId, type Uuid } from '../../../../lib/contract/ids.ts'

/** Bounds the notifications of one comment. */
export const MAX_MENTIONS = 100

// A letter or a digit before the sign: an address such as ann@…. One behind the id: not an id.
const MENTION =
  /(?<![\p{L}\p{N}])@(usr_[0-9a-z]{26}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?!-?[\p{L}\p{N}])/gu

/** Returns the users that a text names as `@user_id`, in the order of the text, each once. */
export function mentionsIn(body: string): Uuid[] {
  const ids = [...body.matchAll(MENTION)].flatMap(([, id = '']) => parseId('user', id) ?? [])
  return [...new Set(ids)]
}

/** The union of the field and of the text. */
export const unionOf = (given: readonly Uuid[], body: string): Uuid[] => [...new Set([...given, ...mentionsIn(body)])]

const MOST = 140

/** The beginning of a comment, for a notification. */
export function excerptOf(body: string): string {
  const characters = [...body]
  return characters.length <= MOST ? body : `${characters.slice(0, MOST - 1).join('')}…`
}
