/**
 * The tier of an object is a part of its key: keys with the segment `cold` lie in the cold class or bucket. So every reader
 * of a row's key finds the object, and a prefix has both tiers below it. Pure.
 */
export const isColdKey = (key: string): boolean => key.includes(SEGMENT)

const SEGMENT = '/cold/'

/** `a/b/original` in the cold tier is `a/b/cold/original`. */
export function coldKeyOf(key: string): string {
  const cut = key.lastIndexOf('/') + 1
  if (cut === 0 || isColdKey(key)) throw new TypeError(`${key} has no place in the cold tier`)
  return `${key.slice(0, cut - 1)}${SEGMENT}${key.slice(cut)}`
}

/** The key that an object had before it moved to the cold tier; that of any other object is its own. */
export const hotKeyOf = (key: string): string => key.replace(SEGMENT, '/')
