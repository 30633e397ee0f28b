import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { newUuid } from '../../lib/contract/ids.ts'
import type { Usage } from './children.ts'
import { inWorld, type World } from './world.ts'

/**
 * What open event streams cost: memory, and the time of other requests, while nothing changes and while every stream is
 * told four times a second. Then 10,000 opened and left, in several rounds: what a stream left behind would show in each of
 * them. The clients are this process, on the same cores.
 */
const STREAMS = Number(process.env['STREAMS'] ?? 1000)
const CHURN = Number(process.env['CHURN'] ?? 10_000)
const REQUESTS = Number(process.env['REQUESTS'] ?? 1500)
const TARGET_MIB = 60
const USERS = STREAMS / 5
const AT_ONCE = 50
const ROUNDS = 4
const MIB = 1024 * 1024

console.log(await inWorld(measure))

async function measure(world: World): Promise<string> {
  const tokens = await usersOf(world)
  const port = Number(new URL(world.api.url).port)
  const open = (n: number) => opened(port, tokens[n % tokens.length] ?? '')
  const plain = () => times(world, REQUESTS)
  await plain()
  for (const socket of await inGroups(200, open)) socket.destroy()
  await sleep(1000)

  const rest = await world.api.collected()
  const alone = await plain()
  const sockets = await inGroups(STREAMS, open)
  let events = 0
  for (const socket of sockets) {
    socket.on('data', (bytes: Buffer) => {
      events += bytes.toString().split('event: changed').length - 1
    })
  }
  await sleep(1000)
  const full = await world.api.collected()
  const silent = await plain()

  const changing = new AbortController()
  const changes = (async () => {
    for (; !changing.signal.aborted; await sleep(100)) {
      await world.database.admin.query('select bump_feed($1)', [world.orgId])
    }
  })()
  const began = performance.now()
  const busy = await plain()
  const rate = (events / (performance.now() - began)) * 1000
  changing.abort()
  await changes
  const after = await world.api.collected()
  for (const socket of sockets) socket.destroy()
  await sleep(1000)

  const churned: { seconds: number; left: Usage }[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const began = performance.now()
    for (let n = 0; n < CHURN / ROUNDS; n += AT_ONCE) {
      for (const socket of await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => open(n + i)))) socket.destroy()
    }
    const seconds = (performance.now() - began) / 1000
    await sleep(2000)
    churned.push({ seconds, left: await world.api.collected() })
  }

  const mib = ({ rss, heapUsed }: Usage) =>
    `${Math.round((rss - rest.rss) / MIB)} / ${((heapUsed - rest.heapUsed) / MIB).toFixed(1)}`
  const ms = ({ p50, p99 }: Times) => `${p50.toFixed(1)} / ${p99.toFixed(1)}`
  const ratio = (a: Times) => `${(a.p50 / alone.p50).toFixed(2)} / ${(a.p99 / alone.p99).toFixed(2)}`
  return [
    '| | memory beyond that at rest, resident / heap after a garbage collection (MiB) | other requests, p50 / p99 (ms) | ratio |',
    '|---|---|---|---|',
    `| no stream | 0 | ${ms(alone)} | 1 |`,
    `| ${STREAMS} streams, nothing changes | ${mib(full)} (target ≤ ${TARGET_MIB} resident) | ${ms(silent)} | ${ratio(silent)} |`,
    `| ${STREAMS} streams, ${Math.round(rate)} events a second to all of them | ${mib(after)} | ${ms(busy)} | ${ratio(busy)} |`,
    ...churned.map(
      ({ seconds, left }, n) =>
        `| ${((n + 1) * CHURN) / ROUNDS} opened and left, the last ${CHURN / ROUNDS} in ${seconds.toFixed(1)} s | ${mib(left)} | | |`,
    ),
  ].join('\n')
}

async function usersOf({ database, identity, orgId }: World): Promise<string[]> {
  const ids = Array.from({ length: USERS }, () => newUuid())
  const { admin } = database
  await admin.query('insert into users (id, issuer, subject) select id, $2, id from unnest($1::uuid[]) id', [
    ids,
    identity.issuer,
  ])
  await admin.query(
    `insert into memberships (org_id, user_id, role) select $2, id, 'member' from unnest($1::uuid[]) id`,
    [ids, orgId],
  )
  return Promise.all(ids.map((sub) => identity.token({ sub })))
}

async function inGroups(count: number, open: (n: number) => Promise<Socket>): Promise<Socket[]> {
  const sockets: Socket[] = []
  for (let n = 0; n < count; n += AT_ONCE) {
    sockets.push(...(await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => open(n + i)))))
  }
  return sockets
}

/** A stream whose first bytes have arrived. */
function opened(port: number, token: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.write(
        `GET /v1/api/users/me/feed/changes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nAccept: text/event-stream\r\n\r\n`,
      )
    })
    socket.once('data', (bytes: Buffer) => {
      if (/^HTTP\/1\.1 200/.test(bytes.toString())) resolve(socket)
      else reject(new Error(bytes.toString()))
    })
    socket.on('error', reject)
  })
}

interface Times {
  p50: number
  p99: number
}

/** Of requests one after another. */
async function times({ api, token }: World, count: number): Promise<Times> {
  const all: number[] = []
  for (let n = 0; n < count; n++) {
    const started = performance.now()
    const response = await fetch(`${api.url}/v1/api/users/me`, { headers: { authorization: `Bearer ${token}` } })
    await response.arrayBuffer()
    if (response.status !== 200) throw new Error(`answered ${response.status}`)
    all.push(performance.now() - started)
  }
  all.sort((a, b) => a - b)
  return { p50: all[count >> 1] ?? 0, p99: all[Math.floor(count * 0.99)] ?? 0 }
}
