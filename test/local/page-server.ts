import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { putIntoFolder } from '../../api/features/notifications/email/folder.ts'
import { bytesOf } from '../../api/features/notifications/email/nodemailer.ts'
import { openLog } from '../../lib/runtime/log.ts'
import { WEB } from '../../lib/runtime/web-files.ts'
import { closeServer, listenOnPort } from '../../local/http-server.ts'
import { startPageServer } from '../../local/page-server.ts'
import { versionOf } from '../../local/web-files.ts'
import { follow } from '../support/event-stream.ts'
import { sendRaw } from '../support/raw-http.ts'

const api = createServer()
const apiPort = await listenOnPort(api, 0)
t.teardown(() => closeServer(api))
const mail = await mkdtemp(join(tmpdir(), 'keepsake-mail-'))
t.teardown(() => rm(mail, { recursive: true, force: true }))
const page = await startPageServer({
  port: 0,
  mail,
  api: `http://127.0.0.1:${apiPort}`,
  accounts: [{ label: 'Member', name: 'Ann', email: 'ann@example.org', password: 'secret' }],
  log: openLog({ program: 'test', level: 'silent' }),
})
t.teardown(() => page.close())
const key = new URLSearchParams(new URL(page.link()).hash.slice(1)).get('key') ?? ''

/** What the API got next, and how to answer it. */
const next = () => once(api, 'request') as Promise<[IncomingMessage, import('node:http').ServerResponse]>

const folder = fileURLToPath(new URL('../../web/', import.meta.url))
const TYPES: Record<string, RegExp> = { '.js': /javascript/, '.css': /css/, '.svg': /svg/, '.html': /html/ }
const parts = (await readdir(folder, { recursive: true })).filter((name) =>
  ['.js', '.css', '.svg'].includes(extname(name)),
)
for (const path of [
  '',
  'i/K7M2QX9A',
  ...parts,
  ...['preact', 'preact-hooks', 'htm', 'thumbhash', 'hls', 'hls.worker'].map((name) => `vendor/${name}.js`),
]) {
  t.test(`serves /${path}, forbidding it to load anything from elsewhere`, async (t) => {
    const response = await fetch(`${page.url}/${path}`)
    t.equal(response.status, 200)
    t.match(response.headers.get('content-type'), TYPES[extname(path) || '.html'])
    t.match(response.headers.get('content-security-policy'), /default-src 'none'; script-src 'self'/)
    t.equal(response.headers.get('referrer-policy'), 'no-referrer')
    t.ok((await response.text()).length > 0)
  })
}

t.test(
  'the page of an invitation is the same for every slug, and takes the token before it loads anything',
  async (t) => {
    const text = async (slug: string) => (await fetch(`${page.url}/i/${slug}`)).text()
    const html = await text('K7M2QX9A')
    t.equal(await text('%3Cb%3E'), html)
    const first = html.search(/<script|<link|<img/)
    t.ok(
      /^<script src="\/web\/[\w-]+\/invitations\/link-token.js"><\/script>/.test(html.slice(first)),
      'neither deferred nor a module',
    )
    for (const path of ['/i', '/i/', '/i/a/b']) t.equal((await fetch(page.url + path)).status, 404, path)
    t.equal((await fetch(`${page.url}/i/K7M2QX9A`, { method: 'POST' })).status, 405)
  },
)

t.test('the policy of a page allows its import map and no other script in the markup', async (t) => {
  for (const path of ['/', '/i/K7M2QX9A']) {
    const response = await fetch(page.url + path)
    const [, map = ''] = /<script type="importmap">([\s\S]*?)<\/script>/.exec(await response.text()) ?? []
    const hash = createHash('sha256').update(map).digest('base64')
    t.ok(
      response.headers.get('content-security-policy')?.includes(`script-src 'self' 'sha256-${hash}'; style-src 'self'`),
    )
    const { imports } = JSON.parse(map) as { imports: Record<string, string> }
    for (const address of Object.values(imports)) t.equal((await fetch(page.url + address)).status, 200, address)
  }
})

