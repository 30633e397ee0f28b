import { createHash, randomBytes } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import * as z from 'zod'
import { sessionActions } from '../../../api/auth/policy.ts'
import { type Route, rawRoute, route } from '../../../api/http/route.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { eventually } from '../../support/eventually.ts'
import { noDatabase, serveRoutes } from '../../support/serve.ts'

const common = {
  tags: ['Test'],
  summary: 'For tests',
  operationId: 'test',
  status: 200 as const,
  action: sessionActions.endAll,
}
const Read = z.object({
  filename: z.string(),
  mime_type: z.string(),
  size: z.number(),
  sha256: z.string(),
  early: z.record(z.string(), z.string()),
  fields: z.record(z.string(), z.string()),
})
const seen: { error?: unknown; aborted?: boolean; destroyed?: boolean; produced?: number }[] = []
/** What handlers and tests tell each other: `begun`, as soon as a handler runs, and `go on`. */
const signals = new EventEmitter()

async function measure(stream: Readable) {
  const hash = createHash('sha256')
  let size = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    hash.update(chunk)
    size += chunk.length
  }
  return { size, sha256: hash.digest('hex') }
}

const routes: Route[] = [
  route({
    ...common,
    method: 'post',
    path: '/form',
    bodyKind: 'multipart',
    body: z.object({ title: z.string().max(20).optional() }),
    response: Read,
    async handle({ body }) {
      const { fields: early, file } = body
      signals.emit('begun')
      try {
        const read = await measure(file.stream)
        const fields = await body.finished()
        return { data: { filename: file.filename, mime_type: file.mimeType, ...read, early, fields } }
      } catch (error) {
        seen.push({ error })
        throw error
      }
    },
  }),
  route({
    ...common,
    method: 'post',
    path: '/refuse-form',
    bodyKind: 'multipart',
    async handle({ body }) {
      for await (const _ of body.file.stream) break
      throw new Problem('UNSUPPORTED_CONTENT_TYPE', 'Not media')
    },
  }),
  route({
    ...common,
    method: 'post',
    path: '/busy-form',
    bodyKind: 'multipart',
    async handle({ body, context }) {
      signals.emit('begun')
      await once(context.signal, 'abort')
      await measure(body.file.stream).catch((error: unknown) => {
        seen.push({ error })
        throw error
      })
      return { data: null }
    },
  }),
  route({
    ...common,
    method: 'post',
    path: '/strange-form',
    problems: ['NOT_FOUND'],
    bodyKind: 'multipart',
    async handle() {
      await sleep(50)
      throw new Problem('NOT_FOUND', 'Not a member')
    },
  }),
  route({
    ...common,
    method: 'put',
    path: '/bytes',
    bodyKind: 'bytes',
    response: z.object({ size: z.number(), sha256: z.string(), length: z.number().nullable() }),
    async handle({ body, context }) {
      signals.emit('begun')
      try {
        return { data: { ...(await measure(body.stream)), length: body.length ?? null } }
      } catch (error) {
        seen.push({ error, aborted: context.signal.aborted })
        throw error
      }
    },
  }),
  route({
    ...common,
    method: 'post',
    path: '/wait',
    async handle({ context }) {
      signals.emit('begun')
      await sleep(600_000, undefined, { signal: context.signal }).catch((error: unknown) => {
        seen.push({ error })
        throw error
      })
      return { data: null }
    },
  }),
  route({
    ...common,
    method: 'put',
    path: '/refuse-bytes',
    problems: ['CONFLICT'],
    bodyKind: 'bytes',
    async handle() {
      throw new Problem('CONFLICT', 'Not now')
    },
  }),
  route({
    ...common,
    method: 'get',
    path: '/slow',
    async handle({ context }) {
      signals.emit('begun')
      await once(signals, 'go on')
      seen.push({ aborted: context.signal.aborted })
      return { data: null }
    },
  }),
  rawRoute({
    ...common,
    method: 'get',
    path: '/endless',
    raw: { contentTypes: ['video/mp2t'], statuses: { 200: 'OK' } },
    async handle() {
      const state = { produced: 0, destroyed: false }
      seen.push(state)
      const body = new Readable({
        read() {
          state.produced += 65536
          this.push(Buffer.alloc(65536))
        },
        destroy(error, done) {
          state.destroyed = true
          done(error)
        },
      })
      return { status: 200, headers: { 'Content-Type': 'video/mp2t' }, body }
    },
  }),
  rawRoute({
    ...common,
    method: 'get',
    path: '/file/{+path}',
    params: z.object({ path: z.string() }),
    raw: { contentTypes: ['text/plain'], statuses: { 200: 'OK', 206: 'Part' } },
    handle: async ({ params, headers }) => ({
      status: headers.range ? 206 : 200,
      headers: { 'Content-Type': 'text/plain', 'Content-Length': String(Buffer.byteLength(params.path)), ETag: '"a"' },
      body: Readable.from([params.path]),
    }),
  }),
  rawRoute({
    ...common,
    method: 'get',
    path: '/broken/{when}',
    params: z.object({ when: z.string() }),
    raw: { contentTypes: ['text/plain'], statuses: { 200: 'OK' } },
    async handle({ params }) {
      const body = Readable.from(
        (async function* () {
          await sleep(5)
          if (params.when === 'late') yield Buffer.alloc(200_000)
          throw new Error('the disk is on fire')
        })(),
      )
      return { status: 200, headers: { 'Content-Type': 'text/plain', 'Content-Length': '400000' }, body }
    },
  }),
]
const server = await serveRoutes(t, routes, { db: noDatabase })
const ann = { authorization: 'Bearer ann' }

