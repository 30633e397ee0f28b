import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { request } from 'undici'
import { checking } from '../../../../api/features/media/uploads/digest.ts'
import { freeBuffer } from '../../../../api/features/media/uploads/free-buffer.ts'
import { startTestApi } from '../../../support/api.ts'

const MIB = 1024 * 1024
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

t.test('a buffer that has its memory for itself is freed, and freeing it again does nothing', async (t) => {
  const buffer = Buffer.allocUnsafeSlow(MIB)
  const before = process.memoryUsage().arrayBuffers
  freeBuffer(buffer)
  t.equal(buffer.length, 0)
  // The collector may free something of others at this very moment.
  t.ok(before - process.memoryUsage().arrayBuffers >= MIB)
  t.doesNotThrow(() => freeBuffer(buffer))
  t.doesNotThrow(() => freeBuffer(Buffer.alloc(0)))
})

t.test('a buffer that shares its memory is left alone', async (t) => {
  const whole = Buffer.allocUnsafeSlow(100).fill(7)
  for (const view of [whole.subarray(1), whole.subarray(0, 99), whole.subarray(10, 20)]) freeBuffer(view)
  t.equal(whole.length, 100)
  const pooled = Buffer.from('of the pool')
  freeBuffer(pooled)
  t.equal(pooled.toString(), 'of the pool')
  const shared = Buffer.from(new SharedArrayBuffer(10))
  freeBuffer(shared)
  t.equal(shared.length, 10)
})

t.test('the check passes on the very buffers it was given, however slowly they are read', async (t) => {
  const given = Array.from({ length: 50 }, () => randomBytes(1000))
  const { stream, sha256: digest } = checking({ size: 50_000 })
  Readable.from(given).pipe(stream)
  const passed: Buffer[] = []
  for await (const chunk of stream) {
    passed.push(chunk as Buffer)
    for (let turn = 0; turn < 5; turn++) await setImmediate()
  }
  t.equal(passed.length, given.length)
  t.ok(passed.every((chunk, i) => chunk === given[i]))
  t.equal(digest(), sha256(Buffer.concat(given)))
})

t.test('the check takes no more in than its reader takes out', async (t) => {
  const { stream } = checking({ size: 10 * MIB })
  const piece = Buffer.alloc(64 * 1024)
  let taken = 0
  while (stream.write(piece)) taken++
  await setImmediate()
  t.ok(taken < 5, `took ${taken} pieces of 64 KiB that nobody read`)
  stream.destroy()
  await once(stream, 'close')
})

t.test('what has been stored of a chunk does not wait in memory for the collector', async (t) => {
  const { publicUrl: url, org, people, keys } = await startTestApi(t)
  const base = `${url}/api/media/${org}/upload`
  const headers = { authorization: `Bearer ${people.member.token}` }
  const size = 48 * MIB
  const plan = { filename: 'a.mov', mime_type: 'video/quicktime', file_size_bytes: size, chunk_size_bytes: size }
  const started = await request(base, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(plan),
  })
  t.equal(started.statusCode, 201)
  const { data } = (await started.body.json()) as { data: { upload_id: string } }

  // The same piece again and again, so that this side of the connection needs no memory.
  const piece = randomBytes(MIB)
  const before = process.memoryUsage().arrayBuffers
  let peak = before
  function* bytes() {
    for (let sent = 0; sent < size; sent += MIB) {
      peak = Math.max(peak, process.memoryUsage().arrayBuffers)
      yield piece
    }
  }
  const answer = await request(`${base}/${data.upload_id}/0`, {
    method: 'PUT',
    headers: { ...headers, 'content-type': 'application/octet-stream', 'content-length': String(size) },
    body: Readable.from(bytes(), { objectMode: false }),
  })
  const received = (await answer.body.json()) as { data: { sha256: string } }
  t.equal(answer.statusCode, 200)
  const expected = createHash('sha256')
  for (let sent = 0; sent < size; sent += MIB) expected.update(piece)
  t.equal(received.data.sha256, expected.digest('hex'))
  const grown = (peak - before) / MIB
  t.ok(grown < 8, `${grown.toFixed(1)} MiB of buffers lay about`)
  t.strictSame(await keys(), [], 'nothing is visible before the merge')
})
