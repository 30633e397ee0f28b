import t from 'tap'
import { notes } from '../../../../api/features/timeline/changes/notes.ts'
import { positions, type Versions } from '../../../../api/features/timeline/changes/position.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'

let now = 1_800_000_000
const { encode, missedSince } = positions('a secret', () => now)
const [a, b, c] = [newUuid(), newUuid(), newUuid()].sort() as [string, string, string]
const versions = (...of: [string, number][]): Versions => new Map(of)

t.test('a position tells which organizations have changed since', async (t) => {
  const before = encode(versions([a, 0], [b, 127], [c, 128]))
  for (const [what, after, missed] of [
    ['nothing', versions([c, 128], [b, 127], [a, 0]), []],
    ['one', versions([a, 0], [b, 128], [c, 128]), [b]],
    ['all', versions([a, 1], [b, 2 ** 40], [c, 16_384]), [a, b, c]],
    ['an organization that was joined', versions([a, 0], [b, 127], [c, 128], ['0'.repeat(36), 0]), ['0'.repeat(36)]],
    ['one that was left', versions([a, 0], [b, 127]), 'reset'],
    ['a version that went back', versions([a, 0], [b, 127], [c, 127]), 'reset'],
  ] as const) {
    t.strictSame(missedSince(before, after), missed, what)
  }
  for (const n of [0, 1, 127, 128, 16_383, 16_384, 2 ** 31, 2 ** 50]) {
    t.strictSame(missedSince(encode(versions([a, n])), versions([a, n])), [], String(n))
  }
  t.strictSame(missedSince(encode(versions()), versions()), [])
})

t.test('a position is good for a day, and only as this server made it', async (t) => {
  const here = versions([a, 5])
  const made = encode(here)
  now += 24 * 3600
  t.strictSame(missedSince(made, here), [])
  now += 1
  t.equal(missedSince(made, here), 'reset')
  const fresh = encode(here)
  const bytes = Buffer.from(fresh, 'base64url')
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes)
    changed[at] = (changed[at] ?? 0) ^ 1
    t.equal(missedSince(changed.toString('base64url'), here), 'reset', `byte ${at}`)
  }
  t.equal(positions('another secret', () => now).missedSince(fresh, here), 'reset')
  for (const text of ['', '7', 'x'.repeat(20_000), '\u{1f600}']) t.equal(missedSince(text, here), 'reset')
})

t.test('the position of a member of very many organizations still fits into a header', async (t) => {
  const many = new Map(Array.from({ length: 2000 }, () => [newUuid(), 2 ** 30]))
  const made = encode(many)
  t.ok(made.length < 100)
  t.ok(encode(new Map([...many].slice(0, 350))).length < 8192)
  t.strictSame(missedSince(made, many), [])
  t.equal(missedSince(made, new Map([...many, [a, 1]])), 'reset')
})

t.test('what was notified while a stream was being opened is known, and what was forgotten counts', async (t) => {
  const noted = notes(2)
  noted.note('x')
  const since = noted.now()
  t.notOk(noted.isSince('x', since))
  noted.note('y')
  t.strictSame([noted.isSince('x', since), noted.isSince('y', since)], [false, true])
  noted.note('z')
  noted.note('w')
  t.ok(noted.isSince('y', since), 'it was dropped')
  const later = noted.now()
  t.notOk(noted.isSince('y', later))
  noted.note()
  t.ok(noted.isSince('anything', later), 'after a reconnection')
})
