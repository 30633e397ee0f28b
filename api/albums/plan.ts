import type { Uuid } from '../../lib/contract/ids.ts'

/** How many media items an album may have, the deleted ones included: they come back when they are restored. */
export const MOST_ITEMS = 5000

export interface Placed {
  mediaId: Uuid
  position: number
}

/**
 * The new positions of those that move when a list gets another order; the others stay. The same positions are in use as
 * before, so deleted media items between them keep their place, and a cursor goes on at the same place. Undefined unless
 * `wanted` has every item of the list once and nothing else.
 */
export function movesOf(list: readonly Placed[], wanted: readonly Uuid[]): Placed[] | undefined {
  const left = new Set(list.map(({ mediaId }) => mediaId))
  if (wanted.length !== list.length || !wanted.every((id) => left.delete(id))) return undefined
  const inOrder = list.toSorted((a, b) => a.position - b.position)
  return inOrder.flatMap(({ mediaId, position }, i) => {
    const now = wanted[i] as Uuid
    return now === mediaId ? [] : [{ mediaId: now, position }]
  })
}