type Part = { name?: string; filename?: string; type?: string; content: string | Buffer; raw?: string }
function form(parts: Part[], boundary = 'X', end = `--${boundary}--\r\n`): Buffer {
  const chunks = parts.map(({ name, filename, type, content, raw }) => {
    const disposition = `form-data${name === undefined ? '' : `; name="${name}"`}${filename === undefined ? '' : `; filename="${filename}"`}`
    const head = raw ?? `Content-Disposition: ${disposition}\r\n${type ? `Content-Type: ${type}\r\n` : ''}`
    return Buffer.concat([Buffer.from(`--${boundary}\r\n${head}\r\n`), Buffer.from(content), Buffer.from('\r\n')])
  })
  return Buffer.concat([...chunks, Buffer.from(end)])
}
const file = (content: string | Buffer = 'hello') => ({ name: 'file', filename: 'a.mp4', type: 'video/mp4', content })
const post = (body: Buffer | string | Readable, path = '/form', type = 'multipart/form-data; boundary=X') =>
  server.ask({ method: 'POST', path, headers: { ...ann, 'content-type': type }, body })

t.test('hands over a file as it arrives, with the fields before it at once and all of them at the end', async (t) => {
  const bytes = randomBytes(3_000_000)
  const r = await post(
    form([{ name: 'title', content: 'Größe' }, file(bytes), { name: 'asset_identifier', content: 'A1' }]),
  )
  t.equal(r.status, 200)
  t.strictSame(r.json.data, {
    filename: 'a.mp4',
    mime_type: 'video/mp4',
    size: bytes.length,
    sha256: createHash('sha256').update(bytes).digest('hex'),
    early: { title: 'Größe' },
    fields: { title: 'Größe', asset_identifier: 'A1' },
  })
})

t.test('takes an empty file, a file name with a path or none, and preamble and epilogue', async (t) => {
  t.equal((await post(form([file('')]))).json.data.size, 0)
  const path = await post(form([{ ...file(), filename: '../../etc/passwd' }]))
  t.equal(path.json.data.filename, 'passwd')
  for (const part of [
    { name: 'file', content: 'hello' },
    { ...file(), filename: '' },
  ]) {
    const { data } = (await post(form([part]))).json
    t.match(data, { filename: 'file', size: 5 }, 'without a file name, which is optional')
  }
  const wrapped = Buffer.concat([Buffer.from('hi\r\n'), form([file()]), Buffer.from('bye')])
  t.equal((await post(wrapped)).json.data.size, 5)
})

