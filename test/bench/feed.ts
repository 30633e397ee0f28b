import { drizzle } from '../../api/db/orm.ts'
import * as schema from '../../api/db/schema/index.ts'
import { itemsScanned } from '../../api/features/timeline/pages.ts'
import { scanItems } from '../../api/features/timeline/queries.ts'
import { newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { startChild } from './children.ts'
import { type Cost, costsOf, type Side, shapesOf } from './rounds.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * A page of the feed of members of 1 and of 50 organizations with 1,000 items and with `BENCH_ROWS` (1,000,000) items
 * altogether, a poll that is answered 304, and the same query by Express and pg alone. Rounds alternate; medians of
 * `BENCH_ROUNDS` (9) are compared: the large feed with the small one of as many organizations, and the page with the bare
 * handler.
 */
const ROWS = Number(process.env['BENCH_ROWS'] ?? 1_000_000)
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 9)
const REQUESTS = 100
const SMALL = 1000
const LIMIT = 20
const TARGET = 1.3
const TARGET_BARE = 0.6

console.log(await inWorld(measure))

interface Reader {
  name: string
  userId: Uuid
  token: string
}

async function measure(world: World): Promise<string> {
  const readers = [
    await reader(world, 1, SMALL),
    await reader(world, 1, ROWS),
    await reader(world, 50, SMALL),
    await reader(world, 50, ROWS),
  ]
  await world.database.admin.query('vacuum analyze')
  const large = readers[3] as Reader
  const query = await queryOfAPage(world, large.userId)
  const env = { BARE_SQL: query.sql, BARE_PARAMS: JSON.stringify(query.params), BARE_USER: large.userId }
  const bare = await startChild('bare-feed-child.ts', world.folder, { DATABASE_URL: world.database.url, ...env })
  try {
    const path = `/v1/api/users/me/feed?limit=${LIMIT}`
    const headersOf = ({ token }: Reader) => ({ authorization: `Bearer ${token}` })
    const tag = await tagOf(world.api.url + path, headersOf(large))
    const side = (headers: Record<string, string>): Side => ({
      child: world.api,
      next: () => ({ method: 'GET', path, headers }),
    })
    const sides = [
      ...readers.map((one) => side(headersOf(one))),
      side({ ...headersOf(large), 'if-none-match': tag }),
      { child: bare, next: () => ({ method: 'GET' as const, path: '/feed' }) },
    ]
    const names = [...readers.map(({ name }) => name), '304 of the last', 'bare handler of the last']
    const tables: string[] = []
    for (const shape of shapesOf(REQUESTS)) {
      const costs = await costsOf(sides, shape, ROUNDS)
      tables.push(`${shape.name}\n${tableOf(names, costs)}`)
    }
    return tables.join('\n\n')
  } finally {
    await bare.stop()
  }
}

function tableOf(names: readonly string[], costs: readonly Cost[][]): string {
  const walls = costs.map((of) => median(of.map(({ wall }) => wall)))
  const rows = walls.map((wall, n) => `${(names[n] ?? '').padEnd(40)} ${wall.toFixed(2)} ms`)
  const [one = 0, oneLarge = 0, fifty = 0, fiftyLarge = 0, , bare = 0] = walls
  return [
    ...rows,
    `1 organization: ${(oneLarge / one).toFixed(2)} x, 50: ${(fiftyLarge / fifty).toFixed(2)} x (target ${TARGET})`,
    `page against the bare handler: ${(bare / fiftyLarge).toFixed(2)} of its throughput (target ${TARGET_BARE})`,
  ].join('\n')
}

/** A member of so many new organizations with so many items altogether: of events, and every tenth of uploads. */
async function reader({ database: { admin }, identity }: World, organizations: number, items: number): Promise<Reader> {
  const userId = newUuid()
  await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [userId, identity.issuer, userId])
  const orgs = Array.from({ length: organizations }, () => newUuid())
  await admin.query(`insert into organizations (id, name) select unnest($1::uuid[]), 'Bench'`, [orgs])
  await admin.query(`insert into memberships (org_id, user_id, role) select unnest($1::uuid[]), $2, 'member'`, [
    orgs,
    userId,
  ])
  await admin.query(
    `insert into events (id, org_id, owner_id, title, start_at, status)
      select gen_random_uuid(), org, $2, 'Party', now(), 'active' from unnest($1::uuid[]) org, generate_series(1, 10)`,
    [orgs, userId],
  )
  await admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
      conversion_state, created_at)
      select gen_random_uuid(), org, $2, 'a', 'image/jpeg', 'image', 1, 'completed', 'succeeded',
        timeline_bucket(now()) - (n % 50) * interval '6 hours' + n * interval '1 second'
      from unnest($1::uuid[]) org, generate_series(1, 200) n`,
    [orgs, userId],
  )
  await admin.query(
    `insert into timeline_items (id, org_id, type, actor_id, ref_type, ref_id, at, bucket, event_id)
      select gen_random_uuid(), org, case when is_burst then 'media_uploaded' else 'event_created' end, $2,
        case when is_burst then 'media' else 'event' end, event, now() - (n * $4::int + o) * interval '11 seconds',
        case when is_burst then timeline_bucket(now()) - (n % 50) * interval '6 hours' end,
        case when not is_burst then event end
      from unnest($1::uuid[]) with ordinality orgs (org, o)
        cross join generate_series(1, $3::int) n
        cross join lateral (select (n + o) % 10 = 0 as is_burst) kind
        cross join lateral (select id as event from events where org_id = org order by id limit 1) events`,
    [orgs, userId, items / organizations, organizations],
  )
  await admin.query('insert into feed_versions (org_id) select unnest($1::uuid[])', [orgs])
  const name = `${items.toLocaleString('en')} items in ${organizations} organizations`
  return { name, userId, token: await identity.token({ sub: userId, roles: ['ROLE_USER'] }) }
}

/** The very text that the API sends for the first page. */
async function queryOfAPage({ database }: World, userId: Uuid): Promise<{ sql: string; params: unknown[] }> {
  const seen: { sql: string; params: unknown[] }[] = []
  const logger = { logQuery: (sql: string, params: unknown[]) => void seen.push({ sql, params }) }
  const tx = drizzle(database.admin, { schema, casing: 'snake_case', logger })
  const asked = { source: { of: 'feed' }, callerId: userId, after: undefined, from: undefined, to: undefined } as const
  await scanItems(tx, { ...asked, limit: itemsScanned(LIMIT, 0) })
  const [query] = seen
  if (seen.length !== 1 || !query) throw new Error('a page is not one query')
  return query
}

async function tagOf(url: string, headers: Record<string, string>): Promise<string> {
  const answer = await fetch(url, { headers })
  const { data } = (await answer.json()) as { data: { items: unknown[] } }
  if (data.items.length !== LIMIT) throw new Error(`a page has ${data.items.length} items`)
  return answer.headers.get('etag') ?? ''
}
