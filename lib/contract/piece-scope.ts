import { createHash } from 'node:crypto'
import { hotKeyOf } from './cold-key.ts'

/** The folder of a scope is one segment of a key, which has at most 200 characters. */
const MAX_NAMES = 196
/** 132 bits of a digest. */
const MAX_NAME = 22
const SCOPE = /^(\d{2})\.([\w-]+)\/$/

/**
 * The folder, below the `cachePrefix` of an item, of the pieces that a highlight of exactly these sources stores: how many
 * they are and their names, sorted, so that the folder itself says which sources the highlight had. Pure.
 */
export function pieceScope(items: readonly { sourceKey: string }[]): string {
  const keys = [...new Set(items.map(({ sourceKey }) => hotKeyOf(sourceKey)))]
  const names = namesOf(keys, keys.length).sort()
  return `${String(keys.length).padStart(2, '0')}.${names.join('')}/`
}

/**
 * Whether a highlight of these sources may use pieces of a scope: it may when it shows all sources of that. A decoder that
 * one of the sources has taken over can store any picture as a piece of the others; a highlight that contains that source
 * decodes it in any case. Pure.
 */
export function mayUse(sourceKeys: readonly string[], scope: string): boolean {
  const [, digits, names = ''] = SCOPE.exec(scope) ?? []
  const count = Number(digits)
  const length = nameLength(count)
  if (!(count > 0) || names.length !== count * length) return false
  const own = new Set(namesOf(sourceKeys, count))
  const theirs = Array.from({ length: count }, (_, k) => names.slice(k * length, (k + 1) * length))
  return theirs.every((name) => own.has(name)) && new Set(theirs).size === count
}

/**
 * Fewer sources have longer names. Of thirty they have 36 bits: then a highlight that uses the pieces has exactly those thirty
 * sources, and a hostile one in place of any of them takes some 10⁹ uploads, as the service makes the keys.
 */
const nameLength = (count: number) => Math.min(MAX_NAME, Math.floor(MAX_NAMES / count))

/** A source that moves to the cold tier keeps its name, and with it the pieces that were made of it. */
const namesOf = (keys: readonly string[], count: number): string[] =>
  keys.map((key) => createHash('sha256').update(hotKeyOf(key)).digest('base64url').slice(0, nameLength(count)))
