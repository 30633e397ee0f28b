import { join, resolve, sep } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import { layout } from '../../../../lib/runtime/object-store/folder-path.ts'
import {
  checkContentType,
  checkFolderPrefix,
  checkKey,
  checkPartOrder,
  checkPrefix,
  isObjectKey,
} from '../../../../lib/runtime/object-store/key.ts'

const segment = fc.stringMatching(/^[A-Za-z0-9._=@+-]{1,12}$/).filter((s) => s !== '.' && s !== '..')
const key = fc.array(segment, { minLength: 1, maxLength: 6 }).map((s) => s.join('/'))
const at = layout('/srv/store')

t.test('plain names between slashes are keys', async (t) => {
  fc.assert(fc.property(key, isObjectKey))
  t.pass()
})

t.test('no text that is accepted as a key leads out of the folder', async (t) => {
  const nasty = fc.array(fc.constantFrom('..', '.', '', '/', '\\', '\0', '%2e%2e', '~', 'a', 'b'), { maxLength: 8 })
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        nasty.map((s) => s.join('/')),
        nasty.map((s) => s.join('')),
      ),
      (text) => {
        if (!isObjectKey(text)) return true
        const path = at.object(text)
        return path === resolve(path) && path.startsWith(at.objects + sep)
      },
    ),
    { numRuns: 2000 },
  )
  t.pass()
})

t.test('different keys are different files, and no key is a folder on the way to another', async (t) => {
  fc.assert(
    fc.property(key, key, (a, b) => {
      if (a === b) return at.object(a) === at.object(b)
      return at.object(a) !== at.object(b) && !at.object(b).startsWith(at.object(a) + sep)
    }),
  )
  t.equal(at.object('a/b'), join(at.objects, 'a', 'b~object'))
})

t.test('a prefix may be empty or cut a name, but not lead elsewhere', async (t) => {
  for (const good of ['', 'a', 'a/', 'a/b', 'org/0190']) t.doesNotThrow(() => checkPrefix(good), good)
  for (const bad of ['/', '/a', 'a//', '../', 'a/../', 'a b']) t.throws(() => checkPrefix(bad), TypeError, bad)
  for (const bad of ['', 'a', 'a/b']) t.throws(() => checkFolderPrefix(bad), TypeError, bad)
  t.doesNotThrow(() => checkFolderPrefix('a/b/'))
})

t.test('an error names the key, but not all of a very long one', async (t) => {
  t.throws(() => checkKey('a b'), { message: 'Not an object key: "a b"' })
  t.throws(() => checkKey('x'.repeat(5000)), { message: /^.{0,150}$/ })
})

t.test('content types are one line of ASCII', async (t) => {
  t.doesNotThrow(() => checkContentType('video/mp4; codecs="avc1"'))
  for (const bad of ['', 'a\r\nb', 'ä', 'x'.repeat(256)]) t.throws(() => checkContentType(bad), TypeError)
})

t.test('parts are named in order, each once', async (t) => {
  const parts = (...numbers: number[]) => numbers.map((partNumber) => ({ partNumber }))
  t.doesNotThrow(() => checkPartOrder(parts(1, 2, 5, 10_000)))
  for (const bad of [parts(), parts(2, 1), parts(1, 1)]) t.throws(() => checkPartOrder(bad), { code: 'InvalidPart' })
  t.throws(() => checkPartOrder(parts(0)), TypeError)
})
