import fc from 'fast-check'
import t from 'tap'
import { movesOf, type Placed } from '../../../api/albums/plan.ts'

const listOf = (...positions: number[]): Placed[] =>
  positions.map((position, i) => ({ mediaId: 'abcdefgh'[i] ?? '', position }))
const applied = (list: Placed[], moves: Placed[]): string[] => {
  const now = new Map(list.map(({ mediaId, position }) => [mediaId, position]))
  for (const { mediaId, position } of moves) now.set(mediaId, position)
  return [...now].sort(([, a], [, b]) => a - b).map(([id]) => id)
}

t.test('only what moves gets another position', async (t) => {
  const list = listOf(0, 3, 4, 9)
  t.strictSame(movesOf(list, ['a', 'b', 'c', 'd']), [])
  t.strictSame(movesOf(list, ['a', 'c', 'b', 'd']), [
    { mediaId: 'c', position: 3 },
    { mediaId: 'b', position: 4 },
  ])
  t.strictSame(movesOf(list.toReversed(), ['b', 'a', 'c', 'd']), [
    { mediaId: 'b', position: 0 },
    { mediaId: 'a', position: 3 },
  ])
  t.strictSame(movesOf([], []), [])
})

t.test('an order that is no permutation of the list is none', async (t) => {
  const list = listOf(0, 1, 2)
  const wrong = [[], ['a', 'b'], ['a', 'b', 'c', 'd'], ['a', 'b', 'b'], ['a', 'b', 'x'], ['a', 'b', 'c', 'c']]
  for (const wanted of wrong) t.equal(movesOf(list, wanted), undefined, wanted.join())
  t.equal(movesOf([], ['a']), undefined)
})

t.test('any permutation comes out as asked, in the places that there were', async () => {
  const permutation = fc
    .uniqueArray(fc.integer({ min: 0, max: 1000 }), { maxLength: 8 })
    .map((positions) => listOf(...positions))
    .chain((list) =>
      fc.tuple(
        fc.constant(list),
        fc.shuffledSubarray(
          list.map(({ mediaId }) => mediaId),
          { minLength: list.length },
        ),
      ),
    )
  fc.assert(
    fc.property(permutation, ([list, wanted]) => {
      const moves = movesOf(list, wanted) ?? []
      const places = (of: Placed[]) => of.map(({ position }) => position).sort((a, b) => a - b)
      const moved = new Set(moves.map(({ mediaId }) => mediaId))
      return (
        applied(list, moves).join() === wanted.join() &&
        places(moves).join() === places(list.filter(({ mediaId }) => moved.has(mediaId))).join() &&
        moves.every(({ mediaId, position }) => list.some((was) => was.mediaId === mediaId && was.position !== position))
      )
    }),
  )
})
