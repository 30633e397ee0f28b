import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import type { Test } from 'tap'
import {
  MIN_PART_BYTES,
  type ObjectStore,
  type PartInfo,
  StoreError,
  type StoreErrorCode,
} from '../../lib/runtime/object-store/object-store.ts'

const MIB = 1024 * 1024
const md5 = (data: Buffer | string) => createHash('md5').update(data).digest('base64')
const textType = { contentType: 'text/plain' }

/** A stream of equal bytes that is never in memory whole. */
export function zeros(bytes: number, block = 64 * 1024): Readable {
  const chunk = Buffer.alloc(block)
  return Readable.from(
    (function* () {
      for (let left = bytes; left > 0; left -= block) yield left < block ? chunk.subarray(0, left) : chunk
    })(),
  )
}

const keysOf = async (store: ObjectStore, prefix: string) => {
  const keys: string[] = []
  for await (const { key } of store.list(prefix)) keys.push(key)
  return keys
}

type TypeOf = (key: string, given: string) => string

interface Sizes {
  /** The type that an object gets. */
  typeOf?: TypeOf
  /** More objects than the store lists or deletes at once. */
  objects?: number
  /** A file that is larger than the store uploads in one piece. */
  fileBytes?: number
}

/** What every ObjectStore must do. Each test works below a prefix of its own. */
export function objectStoreContract(
  t: Test,
  store: ObjectStore,
  { typeOf = (_, given) => given, objects = 1010, fileBytes = 65 * MIB }: Sizes = {},
): void {
  let tests = 0
  const fresh = () => `t${tests++}/`
  const refused = (t: Test, work: Promise<unknown>, code: StoreErrorCode, name?: string) =>
    t.rejects(work, { name: 'StoreError', code }, { message: name ?? code })

  t.test('check finds the store', async (t) => {
    await t.resolves(store.check())
  })

  t.test('gives back what was put, with its type, size, etag and time', async (t) => {
    const at = fresh()
    for (const [name, body] of [
      ['string', 'grüße'],
      ['buffer', Buffer.from('grüße')],
      ['stream', Readable.from([Buffer.from('grü'), Buffer.from('ße')])],
      ['sized', Readable.from([Buffer.from('grüße')])],
    ] as const) {
      const options = { contentType: 'text/plain; charset=utf-8', ...(name === 'sized' && { size: 7 }) }
      const made = await store.put(at + name, body, options)
      const contentType = typeOf(at + name, options.contentType)
      t.match(made, { key: at + name, size: 7, contentType, etag: /^"[0-9a-f]+"$/ }, name)
      t.ok(Math.abs(made.lastModified.getTime() - Date.now()) < 60_000)
      const { info, body: got } = await store.get(at + name)
      t.equal(await text(got), 'grüße')
      t.equal(info.etag, made.etag)
      t.equal(info.contentType, made.contentType)
      t.equal(info.size, 7)
      t.strictSame(await store.head(at + name), info)
    }
  })

  t.test('keeps an object of no bytes', async (t) => {
    const key = `${fresh()}empty`
    for (const body of ['', Readable.from([])]) {
      await store.put(key, body, { ...textType, size: 0 })
      t.equal((await store.head(key))?.size, 0)
      t.equal(await text((await store.get(key)).body), '')
      t.equal(await text((await store.get(key, { start: 0, end: 9 })).body), '')
    }
  })

  t.test('replaces an object, and its etag and type with it', async (t) => {
    const key = `${fresh()}x`
    const one = await store.put(key, 'one', textType)
    const two = await store.put(key, 'two!', { contentType: 'text/html' })
    t.not(one.etag, two.etag)
    t.match(await store.head(key), { size: 4, contentType: typeOf(key, 'text/html'), etag: two.etag })
    const again = await store.put(key, 'one', textType)
    t.equal(again.etag, one.etag, 'equal bytes have equal etags')
  })

  t.test('reads ranges as HTTP means them', async (t) => {
    const key = `${fresh()}digits`
    await store.put(key, '0123456789', textType)
    const cases: [string, { start: number; end?: number }, string][] = [
      ['inclusive end', { start: 2, end: 4 }, '234'],
      ['one byte', { start: 0, end: 0 }, '0'],
      ['open end', { start: 7 }, '789'],
      ['end past the end', { start: 8, end: 100 }, '89'],
      ['starting at the end', { start: 10 }, ''],
      ['starting behind the end', { start: 100, end: 200 }, ''],
    ]
    for (const [name, range, expected] of cases) {
      const { info, body } = await store.get(key, range)
      t.equal(await text(body), expected, name)
      t.equal(info.size, 10, 'the size is that of the object')
    }
    for (const range of [{ start: -1 }, { start: 3, end: 2 }, { start: 0.5 }])
      await t.rejects(store.get(key, range), RangeError)
  })

  t.test('says what is not there', async (t) => {
    const at = fresh()
    await refused(t, store.get(`${at}none`), 'NotFound')
    await refused(t, store.get(`${at}none`, { start: 5 }), 'NotFound')
    await refused(t, store.download(`${at}none`, join(t.testdir(), 'x')), 'NotFound')
    t.equal(await store.head(`${at}none`), undefined)
    await t.resolves(store.delete(`${at}none`))
    t.strictSame(await keysOf(store, at), [])
    t.equal(await store.deletePrefix(at), 0)
  })

  t.test('refuses a body of another length and stores nothing', async (t) => {
    const at = fresh()
    for (const [name, size] of [
      ['short', 11],
      ['long', 9],
    ] as const) {
      const body = Readable.from([Buffer.from('01234'), Buffer.from('56789')])
      await refused(t, store.put(at + name, body, { ...textType, size }), 'IncompleteBody', name)
      t.equal(await store.head(at + name), undefined)
    }
    await store.put(`${at}kept`, 'old', textType)
    const body = Readable.from([Buffer.alloc(10)])
    await refused(t, store.put(`${at}kept`, body, { ...textType, size: 11 }), 'IncompleteBody')
    t.equal(await text((await store.get(`${at}kept`)).body), 'old', 'what was there stays')
  })

  t.test('throws the error of a body as it is, and stores nothing', async (t) => {
    const at = fresh()
    const gone = new Error('client gone')
    const dying = () =>
      Readable.from(
        (async function* () {
          yield Buffer.alloc(100_000)
          throw gone
        })(),
      )
    const error = await store.put(`${at}a`, dying(), { ...textType, size: 200_000 }).catch((e: unknown) => e)
    t.equal(error, gone)
    t.equal(await store.put(`${at}b`, dying(), textType).catch((e: unknown) => e), gone, 'without a size too')
    t.strictSame(await keysOf(store, at), [])
  })

  t.test('leaves a refused body alone, so that an HTTP request can still be answered', async (t) => {
    const body = new PassThrough()
    body.write(Buffer.alloc(10))
    await refused(t, store.put(`${fresh()}x`, body, { ...textType, size: 5 }), 'IncompleteBody')
    t.notOk(body.destroyed)
    body.destroy()
  })

  t.test('stops at an abort, even while the body is silent, and stores nothing', async (t) => {
    const at = fresh()
    const reason = new Error('shutting down')
    const stop = new AbortController()
    const silent = new PassThrough()
    silent.write(Buffer.alloc(1000))
    const put = store.put(`${at}a`, silent, { ...textType, size: 2000, signal: stop.signal })
    setTimeout(() => stop.abort(reason), 50)
    t.equal(await put.catch((e: unknown) => e), reason)
    t.equal(await store.put(`${at}b`, 'x', { ...textType, signal: stop.signal }).catch((e: unknown) => e), reason)
    t.strictSame(await keysOf(store, at), [])
  })

  t.test('stops reading at an abort', async (t) => {
    const key = `${fresh()}big`
    await store.put(key, zeros(8 * MIB), { ...textType, size: 8 * MIB })
    const stop = new AbortController()
    const { body } = await store.get(key, undefined, stop.signal)
    body.once('data', () => stop.abort())
    const [error] = (await once(body, 'error')) as [Error]
    t.equal(error.name, 'AbortError')
  })

  t.test('has no use any more for the buffers that it releases, every one of a stream', async (t) => {
    const at = fresh()
    const data = randomBytes(3 * MIB)
    // Larger and smaller than what a connection takes at once, and a last one that is not full.
    for (const length of [1000, 64 * 1024, 2 * MIB]) {
      let [given, released] = [0, 0]
      const body = Readable.from(
        (function* () {
          for (let from = 0; from < data.length; from += length) {
            given++
            yield Buffer.from(data.subarray(from, from + length))
          }
        })(),
      )
      const release = (chunk: Buffer) => {
        released++
        chunk.fill(0)
      }
      await store.put(`${at}${length}`, body, { ...textType, size: data.length, release })
      t.ok(data.equals(await buffer((await store.get(`${at}${length}`)).body)), `in pieces of ${length}`)
      t.equal(released, given)
    }
  })

  t.test('lists in key order below a prefix', async (t) => {
    const at = fresh()
    const keys = ['a', 'a/b', 'a/b/c', 'a-b', 'a0', 'B', 'ab/x', 'b/1', 'b/10', 'b/2', 'z.mp4'].map((k) => at + k)
    await Promise.all(keys.map((key) => store.put(key, key, textType)))
    const sorted = [...keys].sort()
    t.strictSame(await keysOf(store, at), sorted)
    for (const prefix of ['a', 'a/', 'a/b', 'b/1', 'b/10', 'q', 'a/b/']) {
      t.strictSame(
        await keysOf(store, at + prefix),
        sorted.filter((k) => k.startsWith(at + prefix)),
        prefix,
      )
    }
    for await (const listed of store.list(`${at}a/b`)) {
      const info = await store.head(listed.key)
      t.equal(listed.etag, info?.etag)
      t.equal(listed.size, info?.size)
    }
  })

  t.test('lists and deletes more than one page', async (t) => {
    const at = fresh()
    // Long names: a list of three hundred is more than a connection takes at once.
    const keys = Array.from({ length: objects }, (_, i) => `${at}${'n'.repeat(150)}${String(i).padStart(4, '0')}`)
    for (let i = 0; i < keys.length; i += 64)
      await Promise.all(keys.slice(i, i + 64).map((key) => store.put(key, '', textType)))
    t.strictSame(await keysOf(store, at), keys)
    t.equal(await store.deletePrefix(at), objects)
    t.strictSame(await keysOf(store, at), [])
  })

  t.test('a list that is left early leaves the store usable', async (t) => {
    const at = fresh()
    for (const name of ['a', 'b', 'c']) await store.put(at + name, name, textType)
    for await (const { key } of store.list(at)) {
      t.equal(key, `${at}a`)
      break
    }
    t.strictSame(await keysOf(store, at), [`${at}a`, `${at}b`, `${at}c`])
  })

  t.test('deletes below a prefix what was replaced and uploads that were not completed as well', async (t) => {
    const at = fresh()
    const begin = (key: string) => store.createMultipart(at + key, textType)
    const [one, two, outside] = [await begin('a/x'), await begin('a/b/y'), await begin('ab/x')]
    await store.putPart(`${at}a/x`, one, 1, Readable.from([Buffer.from('part')]), { size: 4 })
    for (const body of ['old', 'new']) await store.put(`${at}a/z`, body, textType)
    t.ok((await store.deletePrefix(`${at}a/`)) >= 3)
    t.equal(await store.deletePrefix(`${at}a/`), 0, 'nothing is left')
    await refused(t, store.listParts(`${at}a/x`, one), 'NotFound')
    await refused(t, store.listParts(`${at}a/b/y`, two), 'NotFound')
    t.strictSame(await store.listParts(`${at}ab/x`, outside), [], 'what is not below it stays')
    await store.abortMultipart(`${at}ab/x`, outside)
  })

  t.test('deletes one object, and only below a whole prefix', async (t) => {
    const at = fresh()
    for (const key of ['org/1/a', 'org/1/b/c', 'org/10/a', 'org/1']) await store.put(at + key, 'x', textType)
    await t.rejects(store.deletePrefix(`${at}org/1`), TypeError)
    await t.rejects(store.deletePrefix(''), TypeError)
    t.equal(await store.deletePrefix(`${at}org/1/`), 2)
    t.strictSame(await keysOf(store, at), [`${at}org/1`, `${at}org/10/a`])
    await store.delete(`${at}org/1`)
    t.strictSame(await keysOf(store, at), [`${at}org/10/a`])
  })

  t.test('puts and deletes beside each other do not disturb each other', async (t) => {
    const at = fresh()
    const lanes = Array.from({ length: 8 }, async (_, lane) => {
      for (let i = 0; i < 10; i++) {
        await store.put(`${at}same/folder/${lane}`, 'x', textType)
        await store.delete(`${at}same/folder/${lane}`)
      }
    })
    await t.resolves(Promise.all(lanes))
    t.strictSame(await keysOf(store, at), [])
  })

  t.test('readers see a whole object, old or new, while it is replaced', async (t) => {
    const key = `${fresh()}x`
    const bodies = [Buffer.alloc(200_000, 1), Buffer.alloc(300_000, 2)] as const
    await store.put(key, bodies[0], textType)
    let writing = true
    const writer = (async () => {
      for (let i = 0; i < 20; i++) await store.put(key, bodies[i % 2] ?? bodies[0], textType)
      writing = false
    })()
    while (writing) {
      const { info, body } = await store.get(key)
      const got = await buffer(body)
      const whole = bodies.some((b) => b.equals(got)) && got.length === info.size
      if (!whole) t.fail(`half an object: ${got.length} of ${info.size}`)
    }
    await t.resolves(writer)
  })

  t.test('refuses keys that could lead elsewhere', async (t) => {
    const bad = [
      '',
      '/',
      '/a',
      'a/',
      'a//b',
      '../a',
      'a/../b',
      'a/./b',
      '.',
      'a b',
      'a\0',
      'ä',
      'a\\b',
      'a?b',
      'a~object',
    ]
    bad.push('x'.repeat(201), `${'x/'.repeat(600)}x`)
    for (const key of bad) {
      await t.rejects(async () => store.put(key, 'x', textType), TypeError, JSON.stringify(key.slice(0, 20)))
      await t.rejects(async () => store.get(key), TypeError)
      await t.rejects(async () => store.delete(key), TypeError)
      await t.rejects(async () => store.createMultipart(key, textType), TypeError)
    }
    await t.rejects(async () => keysOf(store, '../'), TypeError)
    await t.rejects(async () => store.put('a', 'x', { contentType: 'text/plain\r\nx: y' }), TypeError)
  })

  t.test('downloads and uploads files', async (t) => {
    const at = fresh()
    const folder = t.testdir()
    const data = randomBytes(3 * MIB + 17)
    await writeFile(join(folder, 'in'), data)
    const made = await store.upload(join(folder, 'in'), `${at}f`, { contentType: 'video/mp4' })
    t.match(made, { size: data.length, contentType: typeOf(`${at}f`, 'video/mp4') })
    const got = await store.download(`${at}f`, join(folder, 'out'))
    t.equal(got.etag, made.etag)
    t.ok(data.equals(await readFile(join(folder, 'out'))))
    await t.rejects(store.upload(join(folder, 'missing'), `${at}g`, textType), { code: 'ENOENT' })
    await t.rejects(store.download(`${at}f`, join(folder, 'out2'), AbortSignal.abort()))
    t.strictSame((await readdir(folder)).sort(), ['in', 'out'], 'no half file is left')
  })

  t.test('uploads a large file', async (t) => {
    const at = fresh()
    const folder = t.testdir()
    // It does not repeat where parts begin.
    const data = Buffer.alloc(fileBytes, randomBytes(MIB + 1))
    await writeFile(join(folder, 'in'), data)
    t.match(await store.upload(join(folder, 'in'), `${at}f`, { contentType: 'video/mp4' }), { size: data.length })
    t.ok(data.equals(await buffer((await store.get(`${at}f`)).body)))
  })

  t.test('streams a long body of unknown length', async (t) => {
    const key = `${fresh()}long`
    // Two of the parts in which a stream is sent, and a rest.
    const data = randomBytes(17 * MIB)
    const made = await store.put(key, Readable.from([data.subarray(0, 7), data.subarray(7)]), textType)
    t.equal(made.size, data.length)
    t.ok(data.equals(await buffer((await store.get(key)).body)))
    const dying = Readable.from(
      (async function* () {
        yield data
        throw new Error('client gone')
      })(),
    )
    await t.rejects(store.put(`${key}2`, dying, textType), { message: 'client gone' })
    t.equal(await store.head(`${key}2`), undefined)
  })

  multipartContract(t, store, fresh, refused, typeOf)
}

