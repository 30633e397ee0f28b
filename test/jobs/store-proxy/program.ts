import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { failureOf } from '../../../jobs/runtime/failure.ts'
import { coldKeyOf } from '../../../lib/contract/cold-key.ts'
import { openFolderStore } from '../../../lib/runtime/object-store/folder.ts'
import { moveToCold } from '../../../lib/runtime/object-store/move-to-cold.ts'
import { openProxyStore } from '../../../lib/runtime/object-store/proxy.ts'
import { socketAddress } from '../../../lib/runtime/unix-socket.ts'
import { eventually } from '../../support/eventually.ts'
import { quickStart } from '../../support/quick-start.ts'

/** The sidecar as a process, between a store in a folder and a client that may be anything. */

const SOURCE = 'org/o/media/m/original'
const OUTPUT = 'org/o/media/m/v1/'
const GRANT = JSON.stringify({ read: [SOURCE], write: [OUTPUT] })
const plain = { contentType: 'text/plain' }

async function open(
  t: Pick<Test, 'teardown'>,
  { long = '', env = {} }: { long?: string; env?: Record<string, string> } = {},
) {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-sidecar-'))
  const behind = openFolderStore({ folder: join(folder, 'objects') })
  const at = join(folder, long)
  await mkdir(at, { recursive: true })
  const socket = join(at, 'socket')
  const processes = new Set<ChildProcess>()
  const start = () => {
    const child = spawn(process.execPath, ['jobs/store-proxy/main.ts'], {
      env: {
        PATH: process.env['PATH'],
        ...quickStart(),
        STORE_KIND: 'folder',
        STORE_FOLDER: join(folder, 'objects'),
        STORE_GRANT: GRANT,
        STORE_SOCKET: socket,
        LOG_LEVEL: 'silent',
        ...env,
      },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    processes.add(child)
    return child
  }
  const client = openProxyStore({ socket })
  t.teardown(async () => {
    await client.close()
    for (const child of processes) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    await behind.close()
    await rm(folder, { recursive: true, force: true })
  })
  return { folder, behind, socket, start, client }
}

/** A request as a decoder that a hostile file has taken over could send it. */
function raw(socket: string, method: string, path: string, headers: Record<string, string> = {}, body = '') {
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    const sent = request({ socketPath: socketAddress(socket), method, path, headers }, (answer) => {
      text(answer).then((body) => resolve({ status: answer.statusCode ?? 0, body }), reject)
    })
    sent.once('error', reject)
    sent.end(body)
  })
}

/** For all tests that leave the proxy as it is; the last one ends it. */
const common = await open(t)
const proxy = common.start()

t.test('a Job reads its source and writes its output, and reaches nothing else', async (t) => {
  const w = common
  await w.behind.put(SOURCE, 'the source', plain)
  await w.behind.put('org/other/media/x/original', 'a stranger', plain)
  t.equal(await text((await w.client.get(SOURCE)).body), 'the source', 'also asked before the proxy has started')
  await w.client.put(`${OUTPUT}manifest.json`, '{}', plain)
  t.match(await w.behind.head(`${OUTPUT}manifest.json`), { size: 2 })

  const refused = { name: 'StoreError', code: 'Unavailable', message: 'This Job has no right to that object' }
  const other = 'org/other/media/x/original'
  const attempts: (() => Promise<unknown>)[] = [
    () => w.client.put(other, 'mine', plain),
    () => w.client.put(other, Readable.from([Buffer.from('mine')]), plain),
    () => w.client.put(SOURCE, 'forged', plain),
    () => w.client.delete(SOURCE),
    () => w.client.delete(other),
    () => w.client.deletePrefix('org/'),
    () => w.client.createMultipart(other, plain),
    () => w.client.completeMultipart(other, 'x', [{ partNumber: 1, etag: 'x' }]),
    () => w.client.get(other),
    () => w.client.head(other),
    () => w.client.list('')[Symbol.asyncIterator]().next(),
  ]
  for (const [n, attempt] of attempts.entries()) {
    t.match(await attempt().catch((error: unknown) => error), refused, `attempt ${n}`)
  }
  t.equal(await text((await w.behind.get(other)).body), 'a stranger')
  t.equal(await text((await w.behind.get(SOURCE)).body), 'the source')
  t.equal(await w.client.presignGet(`${OUTPUT}x`, 60, 'video/mp2t'), undefined, 'and gets no link to anything')
})

