import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import * as z from 'zod'
import { openRefusals } from '../../../api/audit/refusals.ts'
import { httpApp } from '../../../api/http/http-app.ts'
import { openServer, type ServerOptions } from '../../../api/http/open-server.ts'
import { publicRoute, rawRoute } from '../../../api/http/route.ts'
import { unreadProblem } from '../../../api/http/unread-request.ts'
import { idPattern } from '../../../lib/contract/ids.ts'
import { systemClock } from '../../../lib/runtime/clock.ts'
import { askRaw } from '../../support/ask.ts'
import { eventually } from '../../support/eventually.ts'
import { testPersonalData } from '../../support/personal-data.ts'
import { readableLog } from '../../support/readable-log.ts'
import { noDatabase } from '../../support/serve.ts'

const REQUEST_ID = idPattern('request')
let release = () => {}
const held = new Promise<void>((resolve) => {
  release = resolve
})
const routes = [
  publicRoute({
    method: 'get',
    path: '/fast',
    operationId: 'fast',
    tags: [],
    summary: '',
    status: 200,
    response: z.object({ ok: z.boolean() }),
    handle: async () => ({ data: { ok: true } }),
  }),
  publicRoute({
    method: 'get',
    path: '/held',
    operationId: 'held',
    tags: [],
    summary: '',
    status: 200,
    response: z.object({ ok: z.boolean() }),
    async handle() {
      await held
      return { data: { ok: true } }
    },
  }),
  publicRoute({
    method: 'post',
    path: '/echo',
    operationId: 'echo',
    tags: [],
    summary: '',
    body: z.object({}),
    status: 200,
    response: z.object({ ok: z.boolean() }),
    handle: async () => ({ data: { ok: true } }),
  }),
]
const isGone = Promise.withResolvers<void>()
const endless = rawRoute({
  method: 'get',
  path: '/endless',
  operationId: 'endless',
  tags: [],
  summary: '',
  raw: { contentTypes: ['video/mp2t'], statuses: { 200: 'OK' } },
  async handle({ context }) {
    // As routes do that pass it on.
    context.signal.throwIfAborted()
    const body = new Readable({
      read() {
        this.push(Buffer.alloc(65_536))
      },
      destroy(error, done) {
        isGone.resolve()
        done(error)
      },
    })
    return { status: 200, headers: { 'Content-Type': 'video/mp2t' }, body }
  },
})
const { log, logged } = readableLog()
const refusals = openRefusals({ db: noDatabase, log })
t.teardown(() => refusals.close())
const app = httpApp([...routes, endless], {
  db: noDatabase,
  refusals,
  personalData: testPersonalData(noDatabase),
  log,
  clock: systemClock,
  basePath: '/v1',
  trustProxyHops: 0,
  checkResponses: true,
  authenticate: () => Promise.reject(new Error('not asked')),
})
async function portOf(limits: ServerOptions['limits'] = {}): Promise<number> {
  const server = openServer(app, { log, limits })
  await server.listen('127.0.0.1', 0)
  t.teardown(() => server.close(0))
  return Number(new URL(server.url()).port)
}
const port = await portOf()
/** Of a server that waits for a short time only: what comes to it complete may still be too late on a slow machine. */
const hasty = await portOf({ headersTimeout: 300, requestTimeout: 600, connectionsCheckingInterval: 50 })

// biome-ignore lint/suspicious/noExplicitAny: a test looks into it and fails if it is something else
type Json = any

/** The answers on one connection, taken apart. */
function answersOf(text: string) {
  const answers: { status: number; headers: Record<string, string>; json: Json }[] = []
  for (let rest = text; rest !== ''; ) {
    const split = rest.indexOf('\r\n\r\n')
    const [line = '', ...lines] = rest.slice(0, split).split('\r\n')
    const headers = Object.fromEntries(lines.map((l) => [l.split(': ')[0]?.toLowerCase(), l.split(': ')[1]]))
    const length = Number(headers['content-length'] ?? 0)
    const body = rest.slice(split + 4, split + 4 + length)
    answers.push({ status: Number(line.split(' ')[1]), headers, json: body && JSON.parse(body) })
    rest = rest.slice(split + 4 + length)
  }
  return answers
}
const askOne = async (bytes: string, at = port) => answersOf(await askRaw(at, bytes))
const HOST = 'Host: localhost\r\n'
const long = (n: number) => 'a'.repeat(n)

/** One answer in the envelope, after which the connection is closed. */
function isRefusal(t: Test, answers: ReturnType<typeof answersOf>, status: number, code: string) {
  t.equal(answers.length, 1)
  const [answer] = answers
  t.match(answer, {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8', connection: 'close', 'cache-control': 'no-store' },
    json: { error: { code, message: String, request_id: REQUEST_ID } },
  })
  const id = answer?.json.error.request_id
  t.equal(answer?.headers['x-request-id'], id, 'the header names the same request')
  t.ok(
    logged.some((line) => line['request_id'] === id),
    'and so does the log',
  )
}