/** Bytes that are not UTF-8: one that only goes on, one that is cut, a surrogate, one written too long. */
const NOT_UTF8 = ['a\x80', 'a\xc3', '\xed\xa0\x80', '\xc0\xaf'].map((bytes) => Buffer.from(bytes, 'latin1'))
const named = (name: Buffer) =>
  Buffer.concat([
    Buffer.from('--X\r\nContent-Disposition: form-data; name="file"; filename="'),
    name,
    Buffer.from('.mp4"\r\n\r\nhello\r\n--X--\r\n'),
  ])
const bad: Record<string, [body: Buffer | string, field: string]> = {
  empty: ['', 'body'],
  garbage: ['garbage', 'body'],
  'only the end': ['--X--\r\n', 'body.file'],
  'no file': [form([{ name: 'title', content: 'x' }]), 'body.file'],
  'a file of another name': [form([{ ...file(), name: 'photo' }]), 'body.file'],
  'a nameless file': [form([{ filename: 'a', content: 'x' }]), 'body.file'],
  'two files': [form([file(), file()]), 'body.file'],
  'a second file of another name': [form([file(), { ...file(), name: 'more' }]), 'body.file'],
  'cut in the file': [form([file()], 'X', '').subarray(0, -4), 'body'],
  'cut after the file': [form([file()], 'X', ''), 'body'],
  'cut in the headers': ['--X\r\nContent-Disposition: form-data; name="file"; fil', 'body'],
  'headers, then the end': ['--X\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n--X--\r\n', 'body'],
  'half a boundary': ['--X\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n\r\n--', 'body'],
  'another boundary': [form([file()], 'Y'), 'body'],
  'a field that is too long': [form([{ name: 'title', content: 'x'.repeat(20_000) }, file()]), 'body.title'],
  'a field that does not fit': [form([file(), { name: 'title', content: 'x'.repeat(21) }]), 'body.title'],
  'a field twice': [form([{ name: 'title', content: 'a' }, file(), { name: 'title', content: 'b' }]), 'body.title'],
  ...Object.fromEntries(
    NOT_UTF8.flatMap((bytes) => [
      [
        `a field with the bytes ${bytes.toString('hex')}`,
        [form([{ name: 'title', content: bytes }, file()]), 'body.title'],
      ],
      [
        `a field behind the file with ${bytes.toString('hex')}`,
        [form([file(), { name: 'title', content: bytes }]), 'body.title'],
      ],
      [`a file name with ${bytes.toString('hex')}`, [named(bytes), 'body.file']],
    ]),
  ),
  'a file name whose escapes are not UTF-8': [
    form([{ raw: `Content-Disposition: form-data; name="file"; filename*=utf-8''a%FF.mp4\r\n`, content: 'x' }]),
    'body.file',
  ],
  'forty fields': [form([...Array.from({ length: 40 }, (_, i) => ({ name: `f${i}`, content: '' })), file()]), 'body'],
  'forty headers': [form([{ raw: `${'A: b\r\n'.repeat(40)}`, content: 'x' }]), 'body.file'],
}
for (const [name, [body, field]] of Object.entries(bad)) {
  t.test(`refuses a form with ${name}`, async (t) => {
    const r = await post(body)
    t.equal(r.status, 400)
    t.equal(r.json.error.code, 'VALIDATION_ERROR')
    t.equal(r.json.error.details[0].field.startsWith(field), true, r.json.error.details[0].field)
    const chunked = await post(Readable.from([Buffer.from(body)]))
    t.equal(chunked.status, 400, 'also of unknown length')
  })
}

