import { Client } from 'undici'
import { newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * What lists of members cost when the table is large. First: an organization of a thousand members alone in a database,
 * beside the same organization in a table of `BENCH_ROWS` (1,000,000) memberships more. Rounds of the two alternate, so
 * that whatever else the machine does meets both; medians are compared. Second: the page of everyone with whom a caller
 * in 50 organizations of 2,000 is connected. `BENCH_ROUNDS` (15) changes how often each is measured.
 */
const ROWS = Number(process.env['BENCH_ROWS'] ?? 1_000_000)
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15)
const HERE = 1000
const REQUESTS = 20
const TARGET = 1.3
const WIDE = { organizations: 50, members: 2000 }
/** Of the other organizations in the table. */
const EACH = 500

const MEMBERS = (org: Uuid) => `/v1/api/organizations/${org}/members`
const CONNECTED = '/v1/api/users/me/connected-members'
const ASKED = [
  { name: '100 members', path: MEMBERS },
  { name: '100 members of a year', path: (org: Uuid) => `${MEMBERS(org)}?joined_year=2020` },
  { name: 'a name that 11 have', path: (org: Uuid) => `${MEMBERS(org)}?query=person%2099` },
  { name: '100 connected members', path: () => CONNECTED },
]

console.log(await inWorld((small) => inWorld((large) => measure(small, large))))

async function measure(small: World, large: World): Promise<string> {
  for (const world of [small, large]) await fill(world, [world.orgId], HERE - 1)
  await fill(large, await organizations(large, Math.ceil(ROWS / EACH)), EACH)
  for (const { database } of [small, large]) await database.admin.query('vacuum analyze')
  const sides = [small, large].map((world) => ({ world, client: new Client(world.api.url) }))
  try {
    const rows: number[][] = []
    for (const { path } of ASKED) {
      rows.push(await timesOf(sides.map((side) => ({ ...side, path: path(side.world.orgId) }))))
    }
    await joinWide(large)
    const [wide = 0] = await timesOf(sides.slice(1).map((side) => ({ ...side, path: CONNECTED })))
    return table(rows) + (await ofWide(large, wide))
  } finally {
    for (const { client } of sides) await client.close()
  }
}

async function organizations({ database: { admin } }: World, count: number): Promise<Uuid[]> {
  const ids = Array.from({ length: count }, () => newUuid())
  await admin.query(`insert into organizations (id, name) select id, 'Other' from unnest($1::uuid[]) id`, [ids])
  return ids
}

/** New users, each in one of the organizations; they joined in the course of ten years. */
async function fill({ database: { admin } }: World, orgs: readonly Uuid[], each: number): Promise<void> {
  await admin.query(
    `with made as (
        insert into users (id, issuer, subject, display_name)
          select gen_random_uuid(), 'bench', o || ' ' || n, 'Person ' || n
          from unnest($1::uuid[]) o, generate_series(1, $2::int) n returning id, subject)
      insert into memberships (org_id, user_id, role, joined_at)
        select split_part(subject, ' ', 1)::uuid, id, 'member',
          '2016-01-01'::timestamptz + make_interval(days => split_part(subject, ' ', 2)::int * 7919 % 3650) from made`,
    [orgs, each],
  )
}

async function joinWide(world: World): Promise<void> {
  const ids = await organizations(world, WIDE.organizations - 1)
  await fill(world, ids, WIDE.members)
  await world.database.admin.query(
    `insert into memberships (org_id, user_id, role) select id, $2, 'member' from unnest($1::uuid[]) id`,
    [ids, world.userId],
  )
  await world.database.admin.query('vacuum analyze')
}

interface Side {
  world: World
  client: Client
  path: string
}

/** Milliseconds per request, for each side. */
async function timesOf(sides: readonly Side[]): Promise<number[]> {
  const times = sides.map((): number[] => [])
  // The first round only warms up.
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [n, side] of sides.entries()) {
      const took = await timeOf(side)
      if (round > 0) times[n]?.push(took)
    }
  }
  return times.map(median)
}

async function timeOf({ client, path, world: { token } }: Side): Promise<number> {
  const started = performance.now()
  for (let n = 0; n < REQUESTS; n++) {
    const { statusCode, body } = await client.request({
      method: 'GET',
      path,
      headers: { authorization: `Bearer ${token}` },
    })
    await body.dump()
    if (statusCode !== 200) throw new Error(`${path} answered ${statusCode}`)
  }
  return (performance.now() - started) / REQUESTS
}

/** What the two statements of the page cost Postgres alone, and what they read; milliseconds. */
async function ofWide({ database: { admin }, userId }: World, whole: number): Promise<string> {
  const client = await admin.connect()
  try {
    await client.query(`select set_config('app.user', $1, false)`, [userId])
    const alone = async (query: string) => {
      const times: number[] = []
      for (let round = 0; round < ROUNDS; round++) {
        const started = performance.now()
        await client.query(query)
        times.push(performance.now() - started)
      }
      return median(times).toFixed(1)
    }
    const page = await alone(`select * from connected_members('00000000-0000-0000-0000-000000000000', 101)`)
    const total = await alone('select count_connected_members()')
    const { organizations: count, members } = WIDE
    return `\n\nIn ${count} organizations of ${members}: ${whole.toFixed(1)} ms per request; in Postgres alone ${page} ms for the page, ${total} ms for the total\n`
  } finally {
    client.release()
  }
}

function table(rows: readonly number[][]): string {
  const lines = ASKED.map(({ name }, i) => {
    const [few = 0, many = 0] = rows[i] ?? []
    const ratio = many / few
    return `| ${name} | ${few.toFixed(2)} | ${many.toFixed(2)} | ${ratio.toFixed(2)}, ${ratio <= TARGET ? 'met' : 'MISSED'} |`
  })
  return [
    `Medians of ${ROUNDS} alternating rounds of ${REQUESTS} requests, milliseconds per request; target: at most ${TARGET}`,
    '',
    `| asked for | of ${HERE}, alone | of ${HERE} among ${(ROWS + HERE).toLocaleString('en')} | ratio |`,
    '|---|---|---|---|',
    ...lines,
  ].join('\n')
}
