import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'undici'
import { monthOf } from '../../api/audit/personal-data.ts'
import type { Tx } from '../../api/db/db.ts'
import { sql } from '../../api/db/orm.ts'
import { countHot, findSeal, type HotWanted, listHot } from '../../api/features/audit-log/queries.ts'
import { formatId, newUuid } from '../../lib/contract/ids.ts'
import { makePastDays } from '../support/audit-log.ts'
import { testPersonalData } from '../support/personal-data.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * What a query of one person's actions costs among `BENCH_ENTRIES` (10,000,000) entries of the audit log, beside the same
 * person among 10,000, in as many days: a database each, with a partition for each day. Rounds of the two alternate; medians
 * are compared. Explains the statements in the large one. It takes about 5 GiB of disk until the end. `BENCH_ROUNDS` (15)
 * changes how often each is measured.
 */
const ENTRIES = Number(process.env['BENCH_ENTRIES'] ?? 10_000_000)
const FEW = 10_000
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15)
/** As many as the database keeps. */
const DAYS = 89
/** The person acts on every third day. */
const EVERY = 3
const OF_PERSON = 10
const PEOPLE = 20_000
const ORGS = 500
const REQUESTS = 8
const TARGET = 1.3
const ME = newUuid()
const THING = newUuid()
const ADDRESS = '203.0.113.77'

const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10)

const ASKED: { name: string; json: (world: World) => object }[] = [
  { name: 'the first 50', json: () => ({ limit: 50 }) },
  { name: 'the first 50 of one action', json: () => ({ limit: 50, action: ['MEDIA_DELETE'] }) },
  { name: '200, over 60 days', json: () => ({ limit: 200 }) },
  { name: 'what was denied', json: () => ({ limit: 50, result: 'denied' }) },
  { name: 'one kind of resource', json: () => ({ limit: 50, resource_type: 'media' }) },
  { name: 'one resource', json: () => ({ limit: 50, resource_id: THING }) },
  { name: 'one organization', json: ({ org }) => ({ limit: 50, org_id: org }) },
  { name: 'one address', json: () => ({ limit: 50, ip_address: ADDRESS }) },
  {
    name: 'a week of two months ago',
    json: () => ({ limit: 50, from: `${day(67)}T00:00:00Z`, to: `${day(60)}T00:00:00Z` }),
  },
  { name: 'with what is not sealed', json: () => ({ limit: 50, include_unsealed: true }) },
]

console.log(await inWorld((small) => inWorld((large) => measure(small, large))))

interface Side {
  client: Client
  token: string
  world: World
}

async function measure(small: World, large: World): Promise<string> {
  await fill(small, FEW)
  await fill(large, ENTRIES)
  const sides = await Promise.all(
    [small, large].map(async (world): Promise<Side> => {
      const token = await world.identity.token({ sub: world.userId, roles: ['ROLE_ADMIN'] })
      return { client: new Client(world.api.url), token, world }
    }),
  )
  try {
    const lines: string[] = []
    for (const { name, json } of ASKED) lines.push(await compare(sides, name, json))
    const { rows } = await large.database.admin.query(
      `select pg_size_pretty(pg_database_size(current_database())) as size`,
    )
    return [
      `| query of one person | found | wall, ms, among ${FEW} → ${ENTRIES} | ratio | CPU of the API and Postgres, ms | ratio (target ${TARGET}) |\n|---|---|---|---|---|---|`,
      lines.join('\n'),
      `\nThe large database: ${rows[0].size}\n`,
      await explained(large),
      await others(sides[1] as Side),
    ].join('\n')
  } finally {
    for (const { client } of sides) await client.close()
  }
}

