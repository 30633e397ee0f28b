import { createHash, randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { sweepPurged } from '../../../../api/features/media/deletion/purge.ts'
import { abandonOldIntents } from '../../../../api/features/media/queries.ts'
import { inspectObject } from '../../../../api/features/media/uploads/inspect.ts'
import type { UploadSession } from '../../../../api/features/media/uploads/queries.ts'
import { expireUploads } from '../../../../api/features/media/uploads/release.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { originalKey } from '../../../../lib/contract/object-keys.ts'
import { openLog } from '../../../../lib/runtime/log.ts'
import { StoreError } from '../../../../lib/runtime/object-store/object-store.ts'
import { type Answer, fakeMp4, type Person, startTestApi, uuidOf } from '../../../support/api.ts'
import { subqueriesPerRow } from '../../../support/explain.ts'

/** Uploads in chunks, in both layouts. Takes over 20 s: parts have at least 5 MiB, and races are run for each. */

const api = await startTestApi(t)
const { people, org, call, store } = api
const { member } = people
const log = openLog({ program: 'test', level: 'fatal', fd: 2 })
const sql = (text: string, values: unknown[] = []) => api.database.admin.query(text, values).then((r) => r.rows)
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest()

interface Session {
  id: string
  total: number
  put(
    index: number,
    bytes?: Uint8Array | ReadableStream,
    headers?: Record<string, string>,
    who?: Person,
  ): Promise<Answer>
  merge(who?: Person): Promise<Answer>
  get(who?: Person): Promise<Answer>
  abort(who?: Person): Promise<Answer>
  chunk(index: number): Buffer
}

async function begin(bytes: Buffer, chunkBytes: number, fields: Record<string, unknown> = {}): Promise<Session> {
  const json = {
    filename: 'clip.mp4',
    mime_type: 'video/mp4',
    file_size_bytes: bytes.length,
    chunk_size_bytes: chunkBytes,
    ...fields,
  }
  const { status, body } = await call(member, 'POST', `/api/media/${org}/upload`, { json })
  if (status !== 201) throw new Error(JSON.stringify(body))
  const id = body.data.upload_id
  const path = `/api/media/${org}/upload/${id}`
  const chunk = (index: number) => bytes.subarray(index * chunkBytes, (index + 1) * chunkBytes)
  return {
    id,
    total: body.data.total_chunks,
    chunk,
    put: (index, content = chunk(index), headers = {}, who = member) =>
      call(who, 'PUT', `${path}/${index}`, { bytes: content, headers }),
    merge: (who = member) => call(who, 'POST', `/api/media/${org}/merge`, { json: { upload_id: id } }),
    get: (who = member) => call(who, 'GET', path),
    abort: (who = member) => call(who, 'DELETE', path),
  }
}

async function contentOf(mediaId: string): Promise<Buffer> {
  const { body } = await store.get(originalKey(uuidOf('organization', org), uuidOf('media', mediaId)))
  return Buffer.concat(await body.toArray())
}
const keysOf = async (session: Session) => {
  const [row] = await sql('select * from uploads where id = $1', [uuidOf('upload', session.id)])
  return [
    ...(await api.keys(`org/${row.org_id}/media/${row.media_id}/`)),
    ...(await api.keys(`org/${row.org_id}/staging/${row.id}/`)),
  ]
}

/** Calls `then` when the chunk of the request is stored, and `last` before the API next looks at the database. */
async function whenStored(
  then: () => Promise<unknown>,
  last: () => Promise<unknown>,
  request: () => Promise<Answer>,
): Promise<Answer> {
  const { db } = api.database
  const { put, putPart } = store
  const { read } = db
  const stored = async <T>(result: Promise<T>): Promise<T> => {
    const info = await result
    await then()
    db.read = async (scope, work) => {
      await last()
      return read(scope, work)
    }
    return info
  }
  store.put = (...o) => stored(put.apply(store, o))
  store.putPart = (...o) => stored(putPart.apply(store, o))
  try {
    return await request()
  } finally {
    Object.assign(store, { put, putPart })
    db.read = read
  }
}

const NOT_MEDIA = 'The file is not an image or a video of a supported type'
const PART = 5 * 1024 * 1024
/** The smallest file of two parts. */
const TWO_PARTS = PART + 17
/** One layout each, with a file of several whole chunks, and one for where less is enough. */
const LAYOUTS: [string, number, number, number][] = [
  ['parts', PART, 2 * PART + 17, TWO_PARTS],
  ['staged chunks', 1024, 5 * 1024 + 17, 5 * 1024 + 17],
]
for (const [name, chunkBytes, size, less] of LAYOUTS) {
  t.test(`${name}: chunks in any order and in parallel become exactly one media`, async (t) => {
    const bytes = fakeMp4(size)
    const session = await begin(bytes, chunkBytes, { checksum_sha256: sha256(bytes).toString('hex') })
    const indexes = Array.from({ length: session.total }, (_, i) => i).reverse()
    const answers = await Promise.all(indexes.map((i) => session.put(i)))
    for (const [n, answer] of answers.entries()) {
      const index = indexes[n] ?? 0
      t.equal(answer.status, 200)
      t.match(answer.data, {
        upload_id: session.id,
        chunk_index: index,
        size_bytes: session.chunk(index).length,
        sha256: sha256(session.chunk(index)).toString('hex'),
        total_chunks: session.total,
      })
    }
    t.equal(Math.max(...answers.map((a) => a.data.received_chunks)), session.total)

    const merges = await Promise.all(Array.from({ length: 20 }, () => session.merge()))
    t.strictSame(merges.map((m) => m.status).sort(), [...Array(19).fill(200), 201])
    t.equal(new Set(merges.map((m) => JSON.stringify(m.data))).size, 1, 'everybody gets the same body')
    const { media_id: id, upload_status: status } = merges[0]?.data ?? {}
    t.equal(status, 'processing')
    t.ok((await contentOf(id)).equals(bytes), 'the object is the file')
    t.equal((await sql('select from media where id = $1', [uuidOf('media', id)])).length, 1)
    t.equal((await sql('select from outbox where aggregate_id = $1', [uuidOf('media', id)])).length, 1)
    t.equal((await sql('select from audit_log where resource_id = $1', [uuidOf('media', id)])).length, 1)
    t.match((await session.get()).data, { status: 'completed', media_id: id })
    await until(t, 'nothing but the media is left', async () => (await keysOf(session)).length === 1)
  })

  t.test(`${name}: a chunk that is sent again replaces the one before`, async (t) => {
    const bytes = fakeMp4(less)
    const session = await begin(bytes, chunkBytes)
    t.equal((await session.put(0, randomBytes(chunkBytes))).status, 200)
    for (let i = 0; i < session.total; i++) t.equal((await session.put(i)).status, 200)
    t.ok((await contentOf((await session.merge()).data.media_id)).equals(bytes))
  })

  t.test(`${name}: what is missing can be seen and is named by the merge`, async (t) => {
    const session = await begin(fakeMp4(size), chunkBytes)
    t.match((await session.get()).data, { status: 'open', received_chunks: 0, received_ranges: [], media_id: null })
    await session.put(0)
    await session.put(session.total - 1)
    t.match((await session.get()).data, {
      received_chunks: 2,
      received_ranges: [
        [0, 0],
        [session.total - 1, session.total - 1],
      ],
    })
    const refused = await session.merge()
    t.strictSame([refused.status, refused.code], [422, 'UPLOAD_INCOMPLETE'])
    t.strictSame(
      refused.body.error.details[0].missing,
      Array.from({ length: session.total - 2 }, (_, i) => i + 1),
    )
  })

  t.test(`${name}: what is not media ends the session and leaves no object`, async (t) => {
    const session = await begin(Buffer.alloc(less, '#EXTM3U\n'), chunkBytes)
    for (let i = 0; i < session.total; i++) await session.put(i)
    const refused = await Promise.all([session.merge(), session.merge()])
    for (const { status, body } of [...refused, await session.merge()]) {
      t.strictSame([status, body.error.code, body.error.message], [422, 'UNSUPPORTED_MEDIA', NOT_MEDIA])
    }
    t.strictSame(await keysOf(session), [])
    t.match((await session.get()).data, {
      status: 'aborted',
      error: { code: 'UNSUPPORTED_MEDIA', message: NOT_MEDIA },
    })
    t.equal((await session.put(0)).code, 'UPLOAD_EXPIRED')
  })

  t.test(`${name}: a checksum that the merge announces is checked, also by a repeat`, async (t) => {
    const bytes = fakeMp4(less)
    const right = sha256(bytes).toString('hex')
    const whole = async (session: Session) => {
      for (let i = 0; i < session.total; i++) t.equal((await session.put(i)).status, 200)
    }
    const merge = (session: Session, checksum_sha256: string) =>
      call(member, 'POST', `/api/media/${org}/merge`, { json: { upload_id: session.id, checksum_sha256 } })
    const wrong = await begin(bytes, chunkBytes)
    await whole(wrong)
    t.match(await merge(wrong, '0'.repeat(64)), {
      status: 422,
      code: 'CHECKSUM_MISMATCH',
      body: { error: { details: [{ field: 'body.checksum_sha256' }] } },
    })
    t.match(
      await merge(wrong, right),
      { status: 422, code: 'CHECKSUM_MISMATCH', body: { error: { details: [{ field: 'body.checksum_sha256' }] } } },
      'as with one announced at the start',
    )
    for (const announced of [{}, { checksum_sha256: right }]) {
      const session = await begin(bytes, chunkBytes, announced)
      await whole(session)
      t.equal((await merge(session, right)).status, 201)
      t.equal((await merge(session, right)).status, 200)
      t.match(
        await merge(session, '0'.repeat(64)),
        { status: 422, code: 'CHECKSUM_MISMATCH' },
        'a repeat of other bytes',
      )
    }
    t.equal((await merge(await begin(bytes, chunkBytes), 'ABC')).code, 'VALIDATION_ERROR')
  })

  t.test(`${name}: a wrong checksum of the whole file ends the session and leaves no object`, async (t) => {
    const session = await begin(fakeMp4(less), chunkBytes, { checksum_sha256: '0'.repeat(64) })
    for (let i = 0; i < session.total; i++) await session.put(i)
    const refused = await session.merge()
    t.strictSame([refused.status, refused.code], [422, 'CHECKSUM_MISMATCH'])
    t.strictSame(await keysOf(session), [])
  })

  t.test(`${name}: an abort frees everything, and can be repeated`, async (t) => {
    const session = await begin(fakeMp4(less), chunkBytes)
    await session.put(0)
    t.equal((await session.abort()).status, 204)
    t.equal((await session.abort()).status, 204)
    t.strictSame(await keysOf(session), [])
    t.strictSame([(await session.put(1)).code, (await session.merge()).code], ['UPLOAD_EXPIRED', 'UPLOAD_EXPIRED'])
    t.match((await session.get()).data, { status: 'aborted', error: null })
  })

  t.test(`${name}: abort and chunks at once leave nothing behind`, async (t) => {
    for (let round = 0; round < 3; round++) {
      const session = await begin(fakeMp4(size), chunkBytes)
      const [aborted, ...chunks] = await Promise.all([
        sleep(round * 3).then(() => session.abort()),
        ...Array.from({ length: session.total }, (_, i) => session.put(i)),
      ])
      t.equal(aborted?.status, 204)
      t.ok(chunks.every((c) => c.status === 200 || c.code === 'UPLOAD_EXPIRED'))
      t.strictSame(await keysOf(session), [])
    }
  })

  t.test(`${name}: late chunks and a merge at once make one media of whole chunks`, async (t) => {
    for (let round = 0; round < 3; round++) {
      const bytes = fakeMp4(size)
      const session = await begin(bytes, chunkBytes)
      for (let i = 0; i < session.total; i++) await session.put(i)
      const [merged, ...late] = await Promise.all([session.merge(), session.put(0), session.put(1), session.put(2)])
      t.equal(merged.status, 201)
      t.ok(
        late.every((l) => l.status === 200 || l.code === 'CONFLICT'),
        JSON.stringify(late.map((l) => l.body.error)),
      )
      t.ok((await contentOf(merged.data.media_id)).equals(bytes))
      await until(t, 'nothing but the media is left', async () => (await keysOf(session)).length === 1)
    }
  })

  t.test(`${name}: two that write one chunk at once leave one of the two, or a chunk to send again`, async (t) => {
    const [one, two] = [fakeMp4(less), fakeMp4(less)]
    const session = await begin(one, chunkBytes)
    const other = (i: number) => two.subarray(i * chunkBytes, (i + 1) * chunkBytes)
    for (let i = 0; i < session.total; i++) {
      const both = await Promise.all([session.put(i), session.put(i, other(i))])
      t.ok(both.every((b) => b.status === 200))
    }
    let merged = await session.merge()
    if (merged.code === 'UPLOAD_INCOMPLETE') {
      for (const index of merged.body.error.details[0].missing) await session.put(index)
      merged = await session.merge()
    }
    t.equal(merged.status, 201)
    const made = await contentOf(merged.data.media_id)
    for (let i = 0; i < session.total; i++) {
      const piece = made.subarray(i * chunkBytes, (i + 1) * chunkBytes)
      t.ok(piece.equals(session.chunk(i)) || piece.equals(other(i)), `chunk ${i} is one of the two`)
    }
  })

  t.test(`${name}: a merge whose maker died is taken over when its lease has run out`, async (t) => {
    const bytes = fakeMp4(less)
    for (const objectMade of [false, true]) {
      const session = await begin(bytes, chunkBytes)
      for (let i = 0; i < session.total; i++) await session.put(i)
      const id = uuidOf('upload', session.id)
      const [row] = await sql('select * from uploads where id = $1', [id])
      if (objectMade) {
        const key = originalKey(row.org_id, row.media_id)
        const parts = (await sql('select * from upload_chunks where upload_id = $1 order by chunk_index', [id])).map(
          (c) => ({ partNumber: c.chunk_index + 1, etag: c.etag }),
        )
        if (row.multipart_id) await store.completeMultipart(key, row.multipart_id, parts)
        else await store.put(key, bytes, { contentType: 'video/mp4' })
      }
      await sql(
        `update uploads set state = 'merging', merge_lease_holder = $2, merge_lease_until = now() + interval '1 h' where id = $1`,
        [id, newUuid()],
      )
      t.equal((await session.put(0)).code, 'CONFLICT', 'no chunk counts while it is merged')
      t.equal((await session.abort()).code, 'CONFLICT')
      await sql(`update uploads set merge_lease_until = now() + interval '1 s' where id = $1`, [id])
      const merges = await Promise.all([session.merge(), session.merge(), session.merge()])
      t.strictSame(merges.map((m) => m.status).sort(), [200, 200, 201])
      t.ok((await contentOf(merges[0]?.data.media_id)).equals(bytes))
    }
  })

  t.test(`${name}: an upload whose merge failed can be aborted, and what its merge makes later goes`, async (t) => {
    const bytes = fakeMp4(less)
    const session = await begin(bytes, chunkBytes)
    for (let i = 0; i < session.total; i++) await session.put(i)
    const away = async () => {
      throw new StoreError('Unavailable', 'The object store is away')
    }
    const { put, completeMultipart } = store
    Object.assign(store, { put: away, completeMultipart: away })
    t.equal((await session.merge()).status, 503)
    Object.assign(store, { put, completeMultipart })
    t.match((await session.get()).data, { status: 'merging', can: ['upload.abort', 'upload.merge', 'upload.read'] })
    t.equal((await session.abort()).status, 204)
    t.equal((await session.abort()).status, 204)
    t.strictSame(await keysOf(session), [])
    t.match((await session.get()).data, { status: 'aborted' })
    t.equal((await session.merge()).code, 'UPLOAD_EXPIRED')
    const [row] = await sql('select * from uploads where id = $1', [uuidOf('upload', session.id)])
    t.match(row, { merge_lease_holder: null, merge_lease_until: null })
    await store.put(originalKey(row.org_id, row.media_id), bytes, { contentType: 'video/mp4' })
    await sql('update purged_media set next_look_at = now() where media_id = $1', [row.media_id])
    await sweepPurged({ db: api.database.worker, store, log })
    t.strictSame(await keysOf(session), [])
  })

  t.test(`${name}: a chunk that comes too late for a session that a merge reopens costs it nothing`, async (t) => {
    const bytes = fakeMp4(less)
    const session = await begin(bytes, chunkBytes)
    for (let i = 0; i < session.total; i++) await session.put(i)
    const before = await keysOf(session)
    const setState = (state: string) =>
      sql('update uploads set state = $2 where id = $1', [uuidOf('upload', session.id), state])
    const late = await whenStored(
      () => setState('merging'),
      () => setState('open'),
      () => session.put(1),
    )
    t.strictSame([late.status, late.code, late.headers.get('retry-after')], [409, 'CONFLICT', '1'])
    t.strictSame(await keysOf(session), before, 'the chunk recorded before is still there')
    t.equal((await session.put(1)).status, 200)
    t.ok((await contentOf((await session.merge()).data.media_id)).equals(bytes))
  })

  t.test(`${name}: a chunk that the store lost has to be sent again`, async (t) => {
    const bytes = fakeMp4(less)
    const session = await begin(bytes, chunkBytes)
    for (let i = 0; i < session.total; i++) await session.put(i)
    await sql(`update upload_chunks set etag = '"lost"' where upload_id = $1 and chunk_index = 1`, [
      uuidOf('upload', session.id),
    ])
    const refused = await session.merge()
    t.strictSame([refused.status, refused.code], [422, 'UPLOAD_INCOMPLETE'])
    t.strictSame(refused.body.error.details[0].missing, [1])
    t.equal((await session.put(1)).status, 200)
    t.ok((await contentOf((await session.merge()).data.media_id)).equals(bytes))
  })
}

t.test('a chunk whose body ends early is not recorded', async (t) => {
  const session = await begin(fakeMp4(3000), 1000)
  const { hostname, port } = new URL(api.publicUrl)
  const socket = connect(Number(port), hostname)
  socket.write(
    `PUT /v1/api/media/${org}/upload/${session.id}/0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${member.token}\r\n` +
      `Content-Type: application/octet-stream\r\nContent-Length: 1000\r\n\r\n`,
  )
  socket.write(randomBytes(999))
  await sleep(200)
  socket.destroy()
  await sleep(200)
  t.equal((await session.get()).data.received_chunks, 0)
  t.strictSame(await keysOf(session), [])
})

t.test('chunks of a wrong length, index or digest are refused and not recorded', async (t) => {
  const bytes = fakeMp4(2500)
  const session = await begin(bytes, 1000)
  const stream = (content: Uint8Array) => new Blob([content as Uint8Array<ArrayBuffer>]).stream()
  const good = session.chunk(0)
  const digest = (b: Uint8Array) => `sha-256=:${sha256(b).toString('base64')}:`
  const md5 = (b: Uint8Array) => createHash('md5').update(b).digest('base64')
  const cases: [string, Promise<Answer>, number, string][] = [
    ['too short', session.put(0, good.subarray(1)), 400, 'VALIDATION_ERROR'],
    ['too long', session.put(0, Buffer.concat([good, good])), 400, 'VALIDATION_ERROR'],
    ['too short without a length', session.put(0, stream(good.subarray(1))), 400, 'VALIDATION_ERROR'],
    ['too long without a length', session.put(0, stream(Buffer.concat([good, good]))), 400, 'VALIDATION_ERROR'],
    ['the last one as long as the others', session.put(2, good), 400, 'VALIDATION_ERROR'],
    ['an index of as many as there are', session.put(3, good), 400, 'VALIDATION_ERROR'],
    ['a negative index', session.put(-1, good), 400, 'VALIDATION_ERROR'],
    ['an enormous index', session.put(1e9, good), 400, 'VALIDATION_ERROR'],
    [
      'another Repr-Digest',
      session.put(0, good, { 'repr-digest': digest(Buffer.from('x')) }),
      422,
      'CHECKSUM_MISMATCH',
    ],
    ['another Content-MD5', session.put(0, good, { 'content-md5': md5(Buffer.from('x')) }), 422, 'CHECKSUM_MISMATCH'],
    ['a digest that is none', session.put(0, good, { 'repr-digest': 'sha-256=abc' }), 400, 'VALIDATION_ERROR'],
    ['an MD5 that is none', session.put(0, good, { 'content-md5': 'abc' }), 400, 'VALIDATION_ERROR'],
    ['another type', session.put(0, good, { 'content-type': 'video/mp4' }), 415, 'UNSUPPORTED_CONTENT_TYPE'],
  ]
  for (const [name, answer, status, code] of cases) {
    const got = await answer
    t.strictSame([got.status, got.code], [status, code], name)
  }
  t.equal((await session.get()).data.received_chunks, 0)
  t.strictSame(await keysOf(session), [])
  const right = { 'repr-digest': `md5=:${md5(good)}:, ${digest(good)}`, 'content-md5': md5(good) }
  t.equal((await session.put(0, good, right)).status, 200)
  t.equal((await session.put(0, stream(good))).status, 200, 'no length is needed')
})

t.test('a wrong digest does not spoil the chunk that was right before', async (t) => {
  const bytes = fakeMp4(TWO_PARTS)
  const session = await begin(bytes, PART)
  for (let i = 0; i < session.total; i++) await session.put(i)
  const wrong = await session.put(0, randomBytes(PART), { 'content-md5': 'AAAAAAAAAAAAAAAAAAAAAA==' })
  t.equal(wrong.code, 'CHECKSUM_MISMATCH')
  t.ok((await contentOf((await session.merge()).data.media_id)).equals(bytes))
})

t.test('one chunk of any size is enough', async (t) => {
  const bytes = fakeMp4(700)
  const session = await begin(bytes, 1024)
  t.equal(session.total, 1)
  await session.put(0)
  t.ok((await contentOf((await session.merge()).data.media_id)).equals(bytes))
})

const START = { filename: 'a.mp4', mime_type: 'video/mp4', file_size_bytes: 1000, chunk_size_bytes: 100 }
const REFUSED: [string, Record<string, unknown>, number, string, string][] = [
  ['an empty file', { file_size_bytes: 0 }, 400, 'VALIDATION_ERROR', 'file_size_bytes'],
  ['a size that is no number', { file_size_bytes: '1000' }, 400, 'VALIDATION_ERROR', 'file_size_bytes'],
  [
    'more than 10 GiB',
    { file_size_bytes: 10 * 1024 ** 3 + 1, chunk_size_bytes: 1024 ** 2 * 64 },
    422,
    'FILE_TOO_LARGE',
    'file_size_bytes',
  ],
  [
    'an image of more than 200 MiB',
    { mime_type: 'image/jpeg', file_size_bytes: 1024 ** 2 * 201, chunk_size_bytes: 1024 ** 2 * 8 },
    422,
    'FILE_TOO_LARGE',
    'file_size_bytes',
  ],
  ['chunks of nothing', { chunk_size_bytes: 0 }, 400, 'VALIDATION_ERROR', 'chunk_size_bytes'],
  ['chunks of more than 64 MiB', { chunk_size_bytes: 64 * 1024 ** 2 + 1 }, 400, 'VALIDATION_ERROR', 'chunk_size_bytes'],
  [
    'more than 10,000 chunks',
    { file_size_bytes: 10_001, chunk_size_bytes: 1 },
    400,
    'VALIDATION_ERROR',
    'chunk_size_bytes',
  ],
  [
    'small chunks for a large file',
    { file_size_bytes: 600 * 1024 ** 2, chunk_size_bytes: 1024 ** 2 },
    400,
    'VALIDATION_ERROR',
    'chunk_size_bytes',
  ],
  ['a type that is none', { mime_type: 'video' }, 400, 'VALIDATION_ERROR', 'mime_type'],
  ['no name', { filename: ' ' }, 400, 'VALIDATION_ERROR', 'filename'],
  ['a checksum that is none', { checksum_sha256: 'ABC' }, 400, 'VALIDATION_ERROR', 'checksum_sha256'],
  ['a pair id that is none', { live_photo_pair_id: '1' }, 400, 'VALIDATION_ERROR', 'live_photo_pair_id'],
  ['half a character in its name', { filename: 'a\ud83d.mov' }, 400, 'VALIDATION_ERROR', 'filename'],
  ['a NUL in the asset identifier', { asset_identifier: 'a\0' }, 400, 'VALIDATION_ERROR', 'asset_identifier'],
  [
    'half a character in the asset identifier',
    { asset_identifier: '\udc00' },
    400,
    'VALIDATION_ERROR',
    'asset_identifier',
  ],
]
for (const [name, change, status, code, field] of REFUSED) {
  t.test(`an upload cannot begin with ${name}`, async (t) => {
    const answer = await call(member, 'POST', `/api/media/${org}/upload`, { json: { ...START, ...change } })
    t.strictSame([answer.status, answer.code], [status, code])
    t.match(answer.body.error.details, [{ field: `body.${field}` }])
  })
}

t.test('the name of a path is only its last part, and the default chunk has 8 MiB', async (t) => {
  const { chunk_size_bytes: _, ...rest } = START
  const json = { ...rest, filename: '../../x/clip.mp4', file_size_bytes: 8 * 1024 ** 2 + 1 }
  const { data } = await call(member, 'POST', `/api/media/${org}/upload`, { json })
  t.match(data, { upload_id: /^upl_/, total_chunks: 2, chunk_size_bytes: 8 * 1024 ** 2 })
  t.equal((await call(member, 'GET', `/api/media/${org}/upload/${data.upload_id}`)).data.filename, 'clip.mp4')
})

t.test('a third file with one pair id is refused by the merge, and its object goes', async (t) => {
  const fields = { live_photo_pair_id: newUuid() }
  const sessions = [await begin(fakeMp4(500), 1000, fields), await begin(fakeMp4(500), 1000, fields)]
  for (const session of sessions) await session.put(0)
  const merges = await Promise.all(sessions.map((s) => s.merge()))
  t.strictSame(merges.map((m) => m.status).sort(), [201, 409])
  const loser = sessions[merges.findIndex((m) => m.status === 409)]
  t.ok(loser)
  if (!loser) return
  t.strictSame(await keysOf(loser), [])
  const again = await loser.merge()
  const { media_id } = merges.find((m) => m.status === 201)?.data ?? {}
  t.match(again, { status: 409, code: 'CONFLICT', body: { error: { details: [{ media_id }] } } }, 'and again')
})

t.test('an upload is its uploader’s alone', async (t) => {
  const session = await begin(fakeMp4(2000), 1000)
  await session.put(0)
  await session.put(1)
  for (const who of [people.another, people.owner, people.admin]) {
    const answers = [session.put(0, undefined, {}, who), session.get(who), session.abort(who), session.merge(who)]
    const refused = await Promise.all(answers)
    for (const answer of refused) t.strictSame([answer.status, answer.code], [404, 'NOT_FOUND'])
    // As for an upload that does not exist: the answer must not say which of the two it is.
    t.strictSame(refused[3]?.body.error.details, [{ field: 'body.upload_id', issue: 'does not exist' }])
  }
  t.equal((await session.merge()).status, 201)
})

t.test('who leaves the organization loses the upload at once', async (t) => {
  const session = await begin(fakeMp4(2000), 1000)
  await sql('delete from memberships where user_id = $1', [member.id])
  t.equal((await session.put(0)).status, 404)
  t.equal((await session.merge()).status, 404)
  await sql('insert into memberships (org_id, user_id, role) values ($1, $2, $3)', [
    uuidOf('organization', org),
    member.id,
    'member',
  ])
  t.equal((await session.put(0)).status, 200)
})

t.test('a merge names its upload', async (t) => {
  for (const json of [{ upload_id: 'nonsense' }, {}]) {
    t.equal((await call(member, 'POST', `/api/media/${org}/merge`, { json })).status, 400)
  }
})

t.test('a session that is over takes nothing, and housekeeping frees what it held', async (t) => {
  const parts = await begin(fakeMp4(TWO_PARTS), PART)
  const staged = await begin(fakeMp4(3000), 1000)
  for (const session of [parts, staged]) await session.put(0)
  await sql(`update uploads set expires_at = now() - interval '1 s' where state = 'open'`)
  for (const session of [parts, staged]) {
    t.equal((await session.get()).data.status, 'expired')
    t.strictSame([(await session.put(1)).code, (await session.merge()).code], ['UPLOAD_EXPIRED', 'UPLOAD_EXPIRED'])
  }
  t.equal((await keysOf(staged)).length, 1)
  const [first, second] = await Promise.all([1, 2].map(() => expireUploads(api.database.worker, store, { log })))
  t.ok((first?.expired ?? 0) + (second?.expired ?? 0) >= 2)
  t.strictSame([...(await keysOf(parts)), ...(await keysOf(staged))], [])
  const [row] = await sql('select * from uploads where id = $1', [uuidOf('upload', parts.id)])
  await t.rejects(store.listParts(originalKey(row.org_id, row.media_id), row.multipart_id), { code: 'NotFound' })
  t.match(await expireUploads(api.database.worker, store, { log }), { expired: 0, released: 0 })
})

t.test('a merge that died and is never asked for again leaves nothing in the end', async (t) => {
  const session = await begin(fakeMp4(3000), 1000)
  for (let i = 0; i < session.total; i++) await session.put(i)
  const id = uuidOf('upload', session.id)
  const [row] = await sql('select * from uploads where id = $1', [id])
  await store.put(originalKey(row.org_id, row.media_id), 'made, but not recorded', { contentType: 'video/mp4' })
  await sql(
    `update uploads set state = 'merging', merge_lease_holder = $2, merge_lease_until = now(), expires_at = now()
     where id = $1`,
    [id, newUuid()],
  )
  await expireUploads(api.database.worker, store, { log })
  t.strictSame(await keysOf(session), [])
  t.equal((await session.merge()).code, 'UPLOAD_EXPIRED')
})

t.test('an object that was written for a media that never came to be is removed', async (t) => {
  const [orgId, mediaId] = [uuidOf('organization', org), newUuid()]
  await sql(`insert into object_intents (media_id, org_id, created_at) values ($1, $2, now() - interval '4 h')`, [
    mediaId,
    orgId,
  ])
  await store.put(originalKey(orgId, mediaId), 'orphan', { contentType: 'video/mp4' })
  t.match(await expireUploads(api.database.worker, store, { log }), { forgotten: 1 })
  t.strictSame(await api.keys(originalKey(orgId, mediaId)), [])
  t.strictSame(await sql('select * from object_intents'), [])
})

t.test('an image beyond its limit is refused by its size, whatever it was announced as', async (t) => {
  const inspect = async (bytes: Buffer) => {
    const upload = { orgId: newUuid(), mediaId: newUuid(), fileSizeBytes: 200 * 1024 ** 2 + 1, checksumSha256: null }
    await store.put(originalKey(upload.orgId, upload.mediaId), bytes, { contentType: 'video/mp4' })
    return inspectObject(store, upload as UploadSession, null, new AbortController().signal)
  }
  t.match(await inspect(Buffer.from('\xff\xd8\xff\xe0'.padEnd(64, '\0'), 'latin1')), {
    refusal: { code: 'FILE_TOO_LARGE', status: 422, message: 'An image must be at most 200 MiB' },
  })
  t.match(await inspect(fakeMp4(64)), { sniffed: { kind: 'video' } })
})

t.test('of the intents that are too old, no more are abandoned at a time than asked for', async (t) => {
  const orgId = uuidOf('organization', org)
  await sql(
    `insert into object_intents (media_id, org_id, created_at)
      select gen_random_uuid(), $1, now() - make_interval(hours => 3 + n) from generate_series(1, 5) n`,
    [orgId],
  )
  const abandoned = await api.database.worker.inTransaction({}, async (tx) => {
    await subqueriesPerRow(tx)
    return abandonOldIntents(tx, 3600, 2)
  })
  t.equal(abandoned.length, 2)
  t.equal((await sql('select from object_intents where abandoned_at is not null')).length, 2)
  await sql('delete from object_intents')
})

async function until(t: Test, what: string, isTrue: () => Promise<boolean>): Promise<void> {
  for (let i = 0; i < 1000; i++) {
    if (await isTrue()) return void t.pass(what)
    await sleep(50)
  }
  t.fail(what)
}