function multipartContract(
  t: Test,
  store: ObjectStore,
  fresh: () => string,
  refused: (t: Test, work: Promise<unknown>, code: StoreErrorCode, name?: string) => Promise<unknown>,
  typeOf: TypeOf,
): void {
  const begin = async (contentType = 'video/mp4') => {
    const key = `${fresh()}original`
    return { key, id: await store.createMultipart(key, { contentType }) }
  }
  const part = (key: string, id: string, n: number, data: Buffer, contentMd5?: string) =>
    store.putPart(key, id, n, Readable.from([data]), { size: data.length, ...(contentMd5 && { contentMd5 }) })
  const five = Buffer.alloc(MIN_PART_BYTES, 5)

  t.test('joins parts that came in parallel and out of order', async (t) => {
    const { key, id } = await begin()
    const datas = [randomBytes(MIN_PART_BYTES), randomBytes(MIN_PART_BYTES + 1), randomBytes(3)]
    const parts: PartInfo[] = []
    await Promise.all([3, 1, 2].map(async (n) => parts.push(await part(key, id, n, datas[n - 1] ?? five))))
    parts.sort((a, b) => a.partNumber - b.partNumber)
    t.equal(await store.head(key), undefined, 'not visible before it is completed')
    t.strictSame(await keysOf(store, key.replace('original', '')), [])
    t.strictSame(await store.listParts(key, id), parts)
    const made = await store.completeMultipart(key, id, parts)
    const data = Buffer.concat(datas)
    const contentType = typeOf(key, 'video/mp4')
    t.match(made, { key, size: data.length, contentType, etag: /^".+"$/ })
    t.match(await store.head(key), { etag: made.etag, size: made.size, contentType })
    t.ok(data.equals(await buffer((await store.get(key)).body)))
    t.equal(await text((await store.get(key, { start: data.length - 3 })).body), datas[2]?.toString())
  })

  t.test('takes the last of several versions of a part', async (t) => {
    const { key, id } = await begin()
    await part(key, id, 1, Buffer.alloc(10, 1))
    const one = await part(key, id, 1, five)
    const two = await part(key, id, 2, Buffer.from('end'))
    t.strictSame(
      (await store.listParts(key, id)).map((p) => p.size),
      [five.length, 3],
    )
    const made = await store.completeMultipart(key, id, [one, two])
    t.equal(made.size, five.length + 3)
  })

  t.test('checks the digest of a part', async (t) => {
    const { key, id } = await begin()
    const data = randomBytes(1000)
    await refused(t, part(key, id, 1, data, md5('something else')), 'BadDigest')
    t.strictSame(await store.listParts(key, id), [])
    await t.resolves(part(key, id, 1, data, md5(data)))
    await store.abortMultipart(key, id)
  })

  t.test('has no use any more for the buffers of parts that it releases', async (t) => {
    const { key, id } = await begin()
    const data = randomBytes(MIN_PART_BYTES)
    const pieces = Array.from({ length: 80 }, (_, i) => Buffer.from(data.subarray(i * 64 * 1024, (i + 1) * 64 * 1024)))
    const release = (chunk: Buffer) => void chunk.fill(0)
    const options = { size: data.length, contentMd5: md5(data), release }
    const made = await store.putPart(key, id, 1, Readable.from(pieces), options)
    t.ok(
      pieces.every((piece) => piece.every((byte) => byte === 0)),
      'all are released',
    )
    await store.completeMultipart(key, id, [made])
    t.ok(data.equals(await buffer((await store.get(key)).body)))
  })

  t.test('a part of another length, or that broke off, leaves no part', async (t) => {
    const { key, id } = await begin()
    const put = (body: Readable, size: number) => store.putPart(key, id, 1, body, { size })
    await refused(t, put(zeros(1000), 1001), 'IncompleteBody', 'short')
    await refused(t, put(zeros(1000), 999), 'IncompleteBody', 'long')
    const gone = new Error('client gone')
    const dying = Readable.from(
      (async function* () {
        yield Buffer.alloc(MIB)
        throw gone
      })(),
    )
    t.equal(await put(dying, 5 * MIB).catch((e: unknown) => e), gone)
    const stop = new AbortController()
    const silent = new PassThrough()
    silent.write(Buffer.alloc(1000))
    const aborted = store.putPart(key, id, 1, silent, { size: 2000, signal: stop.signal })
    setTimeout(() => stop.abort(gone), 50)
    t.equal(await aborted.catch((e: unknown) => e), gone)
    t.strictSame(await store.listParts(key, id), [])
    await store.abortMultipart(key, id)
  })

  t.test('refuses to join parts that are too small, missing, changed or out of order', async (t) => {
    const { key, id } = await begin()
    const small = await part(key, id, 1, Buffer.alloc(10))
    const two = await part(key, id, 2, five)
    await refused(t, store.completeMultipart(key, id, [small, two]), 'EntityTooSmall')
    const one = await part(key, id, 1, Buffer.alloc(MIN_PART_BYTES, 1))
    await refused(t, store.completeMultipart(key, id, [small, two]), 'InvalidPart', 'changed')
    await refused(
      t,
      store.completeMultipart(key, id, [one, { partNumber: 3, etag: two.etag }]),
      'InvalidPart',
      'missing',
    )
    await refused(t, store.completeMultipart(key, id, [two, one]), 'InvalidPart', 'out of order')
    await refused(t, store.completeMultipart(key, id, []), 'InvalidPart', 'none')
    t.equal(await store.head(key), undefined)
    const made = await store.completeMultipart(key, id, [one, two])
    t.equal(made.size, 2 * five.length, 'and still joins good ones afterwards')
  })

  t.test('joins the parts that there are, when one in between is missing', async (t) => {
    const { key, id } = await begin()
    const parts = [await part(key, id, 1, five), await part(key, id, 3, Buffer.alloc(10))]
    t.match(await store.listParts(key, id), parts)
    t.equal((await store.completeMultipart(key, id, parts)).size, five.length + 10)
  })

  t.test('completes once: doing it again changes nothing, and late parts find no upload', async (t) => {
    const { key, id } = await begin()
    const one = await part(key, id, 1, five)
    const made = await store.completeMultipart(key, id, [one])
    const again = await store.completeMultipart(key, id, [one]).catch((e: unknown) => e)
    if (again instanceof StoreError) t.equal(again.code, 'NotFound')
    else t.match(again, { etag: made.etag, size: made.size })
    await refused(t, part(key, id, 2, five), 'NotFound', 'late part')
    await refused(t, store.listParts(key, id), 'NotFound')
    await t.resolves(store.abortMultipart(key, id))
    t.equal((await store.head(key))?.etag, made.etag, 'the object stays')
  })

  t.test('completed by several at once, the object is whole and nobody hears of a success that was none', async (t) => {
    const { key, id } = await begin()
    const parts = [await part(key, id, 1, five), await part(key, id, 2, five)]
    const results = await Promise.allSettled([1, 2, 3].map(() => store.completeMultipart(key, id, parts)))
    t.ok(results.some((r) => r.status === 'fulfilled'))
    for (const r of results) {
      if (r.status === 'fulfilled') t.equal(r.value.size, 2 * five.length)
      else t.ok(r.reason instanceof StoreError && ['NotFound', 'Unavailable'].includes(r.reason.code), String(r.reason))
    }
    t.equal((await store.head(key))?.size, 2 * five.length)
  })

  t.test('an aborted upload is gone, with its parts', async (t) => {
    const { key, id } = await begin()
    const one = await part(key, id, 1, five)
    await store.abortMultipart(key, id)
    await t.resolves(store.abortMultipart(key, id), 'again')
    await refused(t, store.completeMultipart(key, id, [one]), 'NotFound')
    await refused(t, part(key, id, 1, five), 'NotFound')
    await refused(t, store.listParts(key, id), 'NotFound')
    t.equal(await store.head(key), undefined)
  })

  t.test('an upload belongs to its key, and ids that are none lead nowhere', async (t) => {
    const { key, id } = await begin()
    await refused(t, part(`${key}2`, id, 1, five), 'NotFound')
    await refused(t, store.listParts(`${key}2`, id), 'NotFound')
    await refused(t, store.listParts(key, '../../etc'), 'NotFound')
    await store.abortMultipart(`${key}2`, id)
    await t.resolves(store.listParts(key, id), 'still there')
    for (const n of [0, -1, 1.5, 10_001]) await t.rejects(part(key, id, n, five), TypeError)
    await store.abortMultipart(key, id)
  })

  t.test('an upload does not touch the object that is there until it is completed', async (t) => {
    const { key, id } = await begin()
    await store.put(key, 'old', textType)
    const one = await part(key, id, 1, Buffer.from('new!'))
    t.equal(await text((await store.get(key)).body), 'old')
    await store.completeMultipart(key, id, [one])
    t.equal(await text((await store.get(key)).body), 'new!')
  })
}
