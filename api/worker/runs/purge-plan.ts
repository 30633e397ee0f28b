const MINUTE = 60
const HOUR = 60 * MINUTE

/** Pauses before each look at a prefix that was emptied: longer than any attempt of a resource in the end. */
const PAUSES = [10 * MINUTE, 2 * HOUR, 24 * HOUR, 7 * 24 * HOUR]

/** When to look after the prefix has been found empty `looks` times; undefined after the last time. */
export function nextLook(looks: number): { looks: number; inSeconds: number } | undefined {
  const inSeconds = PAUSES[looks]
  return inSeconds === undefined ? undefined : { looks, inSeconds }
}
