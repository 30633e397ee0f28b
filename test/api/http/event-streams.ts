import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import * as z from 'zod'
import { sessionActions } from '../../../api/auth/policy.ts'
import { type EventStreamsOptions, makeRoom, openEventStreams } from '../../../api/http/event-streams.ts'
import { eventStream } from '../../../api/http/route.ts'
import { MAX_EVENT_STREAMS_PER_USER } from '../../../api/limits/capacity.ts'
import type { Actor } from '../../../api/requests/actor.ts'
import type { EventStream } from '../../../api/requests/event-stream.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { ask } from '../../support/ask.ts'
import { type Followed, follow } from '../../support/event-stream.ts'
import { eventually } from '../../support/eventually.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { noDatabase, PEOPLE, serveRoutes } from '../../support/serve.ts'

/** Of the platform alone, with a handler that tells what the test wants. */
async function serve(o: Partial<EventStreamsOptions> = {}) {
  const ended: string[] = []
  const opened: EventStream[] = []
  let isDraining = false
  let refused: (() => Error) | undefined
  let validUntil: number | undefined
  const streams = openEventStreams({
    most: 100,
    log: quietLog(),
    closing: () => isDraining,
    onRefused: () => ended.push('refused'),
    onEnded: (why) => ended.push(why),
    ...o,
    timing: { tickMs: 10, ...o.timing },
  })
  const route = eventStream({
    path: '/changes',
    operationId: 'test',
    tags: ['Test'],
    summary: 'For tests',
    action: sessionActions.endAll,
    query: z.object({ device: z.string().optional() }),
    events: 'Some',
    async handle({ query }) {
      return {
        device: query.device,
        begin(stream) {
          opened.push(stream)
          stream.send('retry: 1\n\n')
        },
      }
    },
  })
  const server = await serveRoutes(t, [route], {
    db: noDatabase,
    streams,
    async authenticate(header): Promise<Actor> {
      const actor = PEOPLE[header?.replace('Bearer ', '') ?? '']
      if (refused) throw refused()
      if (!actor) throw new Problem('UNAUTHORIZED', 'no')
      return { ...actor, ...(validUntil !== undefined && { validUntil }) }
    },
  })
  return {
    ...server,
    streams,
    ended,
    opened,
    follow: (token: string, device = '') => follow(`${server.url}/changes${device && `?device=${device}`}`, { token }),
    drain() {
      isDraining = true
    },
    refuse(make: (() => Error) | undefined) {
      refused = make
    },
    expireAt(seconds: number | undefined) {
      validUntil = seconds
    },
  }
}

t.test('sends the head and the first bytes at once, and counts no time that a client waits', async (t) => {
  const s = await serve({ timing: { heartbeatMs: 30 } })
  const one = await s.follow('ann')
  t.match(one.headers, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store, no-transform',
    'x-accel-buffering': 'no',
  })
  t.notOk(one.headers.etag)
  t.match(one.text, /^retry: 1\n\n(:\n\n)*$/)
  await eventually('a heartbeat', () => one.text.includes(':\n\n'))
  t.equal(
    (await ask(s.port, { method: 'HEAD', path: '/changes', headers: { authorization: 'Bearer ann' } })).status,
    200,
  )
  t.equal((await ask(s.port, { path: '/changes' })).status, 401)
  t.equal(s.streams.open(), 1)
  one.leave()
  const line = await eventually('its line in the log', () => s.logged.find((line) => 'open_s' in line))
  t.match(line, { status: 200, msg: 'request' })
  t.notOk('aborted' in line, 'a client that leaves aborts nothing')
  t.strictSame(s.ended, ['left'])
})

t.test('a user has five streams: a further one replaces the oldest, and a device replaces its own', async (t) => {
  const s = await serve()
  const mine: Followed[] = []
  for (let n = 0; n < MAX_EVENT_STREAMS_PER_USER; n++) mine.push(await s.follow('ann', `device-${n}`))
  const other = await s.follow('bob')
  const again = await s.follow('ann', 'device-3')
  await mine[3]?.over()
  t.match(mine[3]?.events, [{ event: 'replaced' }])
  t.equal(s.streams.open(), 6, 'five of one user, one of the other')
  const sixth = await s.follow('ann')
  await mine[0]?.over()
  t.match(mine[0]?.events, [{ event: 'replaced' }])
  t.strictSame(
    [mine[1], mine[2], mine[4], again, sixth, other].map((one) => one?.isOver),
    [false, false, false, false, false, false],
  )
  t.strictSame(s.ended, ['replaced', 'replaced'])
})

t.test('makes room for a stream, oldest first', async (t) => {
  const own = ['a', undefined, 'b', 'c', undefined].map((device) => ({ device, isOpen: true }))
  t.strictSame(makeRoom(own, 'b'), [own[2]])
  t.strictSame(makeRoom(own, 'x'), [own[0]])
  t.strictSame(makeRoom(own.slice(1), 'x'), [])
  const [first, ...rest] = own
  t.strictSame(makeRoom([{ ...first, device: 'a', isOpen: false }, ...rest], undefined), [], 'the ended one is gone')
})

