import fc from 'fast-check'
import t from 'tap'
import { movesOf, type Place, type Placed, STEP } from '../../../../api/features/albums/plan.ts'

/** Places by name, those in capitals hidden. */
const placesOf = (given: Record<string, number>): Place[] =>
  Object.entries(given).map(([mediaId, position]) => ({ mediaId, position, listed: mediaId === mediaId.toLowerCase() }))
const applied = (places: readonly Place[], moves: readonly Placed[]): Place[] => {
  const now = new Map(moves.map(({ mediaId, position }) => [mediaId, position]))
  const moved = places.map((place) => ({ ...place, position: now.get(place.mediaId) ?? place.position }))
  return moved.sort((a, b) => a.position - b.position)
}
const orderAfter = (places: readonly Place[], wanted: string): string =>
  applied(places, movesOf(places, [...wanted]) ?? [])
    .map(({ mediaId }) => mediaId)
    .join('')
const movedBy = (places: readonly Place[], wanted: string) =>
  movesOf(places, [...wanted])?.map(({ mediaId, position }) => `${mediaId} ${position}`)

t.test('only what moves gets another position', async (t) => {
  const places = placesOf({ a: 0, b: 100, c: 200, d: 300 })
  t.strictSame(movedBy(places, 'abcd'), [])
  t.strictSame(movedBy(places, 'acbd'), ['c 50'])
  t.strictSame(movedBy(places, 'dabc'), [`d ${-STEP}`])
  t.strictSame(movedBy(places, 'bcda'), [`a ${300 + STEP}`])
  t.strictSame(movedBy(places, 'acdb'), [`b ${300 + STEP}`])
  t.strictSame(movedBy(placesOf({ a: 0, b: 90, c: 200, d: 300 }), 'cdab'), [`c ${-2 * STEP}`, `d ${-STEP}`])
  t.strictSame(movedBy([], ''), [])
})

t.test('where there is no room, the next ones make it', async (t) => {
  t.strictSame(movedBy(placesOf({ a: 0, b: 1, c: 2, d: 90, e: 200 }), 'aebcd'), ['e 22', 'b 45', 'c 67'])
  t.strictSame(movedBy(placesOf({ a: 0, b: 1, c: 2 }), 'acb'), [`c ${STEP}`, `b ${2 * STEP}`])
  t.strictSame(movedBy(placesOf({ a: 0, b: 1, c: 2, d: 3 }), 'adbc'), [`d ${STEP}`, `b ${2 * STEP}`, `c ${3 * STEP}`])
})

t.test('a hidden one stays behind the one that it follows', async (t) => {
  const places = placesOf({ X: 0, a: 100, Y: 110, Z: 120, b: 200, c: 300 })
  t.equal(orderAfter(places, 'abc'), 'XaYZbc')
  t.equal(orderAfter(places, 'cba'), 'XcbaYZ')
  t.equal(orderAfter(places, 'bac'), 'XbaYZc')
  t.equal(movedBy(places, 'cab')?.length, 1, 'and does not move unless that moves')
})

t.test('an order that is no permutation of the listed ones is none', async (t) => {
  const places = placesOf({ a: 0, b: 1, X: 2, c: 3 })
  for (const wanted of ['', 'ab', 'abcd', 'abb', 'abx', 'abcc', 'abX', 'abcX']) {
    t.equal(movesOf(places, [...wanted]), undefined, wanted)
  }
  t.equal(movesOf([], ['a']), undefined)
})

const LETTERS = 'aBcdEfghIj'
const anAlbum = fc
  .uniqueArray(fc.integer({ min: -5, max: 30 }), { maxLength: LETTERS.length })
  .map((positions) =>
    placesOf(Object.fromEntries(positions.sort((a, b) => a - b).map((position, i) => [LETTERS[i] ?? '', position]))),
  )
const listedOf = (places: readonly Place[]) => places.filter(({ listed }) => listed).map(({ mediaId }) => mediaId)

t.test('any order comes out as asked, each item once at a place of its own', async () => {
  const asked = anAlbum.chain((places) => {
    const listed = listedOf(places)
    return fc.tuple(fc.constant(places), fc.shuffledSubarray(listed, { minLength: listed.length }))
  })
  fc.assert(
    fc.property(asked, ([places, wanted]) => {
      const moves = movesOf(places, wanted)
      if (!moves) return false
      const now = applied(places, moves)
      return (
        listedOf(now).join() === wanted.join() &&
        new Set(now.map(({ position }) => position)).size === places.length &&
        now.every(({ position }) => Number.isSafeInteger(position)) &&
        moves.every(({ mediaId, position }) =>
          places.some((was) => was.mediaId === mediaId && was.position !== position),
        )
      )
    }),
    { numRuns: 2000 },
  )
})

t.test('thousands of moves to one place: few others ever move', async (t) => {
  let places: Place[] = Array.from({ length: 1000 }, (_, i) => ({
    mediaId: String(i),
    position: i * STEP,
    listed: true,
  }))
  let written = 0
  const MOVES = 2000
  for (let n = 0; n < MOVES; n++) {
    const ids = listedOf(places)
    const [last = ''] = ids.splice(-1)
    ids.splice(1, 0, last)
    const moves = movesOf(places, ids) ?? []
    written += moves.length
    places = applied(places, moves)
    if (listedOf(places).join() !== ids.join()) return void t.fail(`the order after ${n} moves`)
  }
  t.ok(written < 15 * MOVES, `${written / MOVES} a move`)
})