t.test('a browser keeps the files that a page names, until one of them changes', async (t) => {
  const cached = async (path: string) => (await fetch(page.url + path)).headers.get('cache-control')
  const html = await (await fetch(page.url)).text()
  const named = [...html.matchAll(/(?:src|href)="(\/[^"]*)"|: "(\/[^"]*)"/g)].map(
    ([, link, module]) => link ?? module ?? '',
  )
  t.ok(named.length > 20)
  for (const path of named) t.equal(await cached(path), 'max-age=31536000, immutable', path)
  t.equal(await cached('/'), 'no-cache')
  for (const path of ['/page.js', '/web/earlier/page.js']) t.equal(await cached(path), 'no-cache', path)
})

t.test('a page that is read after a change of a file names all of them anew', async (t) => {
  const addressOf = async () => /"(\/web\/[\w-]+\/page\.js)"/.exec(await (await fetch(page.url)).text())?.[1] ?? ''
  const file = join(WEB, 'style.css')
  const { atime, mtime } = await stat(file)
  t.teardown(() => utimes(file, atime, mtime))
  const before = await addressOf()
  await utimes(file, atime, new Date(mtime.getTime() - 1000))
  const after = await addressOf()
  t.ok(before !== '' && after !== '' && before !== after, `${before} and ${after}`)
  const cached = async (path: string) => (await fetch(page.url + path)).headers.get('cache-control')
  t.strictSame([await cached(before), await cached(after)], ['no-cache', 'max-age=31536000, immutable'])
})

t.test('files have another version as soon as one of them is written', async (t) => {
  const files = ['a.js', 'b.js'].map((name) => join(t.testdir({ 'a.js': 'one', 'b.js': 'two' }), name))
  const before = versionOf(files)
  t.equal(versionOf(files), before)
  t.match(before, /^[\w-]{16}$/)
  await utimes(files[1] ?? '', 1, 1)
  const touched = versionOf(files)
  t.not(touched, before)
  await writeFile(files[1] ?? '', 'three')
  t.not(versionOf(files), touched)
})

t.test('serves nothing else of the machine', async (t) => {
  for (const path of [
    '/nothing',
    '/%2e%2e/package.json',
    '/page-server.ts',
    '//etc/passwd',
    '/index.html',
    '/lib',
    '/lib/',
    '/web/',
    '/web/v',
    '/web/v/',
    '/web/v/nothing',
    '/web/v/web/v/page.js',
    '/web/v//etc/passwd',
  ]) {
    t.equal((await fetch(page.url + path)).status, 404, path)
  }
  // As they are: `fetch` would resolve the dots before it asks.
  for (const path of [
    '/../package.json',
    '/lib/../../package.json',
    '/lib/..%2f..%2fpackage.json',
    '/vendor/../package.json',
    '/web/../page.js',
    '/web/v/../../package.json',
  ]) {
    const bytes = `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${page.port}\r\nConnection: close\r\n\r\n`
    t.match(await sendRaw(page.port, bytes, 'wait'), /^HTTP\/1\.1 404 /, path)
  }
  t.equal((await fetch(page.url, { method: 'POST' })).status, 405)
})

t.test('answers a request target that is no URL', async (t) => {
  for (const target of ['//[', '*', 'http://[']) {
    const bytes = `GET ${target} HTTP/1.1\r\nHost: 127.0.0.1:${page.port}\r\nConnection: close\r\n\r\n`
    t.match(await sendRaw(page.port, bytes, 'wait'), /^HTTP\/1\.1 40[04] /, target)
  }
})

t.test('shows the accounts to those who came by the link, and only to them', async (t) => {
  const ask = async (headers: Record<string, string>) => (await fetch(`${page.url}/directory`, { headers })).json()
  t.match(await ask({ 'x-page-key': key }), {
    accounts: [{ email: 'ann@example.org', password: 'secret' }],
    has_outbox: true,
  })
  for (const headers of [
    {},
    { 'x-page-key': 'guess' },
    { 'x-page-key': (key.startsWith('_') ? '-' : '_') + key.slice(1) },
  ]) {
    t.strictSame(await ask(headers as Record<string, string>), { accounts: [], has_outbox: false })
  }
})