async function compare(sides: readonly Side[], name: string, json: (world: World) => object): Promise<string> {
  const times = sides.map((): number[] => [])
  const cpus = sides.map((): number[] => [])
  const founds = sides.map(() => 0)
  // The first round only warms up.
  for (let round = 0; round <= ROUNDS; round++) {
    for (const n of round % 2 ? [1, 0] : [0, 1]) {
      const side = sides[n] as Side
      const { took, found, used } = await costOf(side, { actor_id: ME, ...json(side.world) })
      founds[n] = found
      if (round === 0) continue
      times[n]?.push(took)
      // A backend that ended meanwhile took its figures with it.
      if (used > 0) cpus[n]?.push(used)
    }
  }
  return lineOf(name, { founds, times, cpus })
}

function lineOf(
  name: string,
  { founds, times, cpus }: { founds: readonly number[]; times: readonly number[][]; cpus: readonly number[][] },
): string {
  if (founds[0] === 0 || founds[0] !== founds[1]) throw new Error(`${name}: ${founds.join(' and ')} were found`)
  const [few = 0, many = 0] = times.map(median)
  // Backends are counted in hundredths of a second: a median of rounds would say less than their sum.
  const [fewCpu = 0, manyCpu = 0] = cpus.map((all) => all.reduce((a, b) => a + b, 0) / all.length)
  const [wall, ratio] = [many / few, manyCpu / fewCpu]
  if (ratio > TARGET) process.exitCode = 1
  return `| ${name} | ${founds[0]} | ${few.toFixed(1)} → ${many.toFixed(1)} | ${wall.toFixed(2)} | ${fewCpu.toFixed(1)} → ${manyCpu.toFixed(1)} | ${ratio.toFixed(2)}, ${ratio <= TARGET ? 'met' : 'MISSED'} |`
}