t.test('refuses one too many before its head is sent, and takes another when one has left', async (t) => {
  const s = await serve({ most: 2 })
  const [one] = [await s.follow('ann'), await s.follow('bob')]
  const refused = await s.ask({ path: '/changes', headers: { authorization: 'Bearer ann' } })
  t.match(refused, {
    status: 503,
    json: { error: { code: 'SERVICE_UNAVAILABLE' } },
    headers: { 'retry-after': /^\d+$/ },
  })
  one?.leave()
  await eventually('a place', () => s.ended.includes('left'))
  t.equal((await s.follow('ann')).status, 200)
  s.drain()
  t.equal((await s.ask({ path: '/changes', headers: { authorization: 'Bearer ann' } })).status, 503, 'while it stops')
})

t.test('a stream ends with its age, with its token, and when the token is no longer valid', async (t) => {
  const old = await serve({ timing: { lifeMs: 50 } })
  const aged = await old.follow('ann')
  t.match(await aged.next('bye'), { data: '{"reason":"age"}' })
  t.ok((aged.retry ?? 0) >= 200)

  const s = await serve()
  s.expireAt(Date.now() / 1000 + 0.2)
  t.match(await (await s.follow('ann')).next('bye'), { data: '{"reason":"expired"}' })
  s.expireAt(undefined)

  const [ann, bob] = [await s.follow('ann'), await s.follow('bob')]
  let looked = 0
  s.opened.at(-1)?.onAccess(() => {
    looked += 1
  })
  s.streams.recheck(PEOPLE['bob']?.userId)
  await eventually('another look at what bob may see', () => looked)
  s.refuse(() => new Problem('UNAUTHORIZED', 'revoked'))
  s.streams.recheck(PEOPLE['ann']?.userId)
  t.match(await ann.next('bye'), { data: '{"reason":"revoked"}' })
  t.notOk(bob.isOver, 'nobody else was asked')
  s.refuse(() => new Error('the database is away'))
  s.streams.recheck()
  t.match(await bob.next('bye'), { data: '{"reason":"unverified"}' })
  t.equal(looked, 1)
})

/** A client that asks, and reads nothing. */
function deafTo(t: Test, port: number, token: string): Socket {
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.on('error', () => {}).pause()
  socket.write(`GET /changes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`)
  return socket
}

t.test('a client that reads nothing is cut off, and costs a bounded number of bytes', async (t) => {
  const s = await serve()
  deafTo(t, s.port, 'ann')
  const stream = await eventually('the stream', () => s.opened[0])
  const event = `data: ${'x'.repeat(8000)}\n\n`
  let sent = 0
  await eventually('the cut', () => {
    for (let n = 0; n < 50 && stream.isOpen; n++) {
      stream.send(event)
      sent += event.length
    }
    return s.ended[0]
  })
  t.strictSame(s.ended, ['slow'])
  t.ok(sent > 64 * 1024)
})

/** The sockets that servers of this process accept from now on. */
function acceptedSockets(t: Test): Socket[] {
  const sockets: Socket[] = []
  const add = (message: unknown) => void sockets.push((message as { socket: Socket }).socket)
  subscribe('net.server.socket', add)
  t.teardown(() => unsubscribe('net.server.socket', add))
  return sockets
}

t.test('ends hundreds of streams in good order while it stops, also those that nobody reads', async (t) => {
  // Without `drainMs`, the one that nobody reads would keep it for ten minutes.
  const s = await serve({ most: 1000, timing: { drainMs: 3000, endMs: 600_000 } })
  // A user has five.
  for (let n = 0; n < 60; n++) PEOPLE[`p${n}`] = { userId: newUuid(), platformAdmin: false, sessionId: null }
  const ofServer = acceptedSockets(t)
  const deaf = deafTo(t, s.port, 'p0')
  const stream = await eventually('its stream', () => s.opened[0])
  const all = await Promise.all(Array.from({ length: 299 }, (_, n) => s.follow(`p${(n + 1) % 60}`)))
  const unread = ofServer.find(({ remotePort }) => remotePort === deaf.localPort)
  const filler = `data: ${'x'.repeat(50_000)}\n\n`
  let looks = 0
  // Those of the kernel grow with what they are given.
  const isFull = () => {
    looks = unread?.writableLength ? looks + 1 : 0
    if (looks === 0) stream.send(filler)
    return looks > 100
  }
  await eventually('its buffers to be full', isFull, undefined, 1)
  t.ok(stream.isOpen, 'it was not cut off for what it left unread')
  const before = performance.now()
  await s.streams.close()
  const took = performance.now() - before
  t.equal(s.streams.open(), 0)
  t.ok(took > 2900 && took < 30_000, `${took} ms: the one that nobody reads has its time, and no more`)
  for (const one of all) await one.over()
  t.ok(all.every(({ events }) => events.at(-1)?.data === '{"reason":"drain"}'))
  const retries = new Set(all.map(({ retry }) => retry))
  t.ok(retries.size > 100, 'they do not come back at once')
  t.match(
    await s.follow('ann').then((late) => late.next('bye')),
    { data: '{"reason":"drain"}' },
    'one that came too late',
  )
})
