import { randomUUID } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { MAX_DOCUMENTS_PER_CALLER } from '../../../api/limits/capacity.ts'
import { LIMIT_CLASSES } from '../../../api/limits/classes.ts'
import { fakeMp4, formOf, type Person, startTestApi } from '../../support/api.ts'
import { eventually } from '../../support/eventually.ts'

/** One caller opens as many bodies as it can, and never sends them; the writes of the others go on. */
const api = await startTestApi(t, { settings: { RATE_LIMIT_FACTOR: '1', TRUST_PROXY_HOPS: '1' } })
const { owner, member, stranger } = api.people

/** A connection that announces a body and sends only `begun` of it. */
interface Held {
  /** The status of the answer; undefined while there is none. */
  status(): number | undefined
}

interface Announcement {
  path: string
  as?: Person
  ip?: string
  type?: string
  begun?: string
}

function hold(t: Test, count: number, o: Announcement): Held[] {
  return Array.from({ length: count }, () => {
    let answer = ''
    const socket: Socket = connect(api.port, '127.0.0.1').setEncoding('latin1')
    socket
      .on('error', () => {})
      .on('data', (text: string) => {
        answer += text
      })
    const headers = [
      `POST /v1${o.path} HTTP/1.1`,
      'Host: x',
      `X-Forwarded-For: ${o.ip ?? '203.0.113.1'}`,
      ...(o.as ? [`Authorization: Bearer ${o.as.token}`] : []),
      `Content-Type: ${o.type ?? 'application/json'}`,
      'Content-Length: 1000',
    ]
    socket.write(`${headers.join('\r\n')}\r\n\r\n${o.begun ?? ''}`)
    t.teardown(() => socket.destroy())
    return { status: () => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]) || undefined }
  })
}

const countOf = (held: Held[], status: number | undefined) => held.filter((one) => one.status() === status).length

async function taken(kind: 'document' | 'stream'): Promise<number> {
  const text = await fetch(`${api.metricsUrl}/metrics`).then((r) => r.text())
  return Number(new RegExp(`^http_request_bodies\\{kind="${kind}"\\} (\\d+)`, 'm').exec(text)?.[1])
}

const startUpload = (who: Person) =>
  api.call(who, 'POST', `/api/media/${api.org}/upload`, {
    json: { filename: 'a.mp4', mime_type: 'video/mp4', file_size_bytes: 1000 },
    headers: { 'x-forwarded-for': '203.0.113.99' },
  })
const uploadSingle = (who: Person) =>
  api.call(who, 'POST', `/api/media/${api.org}/single`, {
    form: formOf(fakeMp4(500)),
    headers: { 'x-forwarded-for': '203.0.113.99', 'idempotency-key': randomUUID() },
  })
const refresh = () =>
  api.call(undefined, 'POST', '/api/auth/refresh', {
    json: { refresh_token: 'unknown' },
    headers: { 'x-forwarded-for': '203.0.113.99' },
  })

t.test('a member who announces 256 documents holds a small share, and nobody else notices', async (t) => {
  const held = hold(t, 256, { path: `/api/media/${api.org}/upload`, as: member })
  await eventually('the share', async () => (await taken('document')) === MAX_DOCUMENTS_PER_CALLER)
  await eventually('refusals', () => countOf(held, 429) > 100)
  for (let i = 0; i < 10; i++) {
    t.equal((await startUpload(owner)).status, 201)
    t.equal((await refresh()).status, 401, 'the token is unknown, and that is what it is told')
    // Those of the others have ended; held bodies are given up after a while, and others of the same caller follow.
    t.ok((await taken('document')) <= MAX_DOCUMENTS_PER_CALLER)
  }
  t.equal(countOf(held, 503), 0)
})

t.test('three addresses without an account hold three shares', async (t) => {
  await eventually('the slots', async () => (await taken('document')) === 0)
  for (const ip of ['198.51.100.1', '198.51.100.2', '2001:db8::1']) hold(t, 100, { path: '/api/auth/login', ip })
  await eventually('the shares', async () => (await taken('document')) === 3 * MAX_DOCUMENTS_PER_CALLER)
  for (let i = 0; i < 10; i++) {
    t.equal((await startUpload(owner)).status, 201)
    t.equal((await refresh()).status, 401)
  }
})

t.test('no body of a stranger is read, and it gets the 404 of everyone who is no member', async (t) => {
  await eventually('the slots', async () => (await taken('document')) === 0)
  // Few at once: of a large crowd some get 429, because they wait for too long for a turn in the database.
  for (let n = 0; n < 4; n++) {
    const documents = hold(t, 15, { path: `/api/media/${api.org}/upload`, as: stranger })
    await eventually('answers to documents', () => countOf(documents, undefined) === 0)
    t.equal(countOf(documents, 404), 15)
  }
  const form = { type: 'multipart/form-data; boundary=b', begun: '--b\r\n' }
  const forms = hold(t, 128, { path: `/api/media/${api.org}/single`, as: stranger, ...form })
  await eventually('answers to forms', () => countOf(forms, undefined) === 0)
  t.equal(countOf(forms, 404) + countOf(forms, 429), 128, 'and so many at once are too many for anyone')
  t.ok(countOf(forms, 404) > 0)
  t.strictSame([await taken('document'), await taken('stream')], [0, 0])
})

t.test('a member who begins 128 forms holds its share of the uploads, and others upload', async (t) => {
  const { atOnce = 0 } = LIMIT_CLASSES['single-upload']
  const begun = { type: 'multipart/form-data; boundary=b', begun: '--b\r\n' }
  const held = hold(t, 128, { path: `/api/media/${api.org}/single`, as: member, ...begun })
  await eventually('refusals', () => countOf(held, 429) === 128 - atOnce)
  await eventually('the share', async () => (await taken('stream')) === atOnce)
  for (let i = 0; i < 5; i++) t.equal((await uploadSingle(owner)).status, 201)
})