/** Milliseconds of the API and of its backends. */
async function cpuOf({ world: { api, database } }: Side): Promise<number> {
  const { rows } = await database.admin.query(
    `select pid from pg_stat_activity where datname = current_database() and application_name like 'keepsake_api%'`,
  )
  let used = (await api.usage()).cpu * 1000
  for (const { pid } of rows) {
    const fields = (await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')).replace(/^.*\) /, '').split(' ')
    if (fields.length > 12) used += (Number(fields[11]) + Number(fields[12])) * 10
  }
  return used
}

/**
 * Weekdays have twice the entries of a Saturday, and a few people most of them. Ten entries of every third day are the
 * person's. All are sealed as far as readers look at the seal.
 */
async function fill({ database, orgId }: World, entries: number): Promise<void> {
  const { admin } = database
  await makePastDays(admin, DAYS)
  const address = await addressIndex(database)
  const isWeekend = (ago: number) => [0, 6].includes(new Date(`${day(ago)}T00:00:00Z`).getUTCDay())
  const agos = Array.from({ length: DAYS }, (_, n) => n + 1)
  const weights = agos.map((ago) => (isWeekend(ago) ? 1 : 2))
  const all = weights.reduce((a, b) => a + b, 0)
  // Built again when the rows are there: half the time.
  const { rows: indexes } = await admin.query<{ name: string; text: string }>(
    `select relname as name, pg_get_indexdef(oid) as text from pg_class
      where relkind = 'I' and relname like 'audit_log_by_%'`,
  )
  if (indexes.length !== 3) throw new Error('the audit log has other indexes')
  for (const { name } of indexes) await admin.query(`drop index ${name}`)
  for (const [n, ago] of agos.entries()) {
    await admin.query(
      `insert into audit_log (id, org_id, actor_id, action, resource_type, resource_id, result, request_id, details,
        personal, key_version, occurred_at)
      select gen_random_uuid(), ('00000000-0000-4000-9000-' || lpad(to_hex(floor(${ORGS} * random() ^ 2)::int), 12, '0'))::uuid,
        ('00000000-0000-4000-8000-' || lpad(to_hex(floor(${PEOPLE} * random() ^ 3)::int), 12, '0'))::uuid,
        (array['LOGIN', 'MEDIA_UPLOAD', 'MEDIA_UPLOAD', 'COMMENT_CREATE', 'REACTION_CREATE', 'REACTION_CREATE', 'MEDIA_DELETE',
          'ALBUM_ACTION'])[1 + floor(8 * random())::int],
        (array['session', 'media', 'comment'])[1 + floor(3 * random())::int], gen_random_uuid()::text,
        case when random() < 0.01 then 'denied' else 'success' end, 'req_' || md5(n::text), '{}',
        decode(repeat(md5(n::text), 5), 'hex'), 2026,
        ($2::date)::timestamp at time zone 'UTC' + n * interval '24 hours' / ($1 + 1)
      from generate_series(1, $1::int) n`,
      [Math.max(1, Math.round((entries * (weights[n] ?? 1)) / all)), day(ago)],
    )
    if (ago % EVERY === 0) {
      await admin.query(
        `insert into audit_log (id, org_id, actor_id, action, resource_type, resource_id, result, details, address_index, occurred_at)
        select gen_random_uuid(), $1, $2, case when n % 3 = 0 then 'MEDIA_DELETE' else 'LOGIN' end,
          case when n % 3 = 0 then 'media' else 'session' end, case when n = 3 then $3 else gen_random_uuid()::text end,
          case when n = 5 then 'denied' else 'success' end, '{}', $4, ($5::date)::timestamp at time zone 'UTC' + n * interval '2 hours'
        from generate_series(1, ${OF_PERSON}) n`,
        [orgId, ME, THING, address, day(ago)],
      )
    }
    const table = `audit_log_${day(ago).replaceAll('-', '')}`
    await admin.query(`insert into audit_actor_days select distinct actor_id, $1::date from ${table}`, [day(ago)])
  }
  for (const { text } of indexes) await admin.query(text.replace(' ON ONLY ', ' ON '))
  await admin.query(`update audit_cursor set upto = pg_current_xact_id(), serial = (select max(serial) from audit_log)`)
  await admin.query('vacuum analyze')
}

/** What the API looks for; in all months, since the key of each month makes another. */
async function addressIndex({ db }: World['database']): Promise<Buffer> {
  const personalData = testPersonalData(db)
  const box = await personalData.encrypt({ entryId: newUuid(), personId: ME }, { ipAddress: ADDRESS })
  const [index] = await personalData.addressIndexes(ADDRESS, [monthOf(new Date())])
  if (!box || !index) throw new Error('there is no index of addresses')
  return index
}

async function costOf(side: Side, json: object): Promise<{ took: number; found: number; used: number }> {
  const before = await cpuOf(side)
  const asked = await timeOf(side, json)
  return { ...asked, used: ((await cpuOf(side)) - before) / REQUESTS }
}

async function timeOf({ client, token }: Side, json: object): Promise<{ took: number; found: number }> {
  const started = performance.now()
  let found = 0
  for (let n = 0; n < REQUESTS; n++) {
    const { statusCode, body } = await client.request({
      method: 'POST',
      path: '/v1/admin/audit/query',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(json),
    })
    const answer = (await body.json()) as { data?: { logs: unknown[] } }
    if (statusCode !== 200) throw new Error(`answered ${statusCode}: ${JSON.stringify(answer)}`)
    found = answer.data?.logs.length ?? 0
  }
  return { took: (performance.now() - started) / REQUESTS, found }
}

interface Node {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  'Rows Removed by Filter'?: number
  'Actual Loops': number
  'Shared Hit Blocks': number
  'Shared Read Blocks': number
  Plans?: Node[]
}
function nodesOf(node: Node): Node[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)]
}

