import t from 'tap'
import { cleanFilename } from '../../../api/features/media/filename.ts'
import { text } from '../../../api/requests/schemas.ts'
import { fitText, isKeepable, tidyText } from '../../../api/requests/text.ts'

const ANY = { min: 0, max: 5000 }
const tidied = (given: string, max = ANY.max) => tidyText(given, { min: 0, max })

/** How many UTF-16 units `work` gave to `normalize`, which is quadratic in the marks of one run. */
function normalizing(work: () => unknown): number {
  const { normalize } = String.prototype
  let units = 0
  String.prototype.normalize = function (this: string, form?: string) {
    units += this.length
    return normalize.call(this, form)
  }
  try {
    work()
  } finally {
    String.prototype.normalize = normalize
  }
  return units
}

const TABLE: [name: string, given: string, max: number, expected: string | RegExp][] = [
  ['spaces around', ' \u00a0a\n', 5, 'a'],
  ['decomposed letters', 'e\u0301', 1, 'é'],
  ['decomposed Hangul of the greatest length', '한국'.normalize('NFD'), 2, '한국'],
  ['Greek that is four times as long when decomposed', '\u1f82\u1f82'.normalize('NFD'), 2, '\u1f82\u1f82'],
  ['emoji of the greatest length', '😀😀', 2, '😀😀'],
  ['one emoji too many', '😀😀😀', 2, /at most 2/],
  ['a character that normalization makes longer', '\u{1d160}', 2, /at most 2/],
  ['lines of Windows', 'a\r\nb', 5, 'a\nb'],
  ['lines that end in a carriage return', 'a\rb\r', 5, 'a\nb'],
  ['a NUL', 'a\0', 5, /not allowed/],
  ['an escape', '\u001b[2J', 5, /not allowed/],
  ['a C1 control character', 'a\u0085', 5, /not allowed/],
  ['the first half of a surrogate pair', '\ud83d', 5, /not allowed/],
  ['the second half of a surrogate pair', '\ude00a', 5, /not allowed/],
  [
    'thirty marks in a row',
    `a${'\u0316'.repeat(30)}b${'\u0316'.repeat(30)}`,
    90,
    `a${'\u0316'.repeat(30)}b${'\u0316'.repeat(30)}`,
  ],
  ['thirty-one marks in a row', `a${'\u0316'.repeat(31)}`, 90, /more than 30 combining marks/],
  ['marks of other planes in a row', '\u{1d165}'.repeat(31), 90, /more than 30 combining marks/],
]
for (const [name, given, max, expected] of TABLE) {
  t.test(`text with ${name}`, async (t) => {
    const outcome = tidied(given, max)
    if (typeof expected === 'string') t.strictSame(outcome, { text: expected })
    else t.match(outcome, { issue: expected })
  })
}

// a, then marks of a high combining class, then as many of a low one: each of the latter has to pass all of the former.
const flood = (marks: number) => `a${'\u0315'.repeat(marks / 2)}${'\u0316'.repeat(marks / 2)}`

t.test('nothing that is too long is ever normalized', async (t) => {
  for (const given of [flood(260_000), 'x'.repeat(20_001), '😀'.repeat(20_000)]) {
    t.equal(
      normalizing(() => t.match(tidied(given), { issue: 'must have at most 5000 characters' })),
      0,
    )
    t.equal(
      normalizing(() => t.equal(text(3, 320).safeParse(given).success, false)),
      0,
      'as a field of a body',
    )
  }
})

t.test('no run of marks that would take quadratic time is ever normalized, however legal its length', async (t) => {
  for (const marks of [40, 400, 4998]) {
    t.equal(
      normalizing(() => t.match(tidied(flood(marks)), { issue: /combining marks/ })),
      0,
    )
  }
  t.ok(normalizing(() => tidied('e\u0301')) > 0, 'this test sees what is normalized')
})

t.test('a file name is cut and thinned out before it is normalized', async (t) => {
  let name = ''
  t.ok(normalizing(() => (name = cleanFilename(`${flood(100_000)}.jpeg`))) <= 4 * 255)
  t.equal(name, `a${'\u0315'.repeat(30)}.jpeg`)
  t.equal(cleanFilename(`e\u0301${'\u0316'.repeat(40)}.mov`).length, 'é'.length + 29 + 4)
})

t.test('what is made to fit is well formed and has at most so many code points', async (t) => {
  t.equal(fitText('😀😀😀', 2), '😀😀')
  t.equal(fitText('\ud83dx', 2), '\ufffdx')
  t.equal(fitText('\u{1d160}', 2), '\u{1d158}\u{1d165}')
  t.equal(fitText('', 2), '')
})

t.test('what can be kept', async (t) => {
  for (const good of ['', 'a\n\u0007', '😀']) t.ok(isKeepable(good))
  for (const bad of ['\0', 'a\ud800', '\udc00a']) t.notOk(isKeepable(bad))
})
