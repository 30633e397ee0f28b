import type { Test } from 'tap'

/** Like `t.match`, which passes where an array has more elements than the pattern: here every array is as long as that. */
export function matchWhole(
  t: Pick<Test, 'match' | 'strictSame'>,
  found: unknown,
  wanted: unknown,
  name = 'should match the pattern',
): void {
  t.match(found, wanted, name)
  t.strictSame(otherLengths(found, wanted), [], `${name}: and nothing more`)
}

function otherLengths(found: unknown, wanted: unknown, at = ''): string[] {
  if (typeof found !== 'object' || found === null || typeof wanted !== 'object' || wanted === null) return []
  if (wanted instanceof RegExp) return []
  if (Array.isArray(found) && Array.isArray(wanted) && found.length !== wanted.length) {
    return [`${at || 'the array'} has ${found.length} elements, and not ${wanted.length}: ${JSON.stringify(found)}`]
  }
  return Object.entries(wanted).flatMap(([key, one]) => otherLengths(found[key as never], one, `${at}.${key}`))
}
