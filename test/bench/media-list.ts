import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { drizzle } from '../../api/db/orm.ts'
import * as schema from '../../api/db/schema/index.ts'
import { listMedia } from '../../api/features/media/queries.ts'
import { type Child, startChild } from './children.ts'
import { fillMedia, ROWS } from './many-media.ts'
import { type Cost, costsOf, type Side as Measured, shapesOf } from './rounds.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * What a page of media costs beside the least that Express and pg could do for it: the same query, its rows as JSON, no
 * sign-in, no membership, no links, no log; once as a superuser, once under row-level security as the API. Rounds of the two alternate, so that whatever else the machine does meets
 * both; medians of the rounds are compared. `BENCH_ROUNDS` (15) changes how many.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15)
const LIMIT = 20
const TARGET = 1.7
const BASELINES = ['the query alone, as superuser', 'the query in the scope of the organization']
const REQUESTS = 300

interface Side {
  child: Child
  path: string
  headers: Record<string, string>
}

console.log(await inWorld(measure))

async function measure(world: World): Promise<string> {
  await fillMedia(world, ROWS)
  const { sql, params } = await queryOfAPage(world)
  const env = {
    DATABASE_URL: world.database.url,
    BARE_SQL: sql,
    BARE_ORG_FIRST: String(params[0] === world.orgId),
  }
  const bare = await startChild('bare-child.ts', world.folder, env)
  const scopedFolder = join(world.folder, 'scoped')
  await mkdir(scopedFolder)
  const scoped = await startChild('bare-child.ts', scopedFolder, { ...env, BARE_SCOPED: 'true' })
  try {
    const sideOf = (child: Child, org: string, headers = {}): Side => ({
      child,
      path: `/v1/api/media/${org}?limit=${LIMIT}`,
      headers,
    })
    const ours = sideOf(world.api, world.org, { authorization: `Bearer ${world.token}` })
    const theirs = [sideOf(bare, world.orgId), sideOf(scoped, world.orgId)]
    for (const side of theirs) await requireSameRows(ours, side)
    return await compare([ours, ...theirs])
  } finally {
    await Promise.all([bare.stop(), scoped.stop()])
  }
}

/** The very text that the API sends for the first page. */
async function queryOfAPage({ database, orgId }: World): Promise<{ sql: string; params: unknown[] }> {
  const seen: { sql: string; params: unknown[] }[] = []
  const logger = { logQuery: (sql: string, params: unknown[]) => void seen.push({ sql, params }) }
  const tx = drizzle(database.admin, { schema, casing: 'snake_case', logger })
  await listMedia(tx, { orgId, sort: 'created_at', mimeType: undefined, after: undefined, limit: LIMIT })
  const [query] = seen
  if (seen.length !== 1 || query?.params.length !== 2) throw new Error('a page is not one query of two parameters')
  return query
}

async function requireSameRows(ours: Side, theirs: Side): Promise<void> {
  const read = async ({ child, path, headers }: Side) => (await fetch(child.url + path, { headers })).json()
  const page = (await read(ours)) as { data: { media: { original_filename: string }[] } }
  const rows = (await read(theirs)) as { original_filename: string }[]
  const [a, b] = [page.data.media, rows.slice(0, LIMIT)].map((list) => list.map((m) => m.original_filename).join())
  if (a !== b || page.data.media.length !== LIMIT) throw new Error('the two sides do not show the same media')
}

async function compare(sides: Side[]): Promise<string> {
  const lines: string[] = []
  const measured = sides.map(
    ({ child, path, headers }): Measured => ({ child, next: () => ({ method: 'GET', path, headers }) }),
  )
  for (const shape of shapesOf(REQUESTS)) {
    const [ours = [], ...theirs] = await costsOf(measured, shape, ROUNDS)
    for (const [i, bare] of theirs.entries()) lines.push(row(`${shape.name} | ${BASELINES[i]}`, ours, bare))
  }
  return [
    `Pages of ${LIMIT} of ${ROWS} media, medians of ${ROUNDS} alternating rounds, milliseconds per request`,
    '',
    '| requests | beside | wall, API | wall, bare | ratio | target | server CPU, API | server CPU, bare | ratio |',
    '|---|---|---|---|---|---|---|---|---|',
    ...lines,
  ].join('\n')
}

function row(name: string, ours: Cost[], theirs: Cost[]): string {
  const of = (costs: Cost[], what: keyof Cost) => median(costs.map((c) => c[what]))
  const [wall, bareWall, cpu, bareCpu] = [of(ours, 'wall'), of(theirs, 'wall'), of(ours, 'cpu'), of(theirs, 'cpu')]
  const ratio = wall / bareWall
  const verdict = `≤ ${TARGET}: ${ratio <= TARGET ? 'met' : 'MISSED'}`
  const shown = [wall, bareWall, ratio].map((n) => n.toFixed(2)).join(' | ')
  return `| ${name} | ${shown} | ${verdict} | ${cpu.toFixed(2)} | ${bareCpu.toFixed(2)} | ${(cpu / bareCpu).toFixed(2)} |`
}