/** How Postgres reads the log for a week of the person, of an organization and of everybody. */
async function explained({ database: { db }, orgId }: World): Promise<string> {
  const range = { from: day(67), to: day(61) }
  const asked: [string, HotWanted['filter']][] = [
    ['the person', { actorId: ME, includeUnsealed: false }],
    ['the person, one action', { actorId: ME, actions: ['MEDIA_DELETE'], includeUnsealed: false }],
    ['the person, the organization', { actorId: ME, orgId, includeUnsealed: false }],
    ['the organization', { orgId, includeUnsealed: false }],
    ['no filter', { includeUnsealed: false }],
  ]
  const lines: string[] = []
  for (const [name, filter] of asked) {
    const seal = await db.read({ audit: true }, findSeal)
    const wanted: HotWanted = { ...range, filter, seal, addresses: [], after: undefined, limit: 51, scan: 20_000 }
    const works: [string, (tx: Tx) => Promise<unknown>][] = [
      ['page', (tx) => listHot(tx, wanted)],
      ...(name === 'no filter'
        ? []
        : [
            ['count', (tx: Tx) => countHot(tx, { ...wanted, most: 10_000, ms: 10_000 })] as [
              string,
              (tx: Tx) => Promise<unknown>,
            ],
          ]),
    ]
    for (const [what, work] of works) {
      const plan = await planOf(db, work)
      const nodes = nodesOf(plan)
      const reads = nodes.filter((node) => node['Relation Name']?.startsWith('audit_log'))
      const kinds = [
        ...new Set(
          reads.map((node) =>
            `${node['Node Type']} ${(node['Index Name'] ?? '').replace(/^audit_log_\d+_|_idx\d*$/g, '')}`.trim(),
          ),
        ),
      ]
      const removed = nodes.reduce((sum, node) => sum + (node['Rows Removed by Filter'] ?? 0) * node['Actual Loops'], 0)
      lines.push(
        `| ${name}: ${what} | ${reads.length} of ${DAYS + 15} | ${kinds.join(', ')} | ${plan['Shared Hit Blocks'] + plan['Shared Read Blocks']} | ${removed} |`,
      )
    }
  }
  return `| seven days of | partitions in the plan | read by | buffers | rows read and left out |\n|---|---|---|---|---|\n${lines.join('\n')}\n`
}

/** Of the last statement on the log that `work` sends. */
async function planOf(db: World['database']['db'], work: (tx: Tx) => Promise<unknown>): Promise<Node> {
  let plan: Node | undefined
  await db.read({ audit: true }, async (tx) => {
    const explaining = Object.create(tx, {
      execute: {
        value: async (query: Parameters<typeof tx.execute>[0]) => {
          const { rows } = await tx.execute<{ 'QUERY PLAN': { Plan: Node }[] }>(
            sql`explain (analyze, buffers, format json) ${query as never}`,
          )
          plan = rows[0]?.['QUERY PLAN'][0]?.Plan ?? plan
          return { rows: [] }
        },
      },
    }) as Tx
    await work(explaining)
  })
  if (!plan) throw new Error('nothing was explained')
  return plan
}

/** Queries that name no person, in the large database: the first page of each, and how long it took at most. */
async function others(side: Side): Promise<string> {
  const asked: [string, object][] = [
    ['nothing', { limit: 50 }],
    ['the organization of the person', { limit: 50, org_id: side.world.org }],
    [
      'the largest organization',
      { limit: 50, org_id: formatId('organization', '00000000-0000-4000-9000-000000000000') },
    ],
    ['what was denied', { limit: 50, result: 'denied' }],
    ['one day', { limit: 50, from: `${day(40)}T00:00:00Z`, to: `${day(39)}T00:00:00Z` }],
    ['one resource, which 29 entries name', { limit: 50, resource_id: THING }],
    ['one address', { limit: 50, ip_address: ADDRESS }],
  ]
  const lines: string[] = []
  for (const [name, json] of asked) {
    await sleep(200)
    const { took, found } = await timeOf(side, json)
    lines.push(`| ${name} | ${found} | ${took.toFixed(0)} |`)
  }
  return `| filter without a person | found on the first page | ms |\n|---|---|---|\n${lines.join('\n')}\n`
}
