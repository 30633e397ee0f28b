import { once } from 'node:events'
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net'
import { createServer } from 'node:tls'
import { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import { isAllowed, isPublic, parseRange } from '../../../lib/runtime/guarded-http/addresses.ts'
import {
  checkUrl,
  openGuard,
  RefusedAddress,
  retryAfterSeconds,
} from '../../../lib/runtime/guarded-http/guarded-http.ts'
import { GuardSettings } from '../../../lib/runtime/guarded-http/settings.ts'
import { httpsReceiver } from '../../support/https-receiver.ts'

/** Addresses that a stranger may name to reach what only this network reaches. */
const BAD = [
  ...['0.0.0.0', '10.0.0.1', '100.64.0.1', '100.100.100.200', '127.0.0.1', '127.1.2.3', '168.63.129.16'],
  ...['169.254.169.254', '169.254.170.2', '172.16.0.1', '172.31.255.255', '192.0.0.8', '192.0.0.192', '192.0.2.1'],
  ...['192.88.99.1', '192.168.1.1', '198.18.0.1', '198.51.100.1', '203.0.113.1', '224.0.0.1', '239.1.1.1'],
  ...['240.0.0.1', '255.255.255.255', '::', '::1', '::127.0.0.1', '::ffff:127.0.0.1', '::ffff:169.254.169.254'],
  ...[
    '::ffff:7f00:1',
    '64:ff9b::7f00:1',
    '64:ff9b::a9fe:a9fe',
    '64:ff9b::10.0.0.1',
    '64:ff9b::6464:64c8',
    '64:ff9b:1::808:808',
    '100::1',
    '2001:0:7f00:1::',
  ],
  ...['2001:10::1', '2001:20::1', '2001:db8::1', '2002:7f00:1::', '2002:a9fe:a9fe::1', '3fff::1', '5f00::1', 'fc00::1'],
  ...[
    'fd00:ec2::254',
    'fe80::1',
    'fe80::1%eth0',
    '2606:4700:4700::1111%eth0',
    'fec0::1',
    'ff02::1',
    '4000::1',
    'example',
  ],
]
const GOOD = [
  '1.1.1.1',
  '8.8.8.8',
  '93.184.216.34',
  '2606:4700:4700::1111',
  '2a00:1450:4001:81b::200e',
  '::ffff:8.8.8.8',
  '64:ff9b::808:808',
]

const rangesOf = (...texts: string[]) => texts.map((text) => parseRange(text)).filter((range) => range !== undefined)

t.test('addresses that the Internet does not route are refused, in every spelling', async (t) => {
  t.ok(BAD.length >= 47)
  t.strictSame(BAD.filter(isPublic), [])
  t.strictSame(
    GOOD.filter((one) => !isPublic(one)),
    [],
  )
  const inside = rangesOf('10.1.0.0/16', 'fd12::/16')
  t.ok(isAllowed('10.1.2.3', inside))
  t.ok(isAllowed('::ffff:10.1.2.3', inside))
  t.ok(isAllowed('fd12::1', inside))
  t.notOk(isAllowed('10.2.0.1', inside))
  t.notOk(isAllowed('64:ff9b::10.1.2.3', inside), 'not by way of NAT64')
  t.equal(parseRange('10.1.0.0'), undefined)
})

const plain = GuardSettings.parse({})

t.test('settings name blocks and ports', async (t) => {
  t.strictSame(plain, { OUTBOUND_ALLOWED_ADDRESSES: [], OUTBOUND_PORTS: [443, 8443] })
  for (const wrong of [{ OUTBOUND_ALLOWED_ADDRESSES: '10.0.0.1' }, { OUTBOUND_PORTS: '0' }, { OUTBOUND_PORTS: ',' }]) {
    t.notOk(GuardSettings.safeParse(wrong).success, JSON.stringify(wrong))
  }
})

const REFUSED_URLS: [string, RegExp][] = [
  ['nonsense', /not an address/],
  [`https://example.org/${'a'.repeat(2048)}`, /not an address/],
  ['http://example.org/', /https/],
  ['ftp://example.org/', /https/],
  ['file:///etc/passwd', /https/],
  ['https://user@example.org/', /no user/],
  ['https://user:word@example.org/', /no user/],
  ['https://example.org/#part', /fragment/],
  ['https://example.org:22/', /port 22/],
  ...[
    '2130706433',
    '0x7f.1',
    '017700000001',
    '127.1',
    '①②⑦.0.0.1',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '0',
    '169.254.169.254',
  ].map((host): [string, RegExp] => [`https://${host}/`, /not public/]),
]
for (const [url, why] of REFUSED_URLS) {
  t.test(`${url.slice(0, 60)} is refused by its text`, async (t) => {
    t.throws(() => checkUrl(url, plain), why)
  })
}

t.test('public addresses are accepted by their text', async (t) => {
  for (const url of ['https://hooks.example.org/x?y=1', 'https://8.8.8.8/', 'https://example.org:8443/']) {
    t.equal(checkUrl(url, plain).href, url)
  }
})

const receiver = await httpsReceiver(t)
const { ca, settings } = receiver
const asked = { method: 'POST', headers: { 'content-type': 'text/plain' }, body: 'hello' } as const

t.test('a receiver inside is reached through the allow-list only', async (t) => {
  const answer = await openGuard(settings, { ca }).ask(receiver.url('/in'), asked)
  t.equal(answer.status, 204)
  t.match(receiver.received.at(-1), { method: 'POST', path: '/in', headers: { 'user-agent': 'Keepsake' } })
  t.equal(receiver.received.at(-1)?.body.toString(), 'hello')
  const before = receiver.received.length
  const closed = { ...settings, OUTBOUND_ALLOWED_ADDRESSES: [] }
  await t.rejects(openGuard(closed, { ca }).ask(receiver.url(), asked), RefusedAddress)
  await t.rejects(openGuard(settings).ask(receiver.url(), asked), /certificate/, 'an unknown authority')
  t.equal(receiver.received.length, before)
})

/** A guard of public addresses and the port of the receiver, with names that resolve to these answers, one after the other. */
function naming(...answers: string[][]) {
  let asked = 0
  const guard = openGuard(
    { ...settings, OUTBOUND_ALLOWED_ADDRESSES: [] },
    { ca, resolve: async () => answers[Math.min(asked++, answers.length - 1)] ?? [] },
  )
  return { guard, lookups: () => asked }
}
const named = `https://hooks.example:${receiver.port}/`

t.test('a name is resolved once, and refused if one of its addresses is not public', async (t) => {
  const before = receiver.received.length
  for (const answer of [
    ['127.0.0.1'],
    ['93.184.216.34', '127.0.0.1'],
    ['::ffff:127.0.0.1'],
    ['::1'],
    ['8.8.8.8', '::1'],
  ]) {
    const { guard, lookups } = naming(answer)
    await t.rejects(guard.ask(named, asked), /not public/, answer.join(' '))
    t.equal(lookups(), 1)
  }
  await t.rejects(naming([]).guard.ask(named, asked), /no address/)
  const localhost = openGuard({ ...settings, OUTBOUND_ALLOWED_ADDRESSES: [] }, { ca })
  await t.rejects(localhost.ask(`https://localhost:${receiver.port}/`, asked))
  t.equal(receiver.received.length, before, 'nothing arrived')
})

t.test('a name that changes after the check gains nothing', async (t) => {
  const answers = [['127.0.0.1'], ['10.0.0.1']]
  let lookups = 0
  const guard = openGuard(settings, { ca, resolve: async () => answers[lookups++] ?? [] })
  // The certificate is of 127.0.0.1, so the handshake tells that the connection was made to the checked address.
  await t.rejects(guard.ask(named, asked), /Hostname\/IP does not match certificate/)
  t.equal(lookups, 1, 'the connection takes the address that was checked')
  await t.rejects(guard.ask(named, asked), /not public/)
})

t.test('the next address of a name is tried where one cannot be reached', async (t) => {
  const ranges = rangesOf('224.0.0.0/4', '127.0.0.0/8')
  const reaching = (...found: string[]) =>
    openGuard({ ...settings, OUTBOUND_ALLOWED_ADDRESSES: ranges }, { ca, resolve: async () => found })
  // No connection can be made to a group of multicast. The certificate is of 127.0.0.1, see above.
  await t.rejects(reaching('224.0.0.1').ask(named, asked), { code: 'ENETUNREACH' })
  await t.rejects(reaching('224.0.0.1', '127.0.0.1').ask(named, asked), /Hostname\/IP does not match certificate/)
  await t.rejects(reaching('224.0.0.1', '224.0.0.2').ask(named, asked), { code: 'ENETUNREACH' })
})

t.test('a redirect is an answer like others', async (t) => {
  const guard = openGuard(settings, { ca })
  receiver.be(302, { location: receiver.url('/inner') })
  const before = receiver.received.length
  t.equal((await guard.ask(receiver.url('/302'), asked)).status, 302)
  t.equal(receiver.received.length - before, 1)
})

t.test('of an answer, no more than 64 KiB are read, and not longer than the time', async (t) => {
  const guard = openGuard(settings, { ca })
  let written = 0
  receiver.be((_, response) => {
    response.writeHead(200)
    response.on('error', () => {})
    const more = () => {
      written += 32
      if (!response.destroyed) response.write(Buffer.alloc(32 * 1024), () => setImmediate(more))
    }
    more()
  })
  const endless = await guard.ask(receiver.url(), asked)
  t.strictSame([endless.status, endless.body.length], [200, 64 * 1024])
  t.ok(written < 16 * 1024, `${written} KiB were sent, most of them into buffers`)
  receiver.be((_, response) => void response.writeHead(200).write('begun'))
  const stalled = await guard.ask(receiver.url(), { ...asked, seconds: 0.5 })
  t.strictSame([stalled.status, stalled.body.toString()], [200, 'begun'], 'the status is known')
  receiver.be(() => {})
  await t.rejects(guard.ask(receiver.url(), { ...asked, seconds: 0.3 }), /no (answer|connection) within 0\.3 s/)
  const aborted = AbortSignal.abort()
  await t.rejects(guard.ask(receiver.url(), { ...asked, signal: aborted }))
})

/** The port of a server that accepts no connection, and for which as many wait as may: the system drops all others. */
async function fullReceiver(t: Test): Promise<number> {
  const stuck = new Worker(
    `const server = require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
      require('node:worker_threads').parentPort.postMessage(server.address().port)
      setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0))
    })`,
    { eval: true },
  )
  t.teardown(() => stuck.terminate())
  const [port] = (await once(stuck, 'message')) as [number]
  // More than its queue holds, also where the first ones were accepted before it got stuck.
  const waiting = Array.from({ length: 16 }, () => connect(port, '127.0.0.1').on('error', () => {}))
  t.teardown(() => {
    for (const one of waiting) one.destroy()
  })
  return port
}

t.test('time that ends before there is a connection says that nothing was sent', async (t) => {
  const silent = createTcpServer((socket) => socket.on('error', () => {}).resume())
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  t.teardown(() => silent.close())
  const { port } = silent.address() as AddressInfo
  const ports = { ...settings, OUTBOUND_PORTS: [port, receiver.port] }
  const unconnected = { code: 'ETIMEDOUT', syscall: 'connect' }
  const short = { ...asked, seconds: 0.3 }
  const shaking = new Promise<void>((resolve) => silent.once('connection', () => resolve()))
  await t.rejects(openGuard(ports, { ca }).ask(`https://127.0.0.1:${port}/`, short), unconnected, 'no handshake')
  await shaking
  const nameless = openGuard(ports, { ca, resolve: () => new Promise(() => {}) })
  await t.rejects(nameless.ask(named, short), unconnected, 'no address')
  const full = await fullReceiver(t)
  const guard = openGuard({ ...settings, OUTBOUND_PORTS: [full] }, { ca })
  await t.rejects(guard.ask(`https://127.0.0.1:${full}/`, short), unconnected, 'packets that get lost')
  const late = new AbortController()
  receiver.be(() => late.abort())
  const arrived = openGuard(settings, { ca }).ask(receiver.url(), { ...asked, signal: late.signal })
  await t.rejects(
    arrived,
    { name: 'NoAnswerInTime', message: 'no answer within 15 s', code: undefined },
    'a request that has arrived',
  )
})

t.test('a connection that breaks before the end of its handshake says that nothing was sent', async (t) => {
  const breaking = createTcpServer((socket) => socket.on('error', () => {}))
  await new Promise<void>((resolve) => breaking.listen(0, '127.0.0.1', resolve))
  t.teardown(() => breaking.close())
  const { port } = breaking.address() as AddressInfo
  const guard = openGuard({ ...settings, OUTBOUND_PORTS: [port] }, { ca })
  const broken = (how: (socket: Socket) => unknown) => {
    breaking.once('connection', how)
    return guard.ask(`https://127.0.0.1:${port}/`, asked)
  }
  const reset = { code: 'ECONNRESET', syscall: 'connect' }
  await t.rejects(
    broken((socket) => socket.resetAndDestroy()),
    reset,
  )
  await t.rejects(
    broken((socket) => socket.destroy()),
    reset,
  )
  await t.rejects(
    broken((socket) => socket.once('data', () => socket.resetAndDestroy())),
    reset,
    'in the handshake',
  )
  await t.rejects(openGuard(settings).ask(receiver.url(), asked), { message: /certificate/, syscall: 'connect' })
  receiver.be((_, response) => response.socket?.destroy())
  const behind = openGuard(settings, { ca }).ask(receiver.url(), asked)
  t.not(((await behind.catch((error: unknown) => error)) as { syscall?: string }).syscall, 'connect', 'behind it')
  const away = Object.assign(new Error('queryA'), { code: 'ETIMEOUT', syscall: 'queryA' })
  const nameless = openGuard(settings, { ca, resolve: () => Promise.reject(away) })
  await t.rejects(nameless.ask(named, asked), { code: 'ETIMEOUT', syscall: 'queryA' }, 'the lookup names itself')
})

t.test('a switch of protocols is an answer like others, also before the request has arrived', async (t) => {
  const guard = openGuard(settings, { ca })
  const switching =
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Kept: yes\r\n\r\n'
  receiver.be((_, response) => response.socket?.write(`${switching}\u0001`))
  const { status, headers, body } = await guard.ask(receiver.url(), asked)
  t.strictSame([status, headers['x-kept'], body.length], [101, 'yes', 0])
  const hasty = createServer({ key: receiver.key, cert: receiver.cert }, (socket) => {
    socket.on('error', () => {})
    socket.end(switching)
  })
  await new Promise<void>((resolve) => hasty.listen(0, '127.0.0.1', resolve))
  t.teardown(() => hasty.close())
  const { port } = hasty.address() as AddressInfo
  const ports = openGuard({ ...settings, OUTBOUND_PORTS: [port] }, { ca })
  const long = { ...asked, body: Buffer.alloc(8 * 1024 * 1024) }
  t.equal((await ports.ask(`https://127.0.0.1:${port}/`, long)).status, 101)
})

t.test('Retry-After is a number of seconds or a date', async (t) => {
  const at = Date.parse('2026-11-23T20:00:00Z')
  const after = (value: string) => retryAfterSeconds({ 'retry-after': value }, at)
  t.equal(after('7'), 7)
  t.equal(after('Mon, 23 Nov 2026 20:01:00 GMT'), 60)
  t.equal(after('Mon, 23 Nov 2026 19:00:00 GMT'), 0)
  t.equal(after('soon'), undefined)
  t.equal(retryAfterSeconds({}), undefined)
})