t.test("does not answer to somebody else's name for this machine", async (t) => {
  const asked = request({ port: new URL(page.url).port, host: '127.0.0.1', headers: { host: 'evil.example' } }).end()
  const [response] = (await once(asked, 'response')) as [IncomingMessage]
  response.resume()
  t.equal(response.statusCode, 421)
})

t.test('hands requests to the API and answers back, without the headers of the connection', async (t) => {
  const [[incoming, answer], got] = await Promise.all([
    next().then(async (got) => {
      got[1].writeHead(206, { 'Content-Range': 'bytes 0-1/9', 'Keep-Alive': 'timeout=99' }).end('ab')
      return got
    }),
    fetch(`${page.url}/d/token/file?x=1`, { headers: { range: 'bytes=0-1', te: 'trailers' } }),
  ])
  t.ok(answer.writableEnded)
  t.equal(incoming.url, '/d/token/file?x=1')
  t.match(incoming.headers, { range: 'bytes=0-1' })
  t.notOk(incoming.headers.te)
  t.match([got.status, got.headers.get('content-range'), await got.text()], [206, 'bytes 0-1/9', 'ab'])
  t.not(got.headers.get('keep-alive'), 'timeout=99')
})

t.test('QR codes come through the address of the page', async (t) => {
  const [[incoming]] = await Promise.all([
    next().then((got) => {
      got[1].end('png')
      return got
    }),
    fetch(`${page.url}/q/token/id/1.png`),
  ])
  t.equal(incoming.url, '/q/token/id/1.png')
})

t.test('streams a body while it is still being sent', async (t) => {
  let push: (chunk: string | null) => void = () => {}
  const body = new Readable({ read() {} })
  push = (chunk) => void body.push(chunk)
  push('first')
  const answer = fetch(`${page.url}/v1/up`, { method: 'PUT', body, duplex: 'half' } as RequestInit)
  const [incoming, outgoing] = await next()
  const [chunk] = (await once(incoming, 'data')) as [Buffer]
  t.equal(String(chunk), 'first', 'arrived before the rest was sent')
  push('second')
  push(null)
  await once(incoming.resume(), 'end')
  outgoing.end('done')
  t.equal(await (await answer).text(), 'done')
})

/** A request of its own, if the body that holds it were sent without its framing. */
const HIDDEN = 'GET /v1/api/users/me HTTP/1.1\r\nHost: api\r\n\r\n'

for (const method of ['GET', 'HEAD', 'DELETE', 'OPTIONS', 'POST']) {
  for (const framing of ['chunked', 'length'] as const) {
    t.test(`the body of a ${method} stays a body (${framing})`, async (t) => {
      const seen: string[] = []
      const answer = (incoming: IncomingMessage, outgoing: import('node:http').ServerResponse) => {
        void text(incoming).then((body) => {
          seen.push(`${incoming.method} ${incoming.url} ${body}`)
          outgoing.end()
        })
      }
      api.on('request', answer)
      t.teardown(() => api.off('request', answer))
      const [header, body] =
        framing === 'length'
          ? [`Content-Length: ${HIDDEN.length}`, HIDDEN]
          : ['Transfer-Encoding: chunked', `${HIDDEN.length.toString(16)}\r\n${HIDDEN}\r\n0\r\n\r\n`]
      const head = `${method} /v1/x HTTP/1.1\r\nHost: 127.0.0.1:${page.port}\r\nConnection: close\r\n${header}\r\n\r\n`
      t.match(await sendRaw(page.port, head + body, 'wait'), /^HTTP\/1\.1 200 /)
      // On the connection to the API that the first one left.
      t.equal((await fetch(`${page.url}/v1/after`)).status, 200)
      t.strictSame(seen, [`${method} /v1/x ${HIDDEN}`, 'GET /v1/after '])
    })
  }
}

