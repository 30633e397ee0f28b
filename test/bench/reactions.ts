import { Client } from 'undici'
import { EMOJIS, type Emoji } from '../../api/features/reaction-counts/emoji.ts'
import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { startTestIdentity } from '../support/identity.ts'
import { type Child, startChild } from './children.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * Reactions to one event by many users, 32 at a time, beside the least that Express and pg could do with the same
 * writes. Every reaction changes the emoji of its user, so that each writes. Rounds of the two alternate; medians are
 * compared. After each round the counts must be those of the rows. `BENCH_ROUNDS` (15) changes how many.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15)
const USERS = 320
const AT_ONCE = 32
const TARGET = 0.5
const MAX_WAIT_MS = 50

interface Side {
  child: Child
  event: Uuid
  send(client: Client, user: User, emoji: Emoji): Promise<number>
}
interface User {
  id: Uuid
  token: string
}

const endings: (() => Promise<void>)[] = []
const identity = await startTestIdentity({ teardown: (done) => void endings.push(done) })
const settings = { AUTH_ISSUER: identity.issuer, AUTH_AUDIENCE: identity.audience, AUTH_JWKS_URL: identity.jwksUrl }
try {
  console.log(await inWorld(measure, { settings }))
} finally {
  for (const end of endings) await end()
}

async function measure(world: World): Promise<string> {
  const users = await fill(world)
  const bare = await startChild('bare-reactions-child.ts', world.folder, { DATABASE_URL: world.database.url })
  try {
    return await compare(world, users, await sidesOf(world, bare))
  } finally {
    await bare.stop()
  }
}

async function fill({ database: { admin }, orgId }: World): Promise<User[]> {
  const ids = Array.from({ length: USERS }, () => newUuid())
  await admin.query(`insert into users (id, issuer, subject) select id, $2, id::text from unnest($1::uuid[]) id`, [
    ids,
    identity.issuer,
  ])
  await admin.query(
    `insert into memberships (org_id, user_id, role) select $1, id, 'member' from unnest($2::uuid[]) id`,
    [orgId, ids],
  )
  return Promise.all(ids.map(async (id) => ({ id, token: await identity.token({ sub: id }) })))
}

async function sidesOf(world: World, bare: Child): Promise<[Side, Side]> {
  const { database, orgId, org, userId } = world
  const events = [newUuid(), newUuid()] as const
  await database.admin.query(
    `insert into events (id, org_id, owner_id, title, start_at, status)
      select id, $2, $3, 'Reunion', now(), 'active' from unnest($1::uuid[]) id`,
    [events, orgId, userId],
  )
  const [ours, theirs] = events
  const action_id = formatId('event', ours)
  const sendJson = async (client: Client, path: string, json: object, headers = {}) => {
    const { statusCode, body } = await client.request({
      method: 'POST',
      path,
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(json),
    })
    await body.dump()
    return statusCode
  }
  return [
    {
      child: world.api,
      event: ours,
      send: (client, { token }, emoji) =>
        sendJson(
          client,
          `/v1/api/orgs/${org}/events/${action_id}/reactions/meta`,
          { action_id, emoji },
          { authorization: `Bearer ${token}` },
        ),
    },
    {
      child: bare,
      event: theirs,
      send: (client, { id: user }, emoji) => sendJson(client, `/${orgId}/${theirs}`, { user, emoji }),
    },
  ]
}

