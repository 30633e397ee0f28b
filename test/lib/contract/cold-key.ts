import fc from 'fast-check'
import t from 'tap'
import { coldKeyOf, hotKeyOf, isColdKey } from '../../../lib/contract/cold-key.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import { auditDayKey, mediaPrefix, originalKey } from '../../../lib/contract/object-keys.ts'
import { isObjectKey } from '../../../lib/runtime/object-store/key.ts'

t.test('a cold key lies below the same prefix, and tells the key that the object had', async (t) => {
  const [org, media] = [newUuid(), newUuid()]
  t.equal(coldKeyOf(originalKey(org, media)), `${mediaPrefix(org, media)}cold/original`)
  t.equal(coldKeyOf(auditDayKey('2026-01-31', media)), `audit/days/cold/2026-01-31.${media}.jsonl.gz`)
  const segments = fc.array(fc.stringMatching(/^[A-Za-z0-9._=@+-]{1,20}$/).filter(isObjectKey), {
    minLength: 2,
    maxLength: 6,
  })
  fc.assert(
    fc.property(segments, (parts) => {
      const key = parts.join('/')
      if (isColdKey(key)) return
      const cold = coldKeyOf(key)
      const folder = key.slice(0, key.lastIndexOf('/') + 1)
      t.ok(isColdKey(cold) && isObjectKey(cold) && cold.startsWith(folder) && hotKeyOf(cold) === key, key)
    }),
  )
})

t.test('there is no colder tier, and none for a key without a folder', async (t) => {
  for (const key of ['original', 'a/cold/original']) t.throws(() => coldKeyOf(key), TypeError, key)
  for (const key of ['cold/original', 'a/colder/original', 'a/cold']) t.notOk(isColdKey(key), key)
  t.equal(hotKeyOf('a/original'), 'a/original')
})
