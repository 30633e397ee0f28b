import t from 'tap'
import * as z from 'zod'
import { findManifest } from '../../../jobs/runtime/manifest.ts'
import { MAX_MANIFEST_BYTES } from '../../../lib/contract/manifest.ts'
import { openFolderStore } from '../../../lib/runtime/object-store/folder.ts'
import { countingStore } from '../../support/counting-store.ts'

const Manifest = z.object({ id: z.string() })
const json = { contentType: 'application/json' }
const { signal } = new AbortController()

t.test('an earlier manifest is read when it is not larger than any manifest', async (t) => {
  const folder = openFolderStore({ folder: t.testdir() })
  const { store, count } = countingStore(folder)
  const find = () => findManifest(store, 'out/', Manifest, signal)
  const put = (text: string) => folder.put('out/manifest.json', text, json)
  t.equal(await find(), undefined, 'there is none')
  const bare = JSON.stringify({ id: 'a' })
  await put(bare.padEnd(MAX_MANIFEST_BYTES))
  t.strictSame(await find(), { id: 'a' }, 'the largest')
  count.asked = 0
  await put(bare.padEnd(20 * 1024 * 1024))
  t.equal(await find(), undefined, 'a larger one counts as none')
  t.ok(count.asked <= MAX_MANIFEST_BYTES, `${count.asked} bytes were asked for`)
  await put('no json')
  t.equal(await find(), undefined)
  await put('{"id":1}')
  t.equal(await find(), undefined)
  const down = { ...store, get: () => Promise.reject(new Error('the store is down')) }
  await t.rejects(findManifest(down, 'out/', Manifest, signal), /down/, 'an outage is none of these')
})
