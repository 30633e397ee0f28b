import { formatId, newUuid } from '../../lib/contract/ids.ts'
import { type Cost, costsOf } from './rounds.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * What `can` adds to an answer: the API beside the same program with empty lists (`without-can-child.ts`), each on a
 * database with 5,000 media items and comments. Rounds alternate; medians of `BENCH_ROUNDS` (15) are compared.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15)
const ROWS = 5000
const REQUESTS = 40
/** Of the CPU of the API, for each request. */
const TARGET = 1.2

interface Side {
  world: World
  event: string
}
const ASKED: { name: string; path(side: Side): string }[] = [
  { name: '20 media items', path: ({ world }) => `/v1/api/media/${world.org}?limit=20` },
  { name: '100 media items', path: ({ world }) => `/v1/api/media/${world.org}?limit=100` },
  {
    name: '20 comments',
    path: ({ world, event }) => `/v1/api/orgs/${world.org}/events/${event}/meta/${event}/comments?limit=20`,
  },
  { name: 'one event', path: ({ world, event }) => `/v1/api/orgs/${world.org}/events/${event}` },
]

console.log(await inWorld((without) => inWorld((full) => measure(without, full)), { program: 'without-can-child.ts' }))

async function measure(...worlds: [World, World]): Promise<string> {
  const sides = [await fill(worlds[0]), await fill(worlds[1])]
  const lines: string[] = []
  for (const { name, path } of ASKED) {
    const asking = sides.map((side) => ({
      child: side.world.api,
      next: () => ({ method: 'GET' as const, path: path(side), headers: authorized(side) }),
    }))
    const sizes = await Promise.all(sides.map((side) => sizeOf(side, path(side))))
    const costs = await costsOf(asking, { name, connections: 1, requests: REQUESTS }, ROUNDS)
    lines.push(row(name, costs, sizes))
  }
  return [
    `Medians of ${ROUNDS} alternating rounds of ${REQUESTS} requests, milliseconds per request; without → with \`can\``,
    '',
    '| answer | wall | CPU | ratio of CPU | bytes |',
    '|---|---|---|---|---|',
    ...lines,
  ].join('\n')
}

function authorized({ world }: Side): { authorization: string } {
  return { authorization: `Bearer ${world.token}` }
}

async function sizeOf(side: Side, path: string): Promise<number> {
  const answer = await fetch(`${side.world.api.url}${path}`, { headers: authorized(side) })
  const text = await answer.text()
  if (!answer.ok || text.includes('"can":[]') === text.includes('"can":["')) throw new Error(`${path}: ${text}`)
  return text.length
}

async function fill(world: World): Promise<Side> {
  const { database, orgId, userId } = world
  const event = newUuid()
  const given = [event, orgId, userId]
  await database.admin.query(
    `insert into events (id, org_id, owner_id, title, start_at, status) values ($1, $2, $3, 'Reunion', now(), 'active')`,
    given,
  )
  await database.admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
        conversion_state, output_prefix, webp_file, thumb_file, created_at)
      select id, org, $2, 'IMG_' || n, 'image/jpeg', 'image', 4000000, 'completed', 'succeeded',
        'org/' || org || '/media/' || id || '/v1/', 'image.webp', 'thumb.webp', now() - make_interval(secs => n)
      from (select n, gen_random_uuid() as id, $1::uuid as org from generate_series(1, $3::int) n) rows`,
    [orgId, userId, ROWS],
  )
  await database.admin.query(
    `insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body, created_at)
      select gen_random_uuid(), $2, $1, 'meta', $1, 'event', $3, 'Comment ' || n, now() - make_interval(secs => n)
      from generate_series(1, $4::int) n`,
    [...given, ROWS],
  )
  await database.admin.query('vacuum analyze')
  return { world, event: formatId('event', event) }
}

function row(name: string, [without = [], full = []]: Cost[][], [before = 0, after = 0]: number[]): string {
  const of = (costs: readonly Cost[], what: keyof Cost) => median(costs.map((cost) => cost[what]))
  const [walls, cpus] = (['wall', 'cpu'] as const).map((what) => [of(without, what), of(full, what)])
  const [least = 0, most = 0] = cpus ?? []
  const ratio = most / least
  if (ratio > TARGET) process.exitCode = 1
  const verdict = `${ratio.toFixed(2)}, ${ratio <= TARGET ? 'met' : 'MISSED'}`
  const change = (pair: number[] = []) => pair.map((ms) => ms.toFixed(2)).join(' → ')
  return `| ${name} | ${change(walls)} | ${change(cpus)} | ${verdict} | ${before} → ${after} |`
}