t.test('answers 415 to another content type, 400 without a boundary', async (t) => {
  for (const type of ['application/json', 'multipart/mixed; boundary=X', 'multipart/form-dataX; boundary=X', '']) {
    t.equal((await post(form([file()]), '/form', type)).status, 415, type)
  }
  t.equal((await post(form([file()]), '/form', 'multipart/form-data')).status, 400)
})

t.test('a refused form gets its answer although most of it is still to come', async (t) => {
  const r = await post(Readable.from([form([file(randomBytes(12_000_000))])]), '/refuse-form')
  t.match([r.status, r.json.error.code], [415, 'UNSUPPORTED_CONTENT_TYPE'])
  const again = await post(form([file(randomBytes(12_000_000))]), '/refuse-form')
  t.equal(again.status, 415)
})

t.test('the handler hears of a client that goes away in the middle of a file', async (t) => {
  seen.length = 0
  const head = `POST /form HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ann\r\nContent-Type: multipart/form-data; boundary=X\r\nContent-Length: 100000\r\n\r\n`
  await leaveWhenBegun(head + form([file('x'.repeat(5000))], 'X', '').toString())
  await eventually('the handler to hear of it', () => seen.length > 0)
  t.match(seen[0]?.error, { name: 'ClientGone' })
})

t.test('reads bytes of known and unknown length', async (t) => {
  const bytes = randomBytes(1_000_000)
  const headers = { ...ann, 'content-type': 'application/octet-stream' }
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  const put = (body: Buffer | Readable) => server.ask({ method: 'PUT', path: '/bytes', headers, body })
  t.strictSame((await put(bytes)).json.data, { size: 1_000_000, sha256, length: 1_000_000 })
  t.strictSame((await put(Readable.from([bytes]))).json.data, { size: 1_000_000, sha256, length: null })
  t.equal((await put(Buffer.alloc(0))).json.data.size, 0)
  for (const type of ['application/json', 'video/mp4', '']) {
    const r = await server.ask({
      method: 'PUT',
      path: '/bytes',
      headers: { ...ann, 'content-type': type },
      body: bytes,
    })
    t.equal(r.status, 415, type)
  }
})

t.test('refused bytes get their answer although they are still coming', async (t) => {
  const headers = { ...ann, 'content-type': 'application/octet-stream' }
  const r = await server.ask({ method: 'PUT', path: '/refuse-bytes', headers, body: randomBytes(20_000_000) })
  t.equal(r.status, 409)
  const unauthenticated = await server.ask({ method: 'PUT', path: '/bytes', body: randomBytes(20_000_000) })
  t.equal(unauthenticated.status, 401)
})

t.test('the handler hears of a client that goes away in the middle of bytes', async (t) => {
  seen.length = 0
  const head = `PUT /bytes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ann\r\nContent-Type: application/octet-stream\r\nContent-Length: 100000\r\n\r\n`
  await leaveWhenBegun(`${head}abc`)
  await eventually('the handler to hear of it', () => seen.length > 0)
  t.match(seen[0]?.error, { name: 'ClientGone' })
  await sleep(10)
  t.notOk(server.logged.some((line) => line['msg'] === 'request failed' && /disconnected/.test(JSON.stringify(line))))
})

t.test('a client that goes away while a handler waits is no failure of ours', async (t) => {
  seen.length = 0
  const head = `POST /wait HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ann\r\nContent-Length: 0\r\n\r\n`
  await leaveWhenBegun(head)
  await eventually('the handler to hear of it', () => seen.length > 0)
  t.match(seen[0]?.error, { name: 'AbortError' })
  await sleep(10)
  t.notOk(server.logged.some((line) => line['msg'] === 'request failed' && /AbortError/.test(JSON.stringify(line))))
})

/** A client that sends this and goes away as soon as its request is handled. */
async function leaveWhenBegun(bytes: string): Promise<void> {
  const begun = once(signals, 'begun')
  const socket = connect(server.port, '127.0.0.1').on('error', () => {})
  socket.write(bytes)
  await begun
  socket.destroy()
}

