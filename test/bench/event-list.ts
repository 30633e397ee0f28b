import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'undici'
import { newUuid } from '../../lib/contract/ids.ts'
import { insertMany } from '../support/explain.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * What a page of the 1,000 events of an organization costs in a table that also has those of many others, beside a table
 * with these alone. Rounds of all pages in both databases alternate, so that whatever else the machine does meets each
 * of them; medians are compared. What Postgres reads for a request, in pages of 8 KiB from its cache or from files, says
 * the same without a clock. `BENCH_ROWS` (1,000,000) and `BENCH_ROUNDS` (15) change the size.
 */
const ROWS = Number(process.env['BENCH_ROWS'] ?? 1_000_000)
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15)
const OWN_ROWS = 1000
const USERS = 1000
const PARTICIPANTS = 10
const REQUESTS = 40
const TARGET = 1.3
/** An idle backend reports what it has read after 10 s. */
const STATISTICS_MS = 12_000

const PAGES = [
  { name: 'all, for an owner', role: 'owner', query: '' },
  { name: 'all, for a member', role: 'member', query: '' },
  { name: 'active, for a member', role: 'member', query: '&status=active' },
  { name: 'drafts, for a member', role: 'member', query: '&status=draft' },
]
type Page = (typeof PAGES)[number]
interface Side {
  world: World
  client: Client
}

console.log(await inWorld((small) => inWorld((large) => measure(small, large))))

async function measure(...worlds: [World, World]): Promise<string> {
  await fill(worlds[0], 0)
  await fill(worlds[1], ROWS - OWN_ROWS)
  const sides = worlds.map((world) => ({ world, client: new Client(world.api.url) }))
  try {
    for (const side of sides) for (const page of PAGES) await requireFullPage(side, page)
    const read = await pagesReadOf(sides)
    return table(await timesOf(sides), read)
  } finally {
    for (const { client } of sides) await client.close()
  }
}

/** A third of the events are drafts, and the caller owns every second one. Those of other organizations have one participant each. */
async function fill({ database, orgId, userId }: World, others: number): Promise<void> {
  const { admin } = database
  const orgs = Array.from({ length: Math.ceil(others / OWN_ROWS) }, () => newUuid())
  await admin.query(`insert into organizations (id, name) select unnest($1::uuid[]), 'Other'`, [orgs])
  await admin.query(
    `insert into users (id, issuer, subject) select gen_random_uuid(), 'bench', n::text from generate_series(1, $1) n`,
    [USERS],
  )
  await insertMany(
    database,
    `insert into events (id, org_id, owner_id, title, start_at, status, created_at)
     select gen_random_uuid(), org, case when n % 2 = 0 then $2 else users.id end, 'Event ' || n, now(),
       (array['draft', 'active', 'archived'])[n % 3 + 1], now() - make_interval(secs => n)
     from (select org, n from generate_series(1, $3::int) n, unnest($1::uuid[]) org) rows,
       lateral (select id from users where subject = (n % $4 + 1)::text and issuer = 'bench') users`,
    [[orgId, ...orgs], userId, OWN_ROWS, USERS],
  )
  await insertMany(
    database,
    `insert into event_participants (event_id, user_id, org_id, status, joined_at)
     select events.id, users.id, org_id, 'accepted', now() from events,
       lateral (select id from users where issuer = 'bench' limit case when org_id = $1 then $2::int else 1 end) users`,
    [orgId, PARTICIPANTS],
  )
  // The caller is invited to all events of their own organization, and another user to every event.
  await insertMany(
    database,
    `insert into invitations (id, org_id, event_id, slug, user_id, token_expires_at, invited_by)
     select gen_random_uuid(), org_id, id, lpad(translate(upper(to_hex(row_number() over ())), '01', 'XY'), 8, 'Z'), who,
       now() + interval '1 day', owner_id
     from events, lateral (select $2::uuid as who where org_id = $1
       union all (select users.id from users where issuer = 'bench' and users.id <> $2 limit 1)) invited`,
    [orgId, userId],
  )
  await admin.query('vacuum analyze')
}

async function become({ world }: Side, { role }: Page): Promise<void> {
  await world.database.admin.query('update memberships set role = $1', [role])
}

async function ask({ world: { org, token }, client }: Side, { query }: Page) {
  const path = `/v1/api/orgs/${org}/events?limit=20${query}`
  const headers = { authorization: `Bearer ${token}` }
  const { statusCode, body } = await client.request({ method: 'GET', path, headers })
  if (statusCode !== 200) throw new Error(`${path} answered ${statusCode}`)
  return body
}

async function requireFullPage(side: Side, page: Page): Promise<void> {
  await become(side, page)
  const { data } = (await (await ask(side, page)).json()) as { data: { events: { participant_count: number }[] } }
  const isFull = data.events.length === 20 && data.events.every((e) => e.participant_count === PARTICIPANTS)
  if (!isFull) throw new Error(`the page "${page.name}" is not full`)
}

/** Pages of 8 KiB per request that Postgres reads for each page in each database, in this order. */
async function pagesReadOf(sides: readonly Side[]): Promise<number[]> {
  const read: number[] = []
  for (const page of PAGES) {
    for (const side of sides) {
      await timeOf(side, page)
      const before = await blocksOf(side)
      await timeOf(side, page)
      read.push(((await blocksOf(side)) - before) / REQUESTS)
    }
  }
  return read
}

async function blocksOf({ world: { database } }: Side): Promise<number> {
  await sleep(STATISTICS_MS)
  const { rows } = await database.admin.query<{ n: number }>(
    'select sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0))::float8 n from pg_statio_user_tables',
  )
  return rows[0]?.n ?? Number.NaN
}

/** Milliseconds per request of each page in each database, in this order: the medians of the rounds. */
async function timesOf(sides: readonly Side[]): Promise<number[]> {
  const cells = PAGES.flatMap((page) => sides.map((side) => ({ page, side, times: [] as number[] })))
  for (const { side, page } of cells) await timeOf(side, page)
  for (let round = 0; round < ROUNDS; round++) {
    for (const { side, page, times } of round % 2 ? cells.toReversed() : cells) times.push(await timeOf(side, page))
  }
  return cells.map(({ times }) => median(times))
}

async function timeOf(side: Side, page: Page): Promise<number> {
  await become(side, page)
  const started = performance.now()
  for (let n = 0; n < REQUESTS; n++) await (await ask(side, page)).dump()
  return (performance.now() - started) / REQUESTS
}

function table(times: readonly number[], read: readonly number[]): string {
  const lines = PAGES.map(({ name }, p) => {
    const [small = 0, large = 0] = times.slice(2 * p)
    const verdict = `${(large / small).toFixed(2)}, ${large / small <= TARGET ? 'met' : 'MISSED'}`
    const [few = 0, many = 0] = read.slice(2 * p)
    return `| ${name} | ${small.toFixed(2)} | ${large.toFixed(2)} | ${verdict} | ${few.toFixed(0)} | ${many.toFixed(0)} |`
  })
  const all = ROWS.toLocaleString('en')
  return [
    `Pages of 20 of the ${OWN_ROWS} events of an organization, each with ${PARTICIPANTS} participants, medians of`,
    `${ROUNDS} alternating rounds of ${REQUESTS} requests, milliseconds per request; target: at most ${TARGET} times`,
    '',
    `| page | ${OWN_ROWS} events in the table | ${all} events in the table | ratio | pages read | pages read of ${all} |`,
    '|---|---|---|---|---|---|',
    ...lines,
  ].join('\n')
}