t.test('a body in a coding that is not taken apart is refused', async (t) => {
  const head = `POST /v1/x HTTP/1.1\r\nHost: 127.0.0.1:${page.port}\r\nConnection: close\r\nTransfer-Encoding: gzip, chunked\r\n\r\n`
  t.match(await sendRaw(page.port, `${head}1\r\na\r\n0\r\n\r\n`, 'wait'), /^HTTP\/1\.1 501 /)
})

t.test('hands on each event of a stream as it comes', async (t) => {
  const answered = follow(`${page.url}/v1/changes`)
  const [, res] = await next()
  res.writeHead(200, { 'Content-Type': 'text/event-stream', 'X-Accel-Buffering': 'no' })
  res.write('retry: 1\n\n')
  const stream = await answered
  t.match(stream.headers, { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' })
  for (const event of ['one', 'two']) {
    res.write(`event: ${event}\ndata: {}\n\n`)
    t.ok(await stream.next(event), 'while the answer goes on')
  }
  stream.leave()
  await once(res, 'close')
})

t.test('a browser that goes away ends the request behind it', async () => {
  const stop = new AbortController()
  const asked = fetch(`${page.url}/v1/slow`, { signal: stop.signal }).catch(() => {})
  const [, outgoing] = await next()
  stop.abort()
  await once(outgoing, 'close')
  await asked
})

t.test('shows the mails of the folder, newest first, to those who came by the link', async (t) => {
  const ask = async (headers: Record<string, string>) => (await fetch(`${page.url}/outbox.json`, { headers })).json()
  t.strictSame(await ask({ 'x-page-key': key }), { mails: [] })
  const put = async (name: string, subject: string) => {
    const from = { name: 'Keepsake', address: 'no-reply@keepsake.invalid' }
    const one = { from, to: 'guest@example.org', subject, text: 'T', html: '<p>H</p>', messageId: '<a@b>', headers: {} }
    await putIntoFolder(mail, name, await bytesOf(one))
  }
  await put('ntf_1', 'First')
  await utimes(join(mail, 'ntf_1.eml'), 1, 1)
  await put('ntf_2', 'Grüße')
  const { mails } = (await ask({ 'x-page-key': key })) as { mails: Record<string, string>[] }
  t.match(mails, [
    { id: 'ntf_2', subject: 'Grüße', to: 'guest@example.org', html_path: /^\/mail\//, text: /T/ },
    { id: 'ntf_1', subject: 'First' },
  ])
  t.strictSame(await ask({}), { mails: [] })

  const path = mails[0]?.['html_path'] ?? ''
  const shown = await fetch(page.url + path)
  t.match(await shown.text(), /^<base target="_blank"><p>H<\/p>/)
  const policy = shown.headers.get('content-security-policy') ?? ''
  t.match(policy, /^default-src 'none'; style-src 'unsafe-inline'; img-src data: http:\/\/127/)
  t.match(policy, /sandbox allow-popups allow-popups-to-escape-sandbox$/)
  t.notMatch(policy, /script-src|allow-scripts|allow-same-origin/)
  const [, , proof = '', name = ''] = path.split('/')
  const other = (proof.startsWith('_') ? '-' : '_') + proof.slice(1)
  for (const wrong of [`${other}/${name}`, `${proof}/ntf_1.html`, name, `${proof}/ntf_9.html`]) {
    t.equal((await fetch(`${page.url}/mail/${wrong}`)).status, 404, wrong)
  }
})

t.test('says so when the API is away', async (t) => {
  const away = await startPageServer({
    port: 0,
    api: 'http://127.0.0.1:1',
    accounts: [],
    mail,
    log: openLog({ program: 'test', level: 'silent' }),
  })
  t.teardown(() => away.close())
  const response = await fetch(`${away.url}/v1/health`)
  t.equal(response.status, 503)
  t.match(await response.json(), { error: { code: 'SERVICE_UNAVAILABLE' } })
})
