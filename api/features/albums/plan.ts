import type { Uuid } from '../../../lib/contract/ids.ts'

/** How many media items an album may have, the deleted ones included: they come back when they are restored. */
export const MAX_ITEMS = 5000

/** The distance of positions at the end of an album: room for those that are moved in between. */
export const STEP = 2 ** 20

export interface Placed {
  mediaId: Uuid
  position: number
}
export interface Place extends Placed {
  /** False for a deleted media item: no request names it. */
  listed: boolean
}

/**
 * The new positions of those that move when the listed places of an album get another order; as few as possible. `places`
 * is in the present order. Undefined unless `wanted` has every listed one once and nothing else.
 */
export function movesOf(places: readonly Place[], wanted: readonly Uuid[]): Placed[] | undefined {
  const order = withHidden(places, wanted)
  if (!order) return undefined
  const staying = new Set(longestRising(order.map(({ position }) => position)))
  const positions = filled(order.map(({ position }, i) => (staying.has(i) ? position : undefined)))
  return order.flatMap(({ mediaId, position: old }, i) => {
    const position = positions[i]
    return position === undefined || position === old ? [] : [{ mediaId, position }]
  })
}

/** The places in the wanted order. A hidden one stays behind the listed one that it follows. */
function withHidden(places: readonly Place[], wanted: readonly Uuid[]): Place[] | undefined {
  const indices = new Map<Uuid, number>()
  for (const [i, { mediaId, listed }] of places.entries()) if (listed) indices.set(mediaId, i)
  if (wanted.length !== indices.size) return undefined
  const order: Place[] = []
  const addHidden = (from: number) => {
    for (let i = from; places[i]?.listed === false; i++) order.push(places[i] as Place)
  }
  addHidden(0)
  for (const id of wanted) {
    const index = indices.get(id)
    if (index === undefined) return undefined
    // The lengths are equal: if one is named twice, another one is missing.
    indices.delete(id)
    order.push(places[index] as Place)
    addHidden(index + 1)
  }
  return order
}

/** Indices of a longest increasing subsequence, by patience sorting. */
function longestRising(values: readonly number[]): number[] {
  /** Of the subsequences of each length, the index of the smallest last element. */
  const ends: number[] = []
  const before: (number | undefined)[] = []
  for (const [i, value] of values.entries()) {
    let [low, high] = [0, ends.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((values[ends[middle] as number] as number) < value) low = middle + 1
      else high = middle
    }
    before[i] = ends[low - 1]
    ends[low] = i
  }
  const found: number[] = []
  for (let i = ends.at(-1); i !== undefined; i = before[i]) found.push(i)
  return found.reverse()
}

/** Positions for the gaps. Where a gap is too narrow, the next ones move as well until there is room. */
function filled(given: readonly (number | undefined)[]): number[] {
  const all: number[] = []
  for (let i = 0; i < given.length; ) {
    const kept = given[i]
    if (kept !== undefined) {
      all.push(kept)
      i += 1
      continue
    }
    const end = endOfGap(given, i, all.at(-1))
    all.push(...spread(end - i, all.at(-1), given[end]))
    i = end
  }
  return all
}

/**
 * Where the gap ends that begins at `start`, with those behind it that have to move as well. The more of them there are,
 * the more room they need: then a thousand moves to one place move ten thousand items, and not a million
 * (docs/adr/0027-albums.md).
 */
function endOfGap(given: readonly (number | undefined)[], start: number, low = Number.NEGATIVE_INFINITY): number {
  const isFree = (end: number) => given[end] === undefined
  let end = start
  while (end < given.length && isFree(end)) end += 1
  if ((given[end] ?? Number.POSITIVE_INFINITY) - low > end - start) return end
  for (; end < given.length; end++) {
    if (!isFree(end) && (given[end] as number) - low > (end - start + 1) ** 2) return end
  }
  return end
}

/** Returns `count` positions between `low` and `high`, or beyond the only one that is given. */
function spread(count: number, low: number | undefined, high: number | undefined): number[] {
  const step = low === undefined || high === undefined ? STEP : (high - low) / (count + 1)
  const from = low ?? (high ?? 0) - (count + 1) * STEP
  return Array.from({ length: count }, (_, i) => from + Math.floor(step * (i + 1)))
}
