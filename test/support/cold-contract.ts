import { createHash, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { coldKeyOf } from '../../lib/contract/cold-key.ts'
import { moveToCold } from '../../lib/runtime/object-store/move-to-cold.ts'
import { MIN_PART_BYTES, type ObjectStore } from '../../lib/runtime/object-store/object-store.ts'

const type = { contentType: 'image/jpeg' }
const sha256 = (data: Buffer | string) => createHash('sha256').update(data).digest('hex')

/** What a store must do to have a cold tier. `partBytes`: above which it copies in parts. */
export function coldContract(t: Test, store: ObjectStore, partBytes = 0): void {
  let tests = 0
  const fresh = () => `c${tests++}/m/`
  const keysOf = async (prefix: string) => {
    const keys: string[] = []
    for await (const { key } of store.list(prefix)) keys.push(key)
    return keys
  }

  t.test('copies an object with its type, within a tier and between both', async (t) => {
    const at = fresh()
    await store.put(`${at}original`, 'grüße', type)
    for (const [from, to] of [
      ['original', 'second'],
      ['original', 'cold/original'],
      ['cold/original', 'cold/second'],
      ['cold/second', 'back+@=_'],
    ] as const) {
      const made = await store.copy(at + from, at + to)
      t.match(made, { key: at + to, size: 7, ...type })
      const { info, body } = await store.get(at + to, { start: 3, end: 6 })
      t.equal(info.size, 7)
      t.equal((await buffer(body)).toString(), Buffer.from('grüße').subarray(3, 7).toString())
      t.match(await store.head(at + to), { size: 7, ...type })
    }
    await t.rejects(store.copy(`${at}none`, `${at}cold/none`), { code: 'NotFound' })
    t.equal(await store.head(`${at}cold/none`), undefined)
    t.strictSame(
      await keysOf(at),
      ['back+@=_', 'cold/original', 'cold/second', 'original', 'second'].map((k) => at + k),
    )
    await store.put(`${at.slice(0, -1)}x/other`, 'x', type)
    t.equal(await store.deletePrefix(at), 5)
    t.strictSame(await keysOf(at), [])
    await store.deleteForGood(`${at}none`)
  })

  t.test('copies a large object whole, and says how far it is', async (t) => {
    const at = fresh()
    const bytes = randomBytes(partBytes === 0 ? 1000 : 2 * partBytes + 12_345)
    await store.put(`${at}original`, bytes, type)
    const seen: number[] = []
    const onPart = async (part: number) => void seen.push(part)
    await store.copy(`${at}original`, `${at}cold/original`, { onPart })
    t.equal(seen.length, partBytes === 0 ? 1 : 3)
    t.equal(
      seen.reduce((a, b) => a + b),
      bytes.length,
    )
    t.ok((await buffer((await store.get(`${at}cold/original`)).body)).equals(bytes))
    const stop = new AbortController()
    const stopping = async () => stop.abort(new Error('stop'))
    if (partBytes > 0) {
      const copying = store.copy(`${at}original`, `${at}cold/stopped`, { signal: stop.signal, onPart: stopping })
      await t.rejects(copying, { message: 'stop' })
      t.equal(await store.head(`${at}cold/stopped`), undefined)
    }
    t.equal(await store.deletePrefix(at), 2, 'and no upload is left')
  })

  t.test('what is put at a cold key is found there, in parts too, and goes with the prefix', async (t) => {
    const at = fresh()
    await store.put(`${at}cold/whole`, 'x', type)
    const id = await store.createMultipart(`${at}cold/joined`, type)
    const size = MIN_PART_BYTES + 1
    const part = await store.putPart(`${at}cold/joined`, id, 1, Readable.from([Buffer.alloc(size)]), { size })
    t.match(await store.completeMultipart(`${at}cold/joined`, id, [part]), { size })
    const file = join(t.testdir(), 'file')
    await store.download(`${at}cold/whole`, file)
    await store.upload(file, `${at}cold/uploaded`, type)
    const keys = ['cold/joined', 'cold/uploaded', 'cold/whole'].map((key) => at + key)
    t.strictSame(await keysOf(at), keys)
    t.strictSame(await keysOf(`${at}cold/`), keys)
    await store.createMultipart(`${at}cold/open`, type)
    t.equal(await store.deletePrefix(at), 4)
    t.strictSame(await keysOf(at), [])
  })

  t.test('what is moved to the cold tier was compared, and a move that is repeated ends', async (t) => {
    const at = fresh()
    const key = `${at}original`
    await store.put(key, 'hello', type)
    const moved = { key: coldKeyOf(key), size: 5, sha256: sha256('hello') }
    t.strictSame(await moveToCold(store, key), moved, 'without a digest, one is made')
    const { lastModified } = (await store.head(moved.key)) ?? {}
    t.strictSame(await moveToCold(store, key, { sha256: sha256('hello'), size: 5 }), moved, 'again')
    t.equal((await store.head(moved.key))?.lastModified.getTime(), lastModified?.getTime(), 'and copies nothing')
    t.equal(await text((await store.get(key)).body), 'hello', 'the source is the caller’s to delete')
    await store.deleteForGood(key)
    t.equal(await store.head(key), undefined)
    t.strictSame(await moveToCold(store, key, { sha256: sha256('hello') }), moved, 'once the source is gone')
    await t.rejects(moveToCold(store, key, { sha256: sha256('other') }), { code: 'Changed' })
    await t.rejects(moveToCold(store, key, { size: 6 }), { code: 'Changed' })
    await t.rejects(moveToCold(store, `${at}none`), { code: 'NotFound' })
    await t.rejects(moveToCold(store, moved.key), TypeError, 'it is there already')
    await store.deletePrefix(at)
  })

  t.test('a move by several at once ends for all of them', async (t) => {
    const at = fresh()
    const bytes = randomBytes(partBytes + 1000)
    await store.put(`${at}original`, bytes, type)
    const moves = await Promise.allSettled([1, 2, 3].map(() => moveToCold(store, `${at}original`)))
    const done = moves.filter((move) => move.status === 'fulfilled')
    // One that copies in parts ends the uploads of the others, which are tried again.
    t.ok(done.length > 0)
    for (const { value } of done) t.equal(value.sha256, sha256(bytes))
    t.equal((await moveToCold(store, `${at}original`)).sha256, sha256(bytes))
    await store.deletePrefix(at)
  })

  t.test('neither a source nor a copy that is not what it should be passes for it', async (t) => {
    const at = fresh()
    const key = `${at}original`
    await store.put(key, 'hello', type)
    for (const known of [{ sha256: sha256('other') }, { sha256: sha256('hello'), size: 6 }])
      await t.rejects(moveToCold(store, key, known), { code: 'Changed' })
    await store.put(coldKeyOf(key), 'hallo', type)
    t.equal((await moveToCold(store, key)).sha256, sha256('hello'), 'a wrong copy is made again')
    const changing: ObjectStore = {
      ...store,
      async copy(...given) {
        const made = await store.copy(...given)
        await store.put(key, 'other', type)
        return made
      },
    }
    await store.delete(coldKeyOf(key))
    await t.rejects(moveToCold(changing, key), { code: 'Changed', message: /changed while/ })
    const torn: ObjectStore = { ...store, copy: (_, to) => store.put(to, 'othr!', type) }
    await store.delete(coldKeyOf(key))
    await t.rejects(moveToCold(torn, key), { code: 'Unavailable' })
    await t.rejects(moveToCold(torn, key, { sha256: sha256('other') }), { code: 'Unavailable' })
    t.equal((await moveToCold(store, key)).sha256, sha256('other'), 'and the next move heals it')
    await store.deletePrefix(at)
  })

  t.test('asks before bytes are read as well, and what it is told reaches the caller', async (t) => {
    const at = fresh()
    const bytes = randomBytes(9 * 1024 ** 2)
    await store.put(`${at}original`, bytes, type)
    let asked = 0
    const onPart = async (part: number) => {
      asked += part
    }
    await moveToCold(store, `${at}original`, { onPart })
    t.equal(asked, 3 * bytes.length, 'to learn the digest, to copy, to compare')
    const lost = new Error('the lease is lost')
    const refuse = () => Promise.reject(lost)
    t.equal(await moveToCold(store, `${at}original`, { onPart: refuse }).catch((e: unknown) => e), lost)
    const reason = new Error('stopping')
    const signal = AbortSignal.abort(reason)
    t.equal(await moveToCold(store, `${at}original`, { signal }).catch((e: unknown) => e), reason)
    await store.deletePrefix(at)
  })
}
