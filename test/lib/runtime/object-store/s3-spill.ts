import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readlink, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import { openS3Store } from '../../../../lib/runtime/object-store/s3.ts'
import { openSpill } from '../../../../lib/runtime/object-store/s3-spill.ts'
import { eventually } from '../../../support/eventually.ts'

const MIB = 1024 * 1024
const VIDEO = { contentType: 'video/mp4' }

interface Bucket {
  store: ObjectStore
  scratch: string
  /** Bodies of the PUTs that came, in order. */
  puts: Buffer[]
  /** How the next PUTs are answered, instead of by success. */
  failures: number[]
}

/** A store on a server that takes every PUT of a whole object. */
async function openBucket(t: Test): Promise<Bucket> {
  const puts: Buffer[] = []
  const failures: number[] = []
  const server = createServer((req, res) => {
    void buffer(req).then((body) => {
      puts.push(body)
      res.writeHead(failures.shift() ?? 200, { etag: `"${createHash('md5').update(body).digest('hex')}"` }).end()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const scratch = t.testdir()
  const store = openS3Store({
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    region: 'us-east-1',
    bucket: 'bucket',
    accessKey: 'access',
    secretKey: 'secretsecret',
    scratch,
  })
  t.teardown(async () => {
    await store.close()
    server.closeAllConnections()
    server.close()
  })
  return { store, scratch, puts, failures }
}

/** Bytes in nameless files of this process below a folder; undefined where the system does not say. */
async function spilledIn(folder: string): Promise<number | undefined> {
  const open = await readdir('/proc/self/fd').catch(() => undefined)
  if (!open) return undefined
  let bytes = 0
  for (const fd of open) {
    const target = await readlink(`/proc/self/fd/${fd}`).catch(() => '')
    if (target.startsWith(folder)) bytes += (await stat(`/proc/self/fd/${fd}`)).size
  }
  return bytes
}
const canLook = (await spilledIn('/')) !== undefined

t.test('slow bodies of unknown length wait on disk and not in memory', async (t) => {
  const { store, scratch, puts } = await openBucket(t)
  const piece = Buffer.alloc(MIB, 'x')
  const before = process.memoryUsage().arrayBuffers
  const bodies = Array.from({ length: 32 }, () => new PassThrough())
  const done = bodies.map((body, i) => store.put(`a/${i}`, body, VIDEO))
  for (const body of bodies) body.write(piece)
  if (canLook) await eventually('all of it on disk', async () => (await spilledIn(scratch)) === 32 * MIB)
  const grown = (process.memoryUsage().arrayBuffers - before) / MIB
  t.ok(grown < 32, `${grown.toFixed(0)} MiB for 32 bodies`)
  t.strictSame(await readdir(scratch), [], 'no file has a name that a crash could leave behind')
  for (const body of bodies) body.end('end')
  for (const info of await Promise.all(done)) t.equal(info.size, MIB + 3)
  t.ok(puts.every((bytes) => bytes.length === MIB + 3 && bytes.subarray(-4).toString() === 'xend'))
  t.equal(await spilledIn(scratch), canLook ? 0 : undefined)
})

t.test('a body that breaks off leaves nothing on disk and no request', async (t) => {
  const { store, scratch, puts } = await openBucket(t)
  const body = new PassThrough()
  const put = store.put('a', body, VIDEO)
  body.write(Buffer.alloc(MIB))
  if (canLook) await eventually('some of it on disk', async () => (await spilledIn(scratch)) === MIB)
  body.destroy(new Error('client gone'))
  await t.rejects(put, { message: 'client gone' })
  t.equal(await spilledIn(scratch), canLook ? 0 : undefined)
  t.strictSame([await readdir(scratch), puts.length], [[], 0])
})

t.test('what lies on disk can be sent again', async (t) => {
  const { store, failures, puts } = await openBucket(t)
  failures.push(503, 500)
  const bytes = randomBytes(300_000)
  t.match(await store.put('a', Readable.from([bytes]), VIDEO), { size: bytes.length })
  t.equal(puts.length, 3)
  t.ok(puts.every((sent) => sent.equals(bytes)))
})

t.test('an empty body is an empty object', async (t) => {
  const { store } = await openBucket(t)
  t.match(await store.put('a', Readable.from([]), VIDEO), { size: 0 })
})

t.test('files that a crash left behind are removed at the next start, others are not', async (t) => {
  const scratch = t.testdir()
  await writeFile(`${scratch}/keepsake-part-0191`, '')
  await writeFile(`${scratch}/another`, '')
  const keys = { region: 'us-east-1', bucket: 'bucket', accessKey: 'access', secretKey: 'secretsecret' }
  const store = openS3Store({ endpoint: 'http://127.0.0.1:9', ...keys, scratch })
  await store.close()
  t.strictSame(await readdir(scratch), ['another'])
})

t.test('a folder that is not there is an outage of the store', async (t) => {
  const { store, scratch } = await openBucket(t)
  const gone = openS3Store({
    endpoint: 'http://127.0.0.1:9',
    region: 'us-east-1',
    bucket: 'bucket',
    accessKey: 'access',
    secretKey: 'secretsecret',
    scratch: `${scratch}/none`,
  })
  t.teardown(() => gone.close())
  await t.rejects(gone.put('a', Readable.from(['x']), VIDEO), { code: 'Unavailable' })
  t.match(await store.put('b', Readable.from(['x']), VIDEO), { size: 1 })
})

t.test('cuts a body into parts of one length, whatever pieces it came in', async (t) => {
  const spill = await openSpill(t.testdir())
  const bytes = randomBytes(1000)
  const pieces = [0, 1, 7, 500, 501, 999].map((from, i, all) => bytes.subarray(from, all[i + 1]))
  const released: number[] = []
  const parts: Buffer[] = []
  for await (const length of spill.partsOf(Readable.from(pieces), 300, (chunk) => void released.push(chunk.length))) {
    parts.push(await buffer(spill.content(length)))
    t.ok(parts.at(-1)?.equals(await buffer(spill.content(length))), 'it can be read twice')
  }
  await spill.close()
  t.strictSame(
    parts.map((part) => part.length),
    [300, 300, 300, 100],
  )
  t.ok(Buffer.concat(parts).equals(bytes))
  t.strictSame(released, [1, 6, 493, 1, 498, 1])
})