t.test('a Job finds its source where it has moved meanwhile', async (t) => {
  const w = common
  await w.behind.put(SOURCE, 'the source', plain)
  t.match(await w.client.head(SOURCE), { size: 10 })
  await moveToCold(w.behind, SOURCE)
  await w.behind.deleteForGood(SOURCE)
  t.match(await w.client.head(SOURCE), { size: 10 })
  t.equal(await text((await w.client.get(SOURCE, { start: 4 })).body), 'source')
  const path = join(w.folder, 'downloaded')
  await w.client.download(SOURCE, path)
  t.equal(await readFile(path, 'utf8'), 'the source')
  t.equal(await text((await w.client.get(coldKeyOf(SOURCE))).body), 'the source', 'also by its new key')
  await w.behind.deleteForGood(coldKeyOf(SOURCE))
  t.equal(await w.client.head(SOURCE), undefined)
  await t.rejects(w.client.get(SOURCE), { code: 'NotFound' })
})

t.test('the folders of the outputs can be used by the user of the proxy, and by no other one', async (t) => {
  // Not by trying: root can use any folder.
  await common.client.put(`${OUTPUT}360p/00000.ts`, 'x', plain)
  const object = join(common.folder, 'objects/objects', `${OUTPUT}360p`)
  for (let at = object; at !== join(common.folder, 'objects/objects/org/o/media'); at = dirname(at))
    t.equal((await stat(at)).mode & 0o777, 0o700, at)
})

t.test('a Job does not choose the types of its outputs', async (t) => {
  const w = common
  const html = { 'content-type': 'text/html' }
  const at = (path: string, name: string) => `/${path}?key=${encodeURIComponent(OUTPUT + name)}`
  for (const [name, type] of [
    ['360p_00000.ts', 'video/mp2t'],
    ['master.m3u8', 'application/vnd.apple.mpegurl'],
    ['manifest.json', 'application/json'],
    ['thumb.webp', 'image/webp'],
    ['page.html', 'application/octet-stream'],
    ['picture.svg', 'application/octet-stream'],
    ['page', 'application/octet-stream'],
    ['page.constructor', 'application/octet-stream'],
    ['page.ts.', 'application/octet-stream'],
  ] as const) {
    t.match(await raw(w.socket, 'PUT', at('object', name), html, '<script>'), { status: 200 })
    t.match(await w.behind.head(OUTPUT + name), { contentType: type }, name)
  }
  const name = '360p_00001.ts'
  const { uploadId } = JSON.parse((await raw(w.socket, 'POST', at('uploads', name), html)).body)
  const { etag } = await w.client.putPart(OUTPUT + name, uploadId, 1, Readable.from([Buffer.from('a')]), { size: 1 })
  await w.client.completeMultipart(OUTPUT + name, uploadId, [{ partNumber: 1, etag }])
  t.match(await w.behind.head(OUTPUT + name), { contentType: 'video/mp2t' }, 'in parts')
})

t.test('what a Job may remove, it can neither read nor replace', async (t) => {
  const pieces = 'org/o/media/m/pieces/'
  const grant = { read: [SOURCE], write: [`${pieces}own/`], remove: [pieces] }
  const w = await open(t, { env: { STORE_GRANT: JSON.stringify(grant) } })
  await w.behind.put(`${pieces}other/piece.json`, '{}', plain)
  w.start()
  await w.client.put(`${pieces}own/piece.json`, '{}', plain)
  const refused = { message: 'This Job has no right to that object' }
  await t.rejects(w.client.get(`${pieces}other/piece.json`), refused)
  await t.rejects(w.client.put(`${pieces}other/piece.json`, 'forged', plain), refused)
  await t.rejects(w.client.createMultipart(`${pieces}other/piece.json`, plain), refused)
  const keys: string[] = []
  for await (const { key } of w.client.list(pieces)) keys.push(key)
  t.strictSame(keys.sort(), [`${pieces}other/piece.json`, `${pieces}own/piece.json`])
  await w.client.deletePrefix(`${pieces}other/`)
  t.notOk(await w.behind.head(`${pieces}other/piece.json`))
})

t.test(
  'a refusal leaves the connection open, so that a client in the middle of its body finds the answer',
  async (t) => {
    const w = common
    const socket = connect(socketAddress(w.socket)).setEncoding('utf8')
    t.teardown(() => socket.destroy())
    let answers = ''
    socket.on('data', (text: string) => {
      answers += text
    })
    const body = Buffer.alloc(1_000_000)
    socket.write(`PUT /object?key=org%2Fother HTTP/1.1\r\nhost: store\r\ncontent-length: ${body.length}\r\n\r\n`)
    await eventually('the refusal', () => answers.includes('no right to that object'))
    t.match(answers, /^HTTP\/1.1 403 /)
    socket.write(body)
    socket.write('GET /ping HTTP/1.1\r\nhost: store\r\n\r\n')
    await eventually('the next answer', () => answers.includes('HTTP/1.1 200 '))
  },
)

