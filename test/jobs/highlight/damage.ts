import t from 'tap'
import { openDamageTally } from '../../../jobs/highlight/damage.ts'

/** From, frames, decoded from, damaged frames that were decoded; and how many are then known of the item. */
type Note = [from: number, frames: number, decodedFrom: number, damaged: number, known: number]

const rows: [name: string, notes: Note[]][] = [
  ['damage of a part counts in full, however much was decoded before it', [[345, 15, 300, 15, 15]]],
  [
    'damage before a part counts once, in the part where it lies',
    [
      [0, 15, 0, 2, 2],
      [15, 30, 0, 2, 2],
      [45, 15, 0, 3, 3],
    ],
  ],
  [
    'damage of parts that were not decoded again is added',
    [
      [0, 15, 0, 2, 2],
      [15, 85, 0, 2, 2],
      [100, 20, 60, 2, 4],
    ],
  ],
  [
    'decoding that finds less than before takes nothing away',
    [
      [0, 100, 0, 5, 5],
      [100, 20, 60, 1, 5],
    ],
  ],
  [
    'a part that is decoded again counts once',
    [
      [0, 15, 0, 2, 2],
      [15, 30, 0, 4, 4],
      [15, 30, 0, 4, 4],
      [0, 45, 0, 4, 4],
    ],
  ],
]
for (const [name, notes] of rows) {
  t.test(name, async (t) => {
    const tally = openDamageTally()
    for (const [from, frames, decodedFrom, damaged, known] of notes) {
      t.equal(tally.note('a', { from, frames, decodedFrom }, damaged), known, `from ${from}`)
    }
    t.equal(tally.note('b', { from: 0, frames: 15, decodedFrom: 0 }, 1), 1, 'another item has none of it')
  })
}
