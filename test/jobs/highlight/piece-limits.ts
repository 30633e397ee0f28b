import t from 'tap'
import { excessOf, folderBelow, type PieceFolder } from '../../../jobs/highlight/piece-limits.ts'

const NOW_MS = Date.parse('2026-05-31T00:00:00Z')
const DAY_MS = 24 * 60 * 60 * 1000
const NEWEST = 'm/own/newest/'

const folder = (name: string, { days = 1, bytes = 1, objects = 2 } = {}): PieceFolder => ({
  ...{ name, bytes, objects },
  writtenAtMs: NOW_MS - days * DAY_MS,
})
const newest = folder(NEWEST, { days: 0 })
const many = (count: number, scope: string) =>
  Array.from({ length: count }, (_, k) => folder(`m/${scope}/${k}/`, { days: 20 - k / 1000 }))

const rows: [name: string, folders: PieceFolder[], bytes: number, removed: string[]][] = [
  ['nothing within the limits', [folder('m/a/1/', { days: 30 }), newest], 2, []],
  [
    'the oldest above the bytes',
    [folder('m/a/2/', { days: 2 }), newest, folder('m/a/3/', { days: 3 }), folder('m/b/1/')],
    2,
    ['m/a/3/', 'm/a/2/'],
  ],
  ['never the newest', [folder(NEWEST, { days: 40, bytes: 9, objects: 99 })], 0, []],
  ['nor what holds the newest', [folder('m/own/'), folder('m/'), newest], 0, []],
  [
    'what is older than 30 days',
    [folder('m/a/1/', { days: 30.01 }), folder('m/a/2/', { days: 29 }), newest],
    9,
    ['m/a/1/'],
  ],
  [
    'what has more objects than a piece',
    [folder('m/a/1/', { objects: 19 }), folder('m/a/2/', { objects: 18 }), newest],
    9,
    ['m/a/1/'],
  ],
  [
    'what cannot be a piece makes room for those that are older',
    [folder('m/a/1/', { days: 3 }), folder('m/a/2/', { objects: 19 }), newest],
    2,
    ['m/a/2/'],
  ],
  ['no piece of 500', [...many(499, 'own'), newest], 9999, []],
  ['the oldest of 502', [...many(300, 'a'), ...many(201, 'own'), newest], 9999, ['m/a/0/', 'm/own/0/']],
  ['a scope of more than 500 as one prefix', [...many(501, 'a'), folder('m/b/1/'), newest], 9999, ['m/a/']],
  [
    'never all scopes',
    [...Array.from({ length: 501 }, (_, k) => folder(`m/${k}/`, { days: 20 - k / 1000 })), newest],
    9999,
    ['m/0/', 'm/1/'],
  ],
]
for (const [name, folders, bytes, removed] of rows) {
  t.test(`removed: ${name}`, async (t) => {
    t.strictSame(excessOf(folders, { bytes, nowMs: NOW_MS, newest: NEWEST }), removed)
  })
}

t.test('removes at most 100 at once, also of its own scope', async (t) => {
  const removed = excessOf([...many(2000, 'own'), newest], { bytes: 9999, nowMs: NOW_MS, newest: NEWEST })
  t.equal(removed.length, 100)
  t.equal(removed[0], 'm/own/0/')
})

t.test('an object counts for the second folder below the prefix', async (t) => {
  for (const [key, expected] of [
    ['m/s/d/x.ts', 'm/s/d/'],
    ['m/s/d/e/f/x.ts', 'm/s/d/'],
    ['m/s/x.ts', 'm/s/'],
    ['m/x.ts', 'm/'],
  ] as const) {
    t.equal(folderBelow('m/', key), expected, key)
  }
})
