import t from 'tap'
import * as z from 'zod'
import { bodyId, inputTime, optional, outputTime, text, timestamp, withDefault } from '../../../api/requests/schemas.ts'
import { formatId, newUuid } from '../../../lib/contract/ids.ts'

t.test('text is trimmed, NFC, and counted in code points', async (t) => {
  const short = text(1, 3)
  t.equal(short.parse(' \u00a0e\u0301a\n'), '\u00e9a')
  t.equal(short.parse('😀😀😀'), '😀😀😀')
  t.equal(short.parse('a\r\nb'), 'a\nb')
  t.equal(short.parse('a\tb'), 'a\tb')
  for (const bad of [
    '',
    '   ',
    '😀😀😀😀',
    'abcd',
    'a\u0000',
    'a\u0007b',
    '\u001b[2J',
    'a\u0085b',
    'a\ud800',
    7,
    null,
  ]) {
    t.equal(short.safeParse(bad).success, false, JSON.stringify(bad))
  }
  t.equal(text(0, 3).parse('  '), '')
  t.equal(text(1, 10).safeParse('x'.repeat(1_000_000)).success, false)
})

t.test('ids of the right kind only, prefixed or bare', async (t) => {
  const uuid = newUuid()
  t.equal(bodyId('user').parse(formatId('user', uuid)), uuid)
  t.equal(bodyId('user').parse(uuid), uuid)
  for (const bad of [formatId('media', uuid), 'usr_', `${uuid}0`, 5])
    t.equal(bodyId('user').safeParse(bad).success, false)
})

t.test('a field that may be left out may be null, and then counts as left out', async (t) => {
  const body = z.object({ name: optional(text(1, 3)), size: withDefault(z.int(), 8) })
  for (const given of [{}, { name: null, size: null }]) t.match(body.parse(given), { name: undefined, size: 8 })
  t.strictSame(body.parse({ name: ' a ', size: 2 }), { name: 'a', size: 2 })
  t.equal(body.safeParse({ name: '' }).success, false)
})

t.test('times come with any offset and leave in one form', async (t) => {
  t.strictSame(inputTime().parse('2026-11-21T10:30:00.5+01:00'), new Date('2026-11-21T09:30:00.500Z'))
  for (const bad of ['2026-11-21', '2026-11-21T10:30:00', '2026-13-01T00:00:00Z', 'now', 0]) {
    t.equal(inputTime().safeParse(bad).success, false, String(bad))
  }
  const wrong = (value: unknown) =>
    z.object({ at: inputTime() }).safeParse({ at: value }).error?.issues[0]?.message ?? ''
  t.match(wrong('2026-11-21T10:30:00'), 'is not a time with an offset')
  t.equal(wrong('0001-01-01T00:00:00Z'), 'must be between the years 1000 and 9999')
  t.match(wrong(undefined), /received undefined$/, 'what is missing is called so')
  t.equal(outputTime().safeParse(timestamp(new Date())).success, true)
  t.equal(timestamp(null), null)
})