/** A form whose file has come whole, and whose next field has not. */
function halfForm(path: string): string {
  const file = '--b\r\ncontent-disposition: form-data; name="file"; filename="a.mp4"\r\n\r\nshort\r\n'
  const field = '--b\r\ncontent-disposition: form-data; name="title"\r\n\r\nhalf of'
  const head = 'authorization: Bearer ann\r\ncontent-type: multipart/form-data; boundary=b\r\ncontent-length: 1000'
  return `POST ${path} HTTP/1.1\r\nhost: x\r\n${head}\r\n\r\n${file}${field}`
}

t.test('a form that breaks off behind its file, before the handler looked at that', async (t) => {
  seen.length = 0
  await leaveWhenBegun(halfForm('/busy-form'))
  await eventually('the handler to hear of it', () => seen.length > 0)
  t.match(seen[0]?.error, { name: 'ClientGone' })
})

t.test('a handler that refuses while the fields behind the file are still on their way', async (t) => {
  const socket = connect(server.port, '127.0.0.1').on('error', () => {})
  socket.write(halfForm('/strange-form'))
  let answer = ''
  socket.on('data', (bytes) => {
    answer += bytes
  })
  await eventually('an answer', () => answer.includes('NOT_FOUND'))
  t.match(answer, /^HTTP\/1\.1 404 /)
  socket.destroy()
})

t.test('a handler that asks late still hears of a client that went away, and of none that stayed', async (t) => {
  seen.length = 0
  await leaveWhenBegun('GET /slow HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ann\r\n\r\n')
  // By the time that others have been answered, the server has noticed.
  for (let i = 0; i < 3; i++) await server.ask({ path: '/file/x' })
  signals.emit('go on')
  await eventually('the first one', () => seen.length === 1)
  const begun = once(signals, 'begun')
  const stays = server.ask({ path: '/slow', headers: ann })
  await begun
  signals.emit('go on')
  await stays
  t.strictSame(seen, [{ aborted: true }, { aborted: false }])
})

t.test('stops reading the source when the client goes away, and never runs ahead of it', async (t) => {
  seen.length = 0
  const socket = connect(server.port, '127.0.0.1')
  socket.write('GET /endless HTTP/1.1\r\nHost: x\r\n\r\n')
  let before = -1
  const produced = await eventually('the source to rest', async () => {
    const now = seen[0]?.produced ?? 0
    const isResting = now > 0 && now === before
    before = now
    await sleep(50)
    return isResting || now > 64_000_000 ? now : undefined
  })
  t.ok(produced < 32_000_000, `${produced} bytes for a client that reads nothing`)
  socket.destroy()
  await eventually('its end', () => seen[0]?.destroyed)
  t.pass('the source was closed')
})

t.test('serves the rest of a path, ranges and HEAD', async (t) => {
  const r = await server.ask({ path: '/file/a/b%20c/d.txt' })
  t.match([r.status, r.text, r.headers.etag], [200, 'a/b c/d.txt', '"a"'])
  t.equal((await server.ask({ path: '/file/x', headers: { range: 'bytes=0-' } })).status, 206)
  const head = await server.ask({ method: 'HEAD', path: '/file/x' })
  t.match([head.status, head.text, head.headers['content-length']], [200, '', '1'])
  t.equal((await server.ask({ path: '/file/' })).status, 404)
})

t.test('a source that fails before its first byte is a 500, later a cut connection', async (t) => {
  const r = await server.ask({ path: '/broken/early' })
  t.match([r.status, r.json.error.code], [500, 'INTERNAL_ERROR'])
  await t.rejects(server.ask({ path: '/broken/late' }), { code: 'ECONNRESET' })
  t.ok(server.logged.some((line) => /disk is on fire/.test(JSON.stringify(line))))
})
