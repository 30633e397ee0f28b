import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { startChild } from './children.ts'
import { type Cost, costsOf, type Side, shapesOf } from './rounds.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * The creation of highlights of 30 media items, beside the least that Express and pg could do with the same writes.
 * Rounds of the two alternate; medians are compared. `BENCH_ROUNDS` (7) changes how many.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 7)
const REQUESTS = 20
const ITEMS = 30
const MEDIA = 3000
const TARGET = 3

console.log(await inWorld(measure))

async function measure(world: World): Promise<string> {
  const media = await fill(world)
  const env = { DATABASE_URL: world.database.url, BARE_USER: world.userId }
  const bare = await startChild('bare-highlights-child.ts', world.folder, env)
  try {
    const { orgId, org, token } = world
    const ours = sideOf(
      world.api,
      media,
      { path: `/v1/api/media/${org}/highlights`, idOf: (id) => formatId('media', id) },
      token,
    )
    const theirs = sideOf(bare, media, { path: `/${orgId}`, idOf: (id) => id })
    const rows: string[] = []
    for (const shape of shapesOf(REQUESTS)) {
      rows.push(rowOf(shape.name, await costsOf([ours, theirs], shape, ROUNDS)))
    }
    await isWritten(world)
    return tableOf(rows)
  } finally {
    await bare.stop()
  }
}

async function fill({ database: { admin }, orgId, userId }: World): Promise<Uuid[]> {
  const ids = Array.from({ length: MEDIA }, () => newUuid())
  await admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
      conversion_state) select id, $2, $3, 'a', 'image/jpeg', 'image', 1, 'completed', 'succeeded' from unnest($1::uuid[]) id`,
    [ids, orgId, userId],
  )
  await admin.query('vacuum analyze media')
  return ids
}

interface Operation {
  path: string
  idOf(id: Uuid): string
}

/** Every request chooses other media items. */
function sideOf(child: Side['child'], media: readonly Uuid[], { path, idOf }: Operation, token?: string): Side {
  const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) }
  let next = 0
  return {
    child,
    next() {
      const from = (next++ * ITEMS) % (media.length - ITEMS)
      const media_ids = media.slice(from, from + ITEMS).map(idOf)
      return { method: 'POST', path, headers, body: JSON.stringify({ title: 'Summer', media_ids }) }
    },
  }
}

/** Every request of either side has made a highlight, with all that belongs to it. */
async function isWritten({ database: { admin } }: World): Promise<void> {
  const { rows } = await admin.query(`select
    (select count(*)::int from highlights) as highlights, (select count(*)::int from highlight_items) as items,
    (select count(*)::int from outbox where type = 'HighlightRequested') as events,
    (select count(*)::int from audit_log where resource_type = 'highlight') as entries`)
  const [{ highlights, items, events, entries }] = rows
  const expected = 2 * (ROUNDS + 1) * shapesOf(REQUESTS).reduce((sum, { requests }) => sum + requests, 0)
  const found = [highlights, items / ITEMS, events, entries]
  if (found.some((n) => n !== expected)) throw new Error(`written: ${found.join()} instead of ${expected} each`)
}

function rowOf(name: string, costs: Cost[][]): string {
  const medianOf = (side: number, what: keyof Cost) => median((costs[side] ?? []).map((cost) => cost[what]))
  const [wall, bareWall] = [medianOf(0, 'wall'), medianOf(1, 'wall')]
  const [cpu, bareCpu] = [medianOf(0, 'cpu'), medianOf(1, 'cpu')]
  const ratio = wall / bareWall
  const cells = [
    name,
    wall.toFixed(2),
    bareWall.toFixed(2),
    `${ratio.toFixed(2)}, ${ratio <= TARGET ? 'met' : 'MISSED'}`,
  ]
  return `| ${[...cells, cpu.toFixed(2), bareCpu.toFixed(2), (cpu / bareCpu).toFixed(2)].join(' | ')} |`
}

function tableOf(rows: readonly string[]): string {
  return [
    `Highlights of ${ITEMS} media items, milliseconds per creation, medians of ${ROUNDS} alternating rounds; target: at`,
    `most ${TARGET} times the wall time of the bare handler`,
    '',
    '| requests | wall, API | wall, bare | ratio | CPU, API | CPU, bare | ratio |',
    '|---|---|---|---|---|---|---|',
    ...rows,
  ].join('\n')
}
