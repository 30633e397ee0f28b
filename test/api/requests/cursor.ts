import fc from 'fast-check'
import t from 'tap'
import { cursors } from '../../../api/requests/cursor.ts'
import { newUuid } from '../../../lib/contract/ids.ts'

let ms = Date.UTC(2026, 10, 21)
const clock = { now: () => new Date(ms) }
const mine = cursors('secret', clock)
const scope = { list: 'media', org: newUuid(), filters: { mime_type: 'image/*', from: undefined } }
const after = { at: '2026-11-21T09:30:00.123456Z', id: newUuid() }
const cursor = mine.encode(scope, after)

t.test('gives back the position with its microseconds', async (t) => {
  t.match(cursor, /^cursor_[\w-]+$/)
  t.strictSame(mine.decode(scope, cursor), after)
  t.strictSame(mine.decode({ ...scope, filters: { mime_type: 'image/*' } }, cursor), after)
})

t.test('the order of the filters makes no difference', async (t) => {
  const one = mine.encode({ list: 'x', filters: { a: 1, b: 2 } }, after)
  t.strictSame(mine.decode({ list: 'x', filters: { b: 2, a: 1 } }, one), after)
})

t.test('is good for its own list only', async (t) => {
  for (const other of [
    { ...scope, list: 'albums' },
    { ...scope, org: newUuid() },
    { ...scope, caller: newUuid() },
    { ...scope, filters: {} },
    { ...scope, filters: { mime_type: 'video/*' } },
  ]) {
    t.throws(() => mine.decode(other, cursor), { code: 'INVALID_CURSOR' })
  }
})

t.test('is good for 24 hours and under its key only', async (t) => {
  t.throws(() => cursors('another', clock).decode(scope, cursor), { code: 'INVALID_CURSOR' })
  ms += 24 * 3600 * 1000 - 1000
  t.strictSame(mine.decode(scope, cursor), after)
  ms += 1000
  t.throws(() => mine.decode(scope, cursor), { code: 'INVALID_CURSOR' })
  ms -= 24 * 3600 * 1000
})

t.test('is the same for a quarter of an hour, so that the entity tag of a page is', async (t) => {
  ms += 1000
  const early = mine.encode(scope, after)
  ms += 15 * 60_000 - 2000
  t.equal(mine.encode(scope, after), early)
  ms += 2000
  t.not(mine.encode(scope, after), early)
  ms -= 15 * 60_000 + 1000
})

t.test('nothing else is a cursor', async (t) => {
  const bytes = Buffer.from(cursor.slice(7), 'base64url')
  const changed = (i: number) => {
    const copy = Buffer.from(bytes)
    copy[i] = (copy[i] ?? 0) ^ 1
    return `cursor_${copy.toString('base64url')}`
  }
  for (let i = 0; i < bytes.length; i++) t.throws(() => mine.decode(scope, changed(i)), { code: 'INVALID_CURSOR' })
  fc.assert(
    fc.property(fc.string(), (text) => {
      for (const made of [text, `cursor_${text}`, `cursor_${Buffer.from(text).toString('base64url')}`]) {
        try {
          mine.decode(scope, made)
          return false
        } catch (error) {
          if ((error as { code?: string }).code !== 'INVALID_CURSOR') return false
        }
      }
      return true
    }),
  )
  t.pass()
})