t.test('what no client of ours would send is refused, and the proxy goes on', async (t) => {
  const w = common
  await w.behind.put('org/other/a', 'a stranger', plain)
  const at = encodeURIComponent
  const requests: [method: string, path: string, headers?: Record<string, string>, body?: string][] = [
    ['GET', `/object?key=${at(`${OUTPUT}../../../../other/a`)}`],
    ['GET', `/object?key=${at(OUTPUT)}%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e%2fother%2fa`],
    // The first of two is the one that is looked at, and the one that is used.
    ['GET', `/object?key=${at('org/other/a')}&key=${at(`${OUTPUT}x`)}`],
    ['GET', '/object'],
    ['GET', '/object?key='],
    ['GET', '/list'],
    ['GET', '/list?prefix='],
    ['DELETE', '/list?prefix=org%2F'],
    ['GET', '//org/other/a'],
    ['GET', 'http://elsewhere/object?key=org/other/a'],
    ['PATCH', '/object?key=x'],
    ['PUT', `/part?key=${at(`${OUTPUT}x`)}&uploadId=..%2f..%2f&partNumber=1`, {}, 'x'],
    ['PUT', `/part?key=${at(`${OUTPUT}x`)}&uploadId=x&partNumber=-1`, {}, 'x'],
    ['POST', `/upload?key=${at(`${OUTPUT}x`)}&uploadId=x`, {}, 'not json'],
    ['POST', `/upload?key=${at(`${OUTPUT}x`)}&uploadId=x`, {}, ' '.repeat(3_000_000)],
    ['POST', `/upload?key=${at(`${OUTPUT}x`)}&uploadId=x`, { 'transfer-encoding': 'chunked' }, '[]'],
    ['GET', `/object?key=${at(`${OUTPUT}x`)}`, { range: 'bytes=9-1' }],
  ]
  for (const [method, path, headers, body] of requests) {
    const answer = await raw(w.socket, method, path, headers, body)
    t.ok(answer.status >= 400, `${method} ${path}: ${answer.status}`)
    t.notMatch(answer.body, /stranger|objects/, 'nothing is given away, not even a path')
  }
  await t.resolves(w.client.check())
})

t.test('wrong settings are the result of the Job, without their values', async (t) => {
  const w = await open(t, { env: { STORE_KIND: 's3', S3_ENDPOINT: 'no-url', S3_SECRET_KEY: 'sesame' } })
  w.start()
  const error = await w.client.head(SOURCE).catch((e: unknown) => e)
  t.match(failureOf(error), { code: 20, reason: 'BadConfiguration', message: /S3_ENDPOINT[\s\S]*S3_BUCKET/ })
  t.notMatch(failureOf(error).message, /sesame|no-url/)
})

t.test('a proxy that dies in the middle costs a repetition and not the attempt', async (t) => {
  const w = await open(t)
  const size = 24 * 1024 * 1024
  await writeFile(join(w.folder, 'file'), Buffer.alloc(size, 7))
  const first = w.start()
  await w.client.check()
  const upload = w.client.upload(join(w.folder, 'file'), `${OUTPUT}720p_001.ts`, { contentType: 'video/mp2t' })
  first.kill('SIGKILL')
  await once(first, 'exit')
  t.ok(await stat(w.socket), 'its socket is left')
  w.start()
  t.match(await upload, { size })
  t.match(await w.behind.head(`${OUTPUT}720p_001.ts`), { size })
})

t.test('a proxy that dies in the middle of a download costs a repetition as well', async (t) => {
  const w = await open(t)
  const bytes = Buffer.alloc(64 * 1024 * 1024, 7)
  await w.behind.put(SOURCE, bytes, plain)
  const first = w.start()
  const { body } = await w.client.get(SOURCE)
  const [error] = await Promise.all([
    once(
      body.on('data', () => first.kill('SIGKILL')),
      'error',
    ),
  ])
  t.match(error, [{ code: 'ECONNRESET' }], 'a body that is not whole says so')
  const second = w.start()
  await w.client.check()
  const download = w.client.download(SOURCE, join(w.folder, 'source'))
  const begun = async () => (await readdir(w.folder)).some((name) => name.startsWith('source.'))
  await eventually('a download in progress', begun, undefined, 1)
  second.kill('SIGKILL')
  await once(second, 'exit')
  w.start()
  await download
  t.ok(bytes.equals(await readFile(join(w.folder, 'source'))))
  t.notOk(
    (await readdir(w.folder)).some((name) => name.startsWith('source.')),
    'no half file is left',
  )
})

t.test('a path that is too long for a socket is no obstacle', async (t) => {
  const w = await open(t, { long: 'a-folder-with-a-long-name/'.repeat(6) })
  w.start()
  await t.resolves(w.client.check())
  await eventually('the socket', () => stat(w.socket).catch(() => undefined))
})

t.test('the socket is open to the group and to nobody else, and ends with the proxy', async (t) => {
  await common.client.check()
  t.equal((await stat(common.socket)).mode & 0o777, 0o660)
  proxy.kill('SIGTERM')
  const [code] = await once(proxy, 'exit')
  t.equal(code, 0)
})