for (const [what, bytes, status, code] of [
  ['an address that is too long', `GET /fast?${long(17_000)} HTTP/1.1\r\n${HOST}\r\n`, 431, 'HEADERS_TOO_LARGE'],
  ['a header that is too long', `GET /fast HTTP/1.1\r\n${HOST}X: ${long(17_000)}\r\n\r\n`, 431, 'HEADERS_TOO_LARGE'],
  [
    'headers that go on for ever',
    `GET /fast HTTP/1.1\r\n${`X: ${long(99)}\r\n`.repeat(900)}`,
    431,
    'HEADERS_TOO_LARGE',
  ],
  ['a line that is no request', 'what is this\r\n\r\n', 400, 'MALFORMED_REQUEST'],
  ['a TLS handshake', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400, 'MALFORMED_REQUEST'],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400, 'MALFORMED_REQUEST'],
  ['a broken header', `GET /fast HTTP/1.1\r\n${HOST}a b: c\r\n\r\n`, 400, 'MALFORMED_REQUEST'],
  ['no Host', 'GET /fast HTTP/1.1\r\n\r\n', 400, 'MALFORMED_REQUEST'],
  [
    'two lengths of a body',
    `POST /echo HTTP/1.1\r\n${HOST}Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}`,
    400,
    'MALFORMED_REQUEST',
  ],
  [
    'a length and chunks',
    `POST /echo HTTP/1.1\r\n${HOST}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    400,
    'MALFORMED_REQUEST',
  ],
  [
    'a broken chunk of a body',
    `POST /echo HTTP/1.1\r\n${HOST}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n`,
    400,
    'MALFORMED_REQUEST',
  ],
  [
    'endless chunk extensions',
    `POST /echo HTTP/1.1\r\n${HOST}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2;${long(20_000)}\r\n{}\r\n`,
    413,
    'PAYLOAD_TOO_LARGE',
  ],
  ['headers that stop half way', `GET /fast HTTP/1.1\r\n${HOST}X: `, 408, 'REQUEST_TIMEOUT'],
  [
    'a body that stops half way',
    `POST /echo HTTP/1.1\r\n${HOST}Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{`,
    408,
    'REQUEST_TIMEOUT',
  ],
  ['a request to be a proxy', `CONNECT example.org:443 HTTP/1.1\r\n${HOST}\r\n`, 405, 'METHOD_NOT_ALLOWED'],
] as const) {
  t.test(`${what} is answered ${status} in the problem envelope`, async (t) => {
    isRefusal(t, await askOne(bytes, status === 408 ? hasty : port), status, code)
  })
}

t.test('a client that is still sending can read the refusal', async (t) => {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  // Far more than the buffers between us hold, so that the refusal is written while the client still writes.
  for (let i = 0; i < 64; i++) socket.write(`GET /${long(65_536)}`)
  isRefusal(t, answersOf(await restOf(socket)), 431, 'HEADERS_TOO_LARGE')
})

t.test('a request that was complete gets its own answer before the next one is refused', async (t) => {
  const socket = connect(port, '127.0.0.1')
  socket.write(`GET /held HTTP/1.1\r\n${HOST}\r\nnonsense\r\n\r\n`)
  const answers = restOf(socket)
  await once(socket, 'connect')
  release()
  t.match(answersOf(await answers), [
    { status: 200, json: { data: { ok: true } } },
    { status: 400, json: { error: { code: 'MALFORMED_REQUEST' } } },
  ])
})

t.test('a download that the client breaks off gives no warning', async (t) => {
  const warnings: string[] = []
  const onWarning = (warning: Error) => warnings.push(warning.message)
  process.on('warning', onWarning)
  t.teardown(() => process.off('warning', onWarning))
  const socket = connect(port, '127.0.0.1')
  socket.write(`GET /endless HTTP/1.1\r\n${HOST}\r\n`)
  await once(socket, 'data')
  socket.resetAndDestroy()
  await isGone.promise
  await eventually('the end of the request', () => logged.some((line) => line['url'] === '/endless' && line['aborted']))
  t.strictSame(warnings, [])
})

t.test('an expectation that is not known is ignored', async (t) => {
  const [answer] = await askOne(`GET /fast HTTP/1.1\r\n${HOST}Expect: the-unexpected\r\nConnection: close\r\n\r\n`)
  t.match(answer, { status: 200, json: { data: { ok: true } } })
})

t.test('a connection on which nothing is ever sent closes without a word', async (t) => {
  t.equal(await askRaw(hasty, ''), '')
})

t.test('HTTP/1.0 needs no Host', async (t) => {
  t.match(await askOne('GET /fast HTTP/1.0\r\n\r\n'), [{ status: 200 }])
})

t.test('a connection that broke is not answered', async (t) => {
  t.equal(unreadProblem({ code: 'ECONNRESET' }), undefined)
  t.equal(unreadProblem({}), undefined)
  t.equal(unreadProblem({ code: 'HPE_CLOSED_CONNECTION' }), undefined)
})

async function restOf(socket: Socket): Promise<string> {
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', () => {})
  await once(socket, 'close')
  return Buffer.concat(chunks).toString()
}