async function compare(world: World, users: readonly User[], sides: readonly [Side, Side]): Promise<string> {
  const rates: number[][] = sides.map(() => [])
  const cpus: number[][] = sides.map(() => [])
  let [wrong, longest] = [0, 0]
  for (let round = 0; round <= ROUNDS; round++) {
    for (const i of round % 2 ? [1, 0] : [0, 1]) {
      const side = sides[i] as Side
      const { rate, wait, cpu } = await run(world, side, users, EMOJIS[round % EMOJIS.length] ?? EMOJIS[0])
      if (i === 0) longest = Math.max(longest, wait)
      // The first round makes the rows.
      if (round === 0) continue
      rates[i]?.push(rate)
      cpus[i]?.push(cpu)
    }
    if (!(await areCountsRight(world, sides[0], users[0]?.token))) wrong++
  }
  const [ours = 0, theirs = 0] = rates.map(median)
  const [cpu = 0, bareCpu = 0] = cpus.map(median)
  const ratio = ours / theirs
  return [
    `Reactions to one event, ${AT_ONCE} at a time, medians of ${ROUNDS} alternating rounds of ${USERS}; targets: at least`,
    `${TARGET} of the bare handler, no wrong count, no wait for a lock longer than ${MAX_WAIT_MS} ms`,
    '',
    '| API, per second | bare, per second | ratio | CPU, API, ms | CPU, bare, ms | rounds with a wrong count | longest wait for a lock, ms |',
    '|---|---|---|---|---|---|---|',
    `| ${ours.toFixed(0)} | ${theirs.toFixed(0)} | ${ratio.toFixed(2)}, ${verdict(ratio >= TARGET)} | ${cpu.toFixed(2)} | ${bareCpu.toFixed(2)} | ${wrong}, ${verdict(wrong === 0)} | ${longest.toFixed(1)}, ${verdict(longest <= MAX_WAIT_MS)} |`,
  ].join('\n')
}

function verdict(isMet: boolean): string {
  return isMet ? 'met' : 'MISSED'
}

/** Every user reacts once; no user twice at the same time. */
async function run(world: World, side: Side, users: readonly User[], emoji: Emoji) {
  const clients = Array.from({ length: AT_ONCE }, () => new Client(side.child.url))
  const watch = watchWaits(world)
  const before = await side.child.usage()
  const started = performance.now()
  let next = 0
  const work = async (client: Client) => {
    for (let user = users[next++]; user; user = users[next++]) {
      const status = await side.send(client, user, emoji)
      if (status >= 300) throw new Error(`a reaction was answered ${status}`)
    }
  }
  await Promise.all(clients.map(work))
  const rate = (users.length * 1000) / (performance.now() - started)
  const after = await side.child.usage()
  const cpu = ((after.cpu - before.cpu) * 1000) / users.length
  const wait = await watch.stop()
  await Promise.all(clients.map((client) => client.close()))
  return { rate, wait, cpu }
}

/**
 * The longest that any session of the database has waited for what another one does to an event or a reaction, in
 * milliseconds. Looks every 10 ms. Commits also queue for the notification of the outbox, on both sides.
 */
function watchWaits({ database: { admin } }: World) {
  let isOver = false
  const watching = (async () => {
    let longest = 0
    while (!isOver) {
      const { rows } = await admin.query(
        `select coalesce(max(extract(epoch from clock_timestamp() - waitstart)) * 1000, 0)::float8 as ms
          from pg_locks l join pg_stat_activity a using (pid)
          where not l.granted and a.datname = current_database() and l.locktype in ('tuple', 'transactionid', 'advisory')`,
      )
      longest = Math.max(longest, rows[0].ms)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    return longest
  })()
  return {
    stop: () => {
      isOver = true
      return watching
    },
  }
}

async function areCountsRight({ database: { admin }, org, api }: World, { event }: Side, token = ''): Promise<boolean> {
  const response = await fetch(`${api.url}/v1/api/orgs/${org}/events/${formatId('event', event)}`, {
    headers: { authorization: `Bearer ${token}` },
  })
  const { data } = (await response.json()) as { data: { reaction_counts: Record<string, number> } }
  const { rows } = await admin.query('select emoji, count(*)::int as n from reactions where event_id = $1 group by 1', [
    event,
  ])
  const counted = new Map(rows.map((row) => [row.emoji, row.n]))
  const isAll = Object.values(data.reaction_counts).reduce((sum, n) => sum + n, 0) === USERS
  return isAll && Object.entries(data.reaction_counts).every(([emoji, n]) => n === (counted.get(emoji) ?? 0))
}
