import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openSources } from '../../../jobs/highlight/sources.ts'
import { PermanentError } from '../../../jobs/runtime/failure.ts'
import { openFolderStore } from '../../../lib/runtime/object-store/folder.ts'

const { signal } = new AbortController()

async function sourcesOf(t: Test, budgetBytes: number) {
  const folder = t.testdir({ work: {} })
  const store = openFolderStore({ folder: join(folder, 'store') })
  t.teardown(() => store.close())
  for (const key of ['a', 'b', 'c']) await store.put(key, key.repeat(10), { contentType: 'video/mp4' })
  const sources = openSources({ store, folder: join(folder, 'work'), budgetBytes, signal })
  const use = (key: string) => sources.use(key, 100, async ({ path }) => path)
  return { store, sources, use }
}

const isThere = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  )

t.test('what fits stays, and the one unused for the longest time goes first', async (t) => {
  const { use } = await sourcesOf(t, 25)
  const [a, b] = [await use('a'), await use('b')]
  t.equal(await use('a'), a, 'not downloaded again')
  await use('c')
  t.same([await isThere(a), await isThere(b)], [true, false])
  t.not(await use('b'), b, 'downloaded again')
})

t.test('a source in use is never removed, whatever it needs', async (t) => {
  const { sources, use } = await sourcesOf(t, 0)
  await sources.use('a', 100, async ({ path: a }) => {
    await sources.use('b', 100, async ({ path: b }) => {
      t.same([await isThere(a), await isThere(b)], [true, true])
    })
    await use('c')
    t.ok(await isThere(a))
  })
  t.notOk(await isThere(await use('a')), 'nothing stays without a budget')
})

t.test('a source that fails its user can be removed afterwards', async (t) => {
  const { sources } = await sourcesOf(t, 0)
  let seen = ''
  await t.rejects(
    sources.use('a', 100, async ({ path }) => {
      seen = path
      throw new Error('broken')
    }),
    { message: 'broken' },
  )
  t.notOk(await isThere(seen))
})

t.test('one that is too large or gone is refused', async (t) => {
  const { sources } = await sourcesOf(t, 100)
  const reasonOf = (key: string, maxBytes: number) =>
    sources
      .use(key, maxBytes, async () => 'used')
      .catch((error: unknown) => (error instanceof PermanentError ? error.reason : String(error)))
  t.equal(await reasonOf('a', 5), 'LimitExceeded')
  t.equal(await reasonOf('none', 100), 'InputMissing')
})

t.test('a source that was replaced before it is downloaded again ends the attempt', async (t) => {
  const { store, use } = await sourcesOf(t, 0)
  await use('a')
  await use('b')
  await store.put('a', 'other', { contentType: 'video/mp4' })
  await t.rejects(use('a'), { name: 'TransientError', reason: 'SourceChanged' })
})
