import { spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { loadConfig } from '../../../../lib/runtime/config.ts'
import { openFolderStore } from '../../../../lib/runtime/object-store/folder.ts'
import { layout, moveIntoPlace, removeEmptyFolders } from '../../../../lib/runtime/object-store/folder-path.ts'
import { moveToCold } from '../../../../lib/runtime/object-store/move-to-cold.ts'
import { openObjectStore, StoreConfig } from '../../../../lib/runtime/object-store/open.ts'
import { coldContract } from '../../../support/cold-contract.ts'
import { eventually } from '../../../support/eventually.ts'
import { objectStoreContract } from '../../../support/object-store-contract.ts'
import { readableByOthers } from '../../../support/rights.ts'
import { growthOfFourParts } from '../../../support/streaming-memory.ts'

/** The store in a folder. Takes over 20 s: its writers are killed at every step, and it is sent 64 MiB parts. */

const folder = await mkdtemp(join(tmpdir(), 'keepsake-folder-store-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
const textType = { contentType: 'text/plain' }
const MIB = 1024 * 1024

// It neither lists in pages nor uploads in parts.
objectStoreContract(t, openFolderStore({ folder }), { objects: 110, fileBytes: 9 * MIB })
t.test('one folder', async (t) => coldContract(t, openFolderStore({ folder })))
t.test('two folders', async (t) => {
  const { hot, cold } = { hot: join(folder, 'two', 'hot'), cold: join(folder, 'two', 'cold') }
  const config = { STORE_KIND: 'folder', STORE_FOLDER: hot, STORE_COLD_FOLDER: cold }
  const store = await openObjectStore(loadConfig(StoreConfig, config))
  coldContract(t, store)
  t.test('a cold key lies in the second one', async (t) => {
    await store.put('a/original', 'x', textType)
    const { key } = await moveToCold(store, 'a/original')
    t.ok(await openFolderStore({ folder: cold }).head(key))
    t.notOk(await openFolderStore({ folder: hot }).head(key))
  })
})

t.test('has no HTTP door of its own', async (t) => {
  t.equal(await openFolderStore({ folder: t.testdir() }).presignGet('a', 60, 'video/mp2t'), undefined)
})

t.test('leaves no folder and no temporary file behind', async (t) => {
  const here = t.testdir()
  const store = openFolderStore({ folder: here })
  await store.put('a/b/c/d', 'x', textType)
  await store.put('a/b/e', 'x', textType)
  const id = await store.createMultipart('m/n', textType)
  const part = await store.putPart('m/n', id, 1, Readable.from([Buffer.from('x')]), { size: 1 })
  await store.completeMultipart('m/n', id, [part])
  const other = await store.createMultipart('m/o', textType)
  await store.putPart('m/o', other, 1, Readable.from([Buffer.from('x')]), { size: 1 })
  await store.abortMultipart('m/o', other)
  await store.delete('a/b/c/d')
  t.strictSame((await readdir(join(here, 'objects/a/b'))).sort(), ['e~object'])
  await store.deletePrefix('a/')
  await store.delete('m/n')
  for (const name of ['objects', 'tmp', 'uploads', 'completing'])
    t.strictSame(await readdir(join(here, name)), [], name)
})

t.test('what it stores is for its own user alone', async (t) => {
  const here = t.testdir()
  const before = process.umask(0o022)
  t.teardown(() => process.umask(before))
  const store = openFolderStore({ folder: join(here, 'store') })
  await store.put('a/b', 'x', textType)
  const id = await store.createMultipart('m/n', textType)
  await store.putPart('m/n', id, 1, Readable.from([Buffer.from('x')]), { size: 1 })
  await store.download('a/b', join(here, 'store', 'copy'))
  t.strictSame(await readableByOthers(join(here, 'store')), [])
})

t.test('several stores on one folder see the same objects and uploads', async (t) => {
  const here = t.testdir()
  const [one, two] = [openFolderStore({ folder: here }), openFolderStore({ folder: here })]
  await one.put('a', 'x', textType)
  t.equal(await text((await two.get('a')).body), 'x')
  const id = await one.createMultipart('m', textType)
  const part = await two.putPart('m', id, 1, Readable.from([Buffer.from('joined')]), { size: 6 })
  const results = await Promise.allSettled([one, two].map((s) => s.completeMultipart('m', id, [part])))
  t.strictSame(results.map((r) => r.status).sort(), ['fulfilled', 'rejected'], 'exactly one completes')
  t.equal(await text((await one.get('m')).body), 'joined')
})

t.test('objects come into folders that are being removed because others have gone', async (t) => {
  const { objects, temporary } = layout(t.testdir())
  for (const path of [objects, temporary]) await mkdir(path)
  const folder = join(objects, 'a/b/c')
  let isBusy = true
  const tidying = Array.from({ length: 2 }, async () => {
    while (isBusy) await removeEmptyFolders(folder, objects)
  })
  const lanes = Array.from({ length: 3 }, async (_, lane) => {
    for (let i = 0; i < 100; i++) {
      const [from, to] = [join(temporary, `${lane}`), join(folder, `${lane}`)]
      await writeFile(from, '')
      await moveIntoPlace(from, to, objects)
      await rm(to)
    }
  })
  await t.resolves(Promise.all(lanes))
  isBusy = false
  await Promise.all(tidying)
})

t.test('removes temporary files when they are older than a day', async (t) => {
  const here = t.testdir()
  await openFolderStore({ folder: here }).close()
  for (const name of ['old', 'young']) await writeFile(join(here, 'tmp', name), 'half')
  await mkdir(join(here, 'tmp', 'old-folder'))
  const past = new Date(Date.now() - 25 * 60 * 60 * 1000)
  for (const name of ['old', 'old-folder']) await utimes(join(here, 'tmp', name), past, past)
  await openFolderStore({ folder: here }).close()
  t.strictSame(await readdir(join(here, 'tmp')), ['young'])
})

t.test('a damaged file is an error and not an object', async (t) => {
  const here = t.testdir()
  const store = openFolderStore({ folder: here })
  await store.put('a', 'whole', textType)
  const path = join(here, 'objects/a~object')
  await writeFile(path, 'short')
  await t.rejects(store.get('a'), { code: 'Unavailable', message: /damaged/ })
})

t.test('a missing folder is an outage', async (t) => {
  const here = t.testdir()
  const store = openFolderStore({ folder: join(here, 'store') })
  await rm(join(here, 'store'), { recursive: true })
  await t.rejects(store.check(), { code: 'Unavailable' })
  await t.rejects(store.put('a', 'x', textType), { code: 'Unavailable' })
})

async function bytesIn(folder: string): Promise<number> {
  let sum = 0
  for (const name of await readdir(folder)) sum += (await stat(join(folder, name)).catch(() => ({ size: 0 }))).size
  return sum
}

/** Runs one operation in a process that kills itself at a failpoint, or that we kill while it writes. */
async function die(here: string, operation: string, failpoint?: string): Promise<void> {
  const program = new URL('../../../support/dying-store.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [program, here, operation, failpoint ?? ''], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  if (!failpoint) {
    await eventually('it writes', async () => (await bytesIn(join(here, 'tmp'))) > 0)
    child.kill('SIGKILL')
  }
  const [, signal] = await ended
  if (signal !== 'SIGKILL') throw new Error(`${operation} was not killed`)
}

const keys = async (here: string) => {
  const found: string[] = []
  for await (const { key } of openFolderStore({ folder: here }).list('')) found.push(key)
  return found
}

t.test('killed while it writes, a put leaves the old object as it was, or none', async (t) => {
  for (const [failpoint, old] of [
    [undefined, ['old']],
    ['store.object-written', ['old']],
    ['store.object-written', []],
  ] as const) {
    const here = t.testdir()
    const store = openFolderStore({ folder: here })
    for (const body of old) await store.put('org/x', body, textType)
    await die(here, 'put', failpoint)
    t.equal((await readdir(join(here, 'tmp'))).length, 1, 'only a temporary file')
    t.strictSame(await keys(here), old.length > 0 ? ['org/x'] : [])
    for (const body of old) t.equal(await text((await store.get('org/x')).body), body)
  }
})

t.test('killed while it joins parts, a complete leaves no object, and can be repeated', async (t) => {
  for (const failpoint of [undefined, 'store.parts-joined', 'store.upload-claimed']) {
    const here = t.testdir()
    const store = openFolderStore({ folder: here })
    const id = await store.createMultipart('org/x', { contentType: 'video/mp4' })
    const size = failpoint ? 5 * MIB : 32 * MIB
    const body = Readable.from(
      (function* () {
        for (let i = 0; i < size / MIB; i++) yield Buffer.alloc(MIB, i)
      })(),
    )
    const part = await store.putPart('org/x', id, 1, body, { size })
    await die(here, `complete:${id}:${part.etag}`, failpoint)
    t.strictSame(await keys(here), [], failpoint ?? 'killed while copying')
    const made = await store.completeMultipart('org/x', id, [part])
    t.equal(made.size, size)
    t.strictSame(await keys(here), ['org/x'])
    await t.rejects(store.completeMultipart('org/x', id, [part]), { code: 'NotFound' })
    t.strictSame([...(await readdir(join(here, 'uploads'))), ...(await readdir(join(here, 'completing')))], [])
  }
})

t.test('killed right after publishing, the object is there whole', async (t) => {
  const here = t.testdir()
  const store = openFolderStore({ folder: here })
  const id = await store.createMultipart('org/x', { contentType: 'video/mp4' })
  const part = await store.putPart('org/x', id, 1, Readable.from([Buffer.from('whole')]), { size: 5 })
  await die(here, `complete:${id}:${part.etag}`, 'store.upload-published')
  t.equal(await text((await store.get('org/x')).body), 'whole')
  await t.rejects(store.completeMultipart('org/x', id, [part]), { code: 'NotFound' })
  await store.abortMultipart('org/x', id)
  t.equal((await store.head('org/x'))?.size, 5)
})

t.test('a part that is gone when it is read means that its upload is', async (t) => {
  const here = t.testdir()
  const store = openFolderStore({ folder: here })
  const id = await store.createMultipart('org/x', { contentType: 'video/mp4' })
  await store.putPart('org/x', id, 1, Readable.from([Buffer.from('x')]), { size: 1 })
  // Listed, and gone when it is opened, as in a folder that another process renames in between.
  await symlink(join(here, 'gone'), join(here, 'uploads', id, 'part-00002'))
  await t.rejects(store.listParts('org/x', id), { code: 'NotFound' })
})

t.test('an upload that was claimed by a killed process can be aborted', async (t) => {
  const here = t.testdir()
  const store = openFolderStore({ folder: here })
  const id = await store.createMultipart('org/x', { contentType: 'video/mp4' })
  const part = await store.putPart('org/x', id, 1, Readable.from([Buffer.from('x')]), { size: 1 })
  await die(here, `complete:${id}:${part.etag}`, 'store.upload-claimed')
  await store.abortMultipart('org/x', id)
  await t.rejects(store.completeMultipart('org/x', id, [part]), { code: 'NotFound' })
  t.strictSame(await readdir(join(here, 'completing')), [])
})

t.test('killed at each step of a move to the cold tier, the next one ends it', async (t) => {
  const bytes = Buffer.alloc(100_000, 7)
  const expected = { key: 'org/cold/x', size: bytes.length, sha256: hash('sha256', bytes) }
  for (const [failpoint, left] of [
    ['store.object-written', ['org/x']],
    ['store.copied', ['org/cold/x', 'org/x']],
    ['store.copy-proved', ['org/cold/x', 'org/x']],
  ] as const) {
    const here = t.testdir()
    const store = openFolderStore({ folder: here })
    await store.put('org/x', bytes, textType)
    await die(here, 'move', failpoint)
    t.strictSame(await keys(here), left, failpoint)
    t.strictSame(await moveToCold(store, 'org/x'), expected)
    await store.deleteForGood('org/x')
    t.strictSame(await moveToCold(store, 'org/x'), expected, 'and once more')
    t.strictSame(await keys(here), ['org/cold/x'])
  }
})

t.test('killed while it writes a part, the part is not there', async (t) => {
  const here = t.testdir()
  const store = openFolderStore({ folder: here })
  const id = await store.createMultipart('org/x', { contentType: 'video/mp4' })
  await die(here, `part:${id}`, 'store.part-written')
  t.strictSame(await store.listParts('org/x', id), [])
})

t.test('content starts at the beginning of the file, so that any program can read it', async (t) => {
  const here = t.testdir()
  await openFolderStore({ folder: here }).put('a/b', 'hello', textType)
  t.equal((await stat(join(here, 'objects/a/b~object'))).size, 5 + 1024)
})

t.test('four parts of 64 MiB at once are not kept in memory', async (t) => {
  const grown = await growthOfFourParts(openFolderStore({ folder: t.testdir() }))
  t.ok(grown < 64, `grew by ${grown.toFixed(1)} MiB`)
})
