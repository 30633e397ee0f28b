import { Client } from 'undici'
import { STEP } from '../../api/features/albums/plan.ts'
import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import type { Cost } from './rounds.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * What an album of 5,000 media items costs, in a table that has `BENCH_ROWS` (200,000) more: a page at its end beside
 * one at its start, and the changes, each with the smallest album that has the same. Rounds of all alternate, so that
 * whatever else the machine does meets each of them; medians of `BENCH_ROUNDS` (9) are compared.
 */
const ROWS = Number(process.env['BENCH_ROWS'] ?? 200_000)
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 9)
const ITEMS = 5000
const LIMIT = 20
const REQUESTS = 30
const TARGET = 1.3
/** Of the CPU of a page of 500, which reads and writes a tenth of the media items, each with its links. */
const TARGET_ORDER = 2

const MEDIA = `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes,
    upload_status, conversion_state, output_prefix, webp_file, thumb_file, created_at)
  select id, org, $2, 'IMG_' || n || '.JPG', 'image/jpeg', 'image', 4000000 + n, 'completed', 'succeeded',
    'org/' || org || '/media/' || id || '/v1/', 'image.webp', 'thumb.webp', now() - make_interval(secs => n)
  from (select n, gen_random_uuid() as id, $1::uuid as org from generate_series(1, $3::int) n) rows`

console.log(await inWorld(measure))

interface Asked {
  name: string
  run(): Promise<void>
}

async function measure(world: World): Promise<string> {
  const client = new Client(world.api.url)
  const [large, sorted, small] = [await fill(world, ITEMS), await fill(world, ITEMS), await fill(world, LIMIT)]
  await others(world)
  try {
    const path = (album: string) => `/v1/api/orgs/${world.org}/albums/${album}/media`
    const ask = async (method: 'GET' | 'POST' | 'PATCH', url: string, json?: object) => {
      const headers = { authorization: `Bearer ${world.token}`, ...(json && { 'content-type': 'application/json' }) }
      const body = json && JSON.stringify(json)
      const answer = await client.request({ method, path: url, headers, ...(body && { body }) })
      const text = await answer.body.text()
      if (answer.statusCode >= 300) throw new Error(`${url}: ${answer.statusCode} ${text}`)
      return JSON.parse(text).data
    }
    const idsOf = async (album: string) => {
      const ids: string[] = []
      for (let cursor = ''; ; ) {
        const { media, next_cursor } = await ask('GET', `${path(album)}?${cursor && `cursor=${cursor}`}`)
        ids.push(...media.map((one: { media_id: string }) => one.media_id))
        if (next_cursor === null) return ids
        cursor = next_cursor
      }
    }
    const end = await cursorAt(ask, path(large), ITEMS - LIMIT)
    const page = (query: string, count: number) => async () => {
      const { media } = await ask('GET', `${path(large)}?${query}`)
      if (media.length !== count) throw new Error(`${query}: ${media.length} items`)
    }
    const orders = new Map([
      [large, await idsOf(large)],
      [sorted, await idsOf(sorted)],
      [small, await idsOf(small)],
    ])
    const reorder = (album: string, from: number, to: number) => async () => {
      const ids = orders.get(album) ?? []
      ids.splice(to, 0, ...ids.splice(from, 1))
      await ask('POST', `${path(album)}/reorder`, { media_ids: ids })
    }
    const caption = (album: string) => async () => {
      const [first] = orders.get(album) ?? []
      await ask('PATCH', `${path(album)}/${first}`, { caption: newUuid() })
    }
    const pages = [
      { name: `page of ${LIMIT}, the first`, run: page(`limit=${LIMIT}`, LIMIT) },
      { name: `page of ${LIMIT}, at item ${ITEMS - LIMIT}`, run: page(`limit=${LIMIT}&cursor=${end}`, LIMIT) },
    ]
    const rest = [
      { name: `page of 500, the first`, run: page('', 500) },
      { name: `page of ${LIMIT} of an album of ${LIMIT}`, run: async () => void (await ask('GET', path(small))) },
      { name: `caption in an album of ${LIMIT}`, run: caption(small) },
      { name: `caption in an album of ${ITEMS}`, run: caption(large) },
      { name: `order of ${LIMIT}, one moved from the end to the start`, run: reorder(small, LIMIT - 1, 0) },
      { name: `order of ${ITEMS}, two neighbours exchanged`, run: reorder(sorted, 0, 1) },
      { name: `order of ${ITEMS}, one moved from the end to the start`, run: reorder(sorted, ITEMS - 1, 0) },
    ]
    return table(await costsOf([...pages, ...rest], world))
  } finally {
    await client.close()
  }
}

/** A cursor behind so many items, by pages of 500 and then smaller ones. */
async function cursorAt(
  ask: (method: 'GET', url: string) => Promise<{ next_cursor: string }>,
  path: string,
  items: number,
): Promise<string> {
  let cursor = ''
  for (let seen = 0; seen < items; ) {
    const limit = Math.min(500, items - seen)
    cursor = (await ask('GET', `${path}?limit=${limit}${cursor && `&cursor=${cursor}`}`)).next_cursor
    seen += limit
  }
  return cursor
}

async function fill({ database: { admin }, orgId, userId }: World, items: number): Promise<string> {
  const id: Uuid = newUuid()
  await admin.query(
    `insert into albums (id, org_id, owner_id, title, next_position) values ($1, $2, $3, 'Bench', $4)`,
    [id, orgId, userId, items],
  )
  await admin.query(
    `with made as (${MEDIA} returning id), placed as (select id, row_number() over (order by random()) as n from made)
      insert into album_media (album_id, media_id, org_id, position, listed, added_by)
        select $4, id, $1, n * ${STEP}, true, $2 from placed`,
    [orgId, userId, items, id],
  )
  return formatId('album', id)
}

/** More media of the same organization, half of them in other albums. */
async function others({ database: { admin }, orgId, userId }: World): Promise<void> {
  await admin.query(MEDIA, [orgId, userId, ROWS])
  await admin.query(
    `with chosen as (select id, row_number() over () as n from media where org_id = $1 limit $3),
      made as (
        insert into albums (id, org_id, owner_id, title)
          select gen_random_uuid(), $1, $2, n::text from generate_series(1, $3::int / 200) n returning id
      ), numbered as (select id, row_number() over () - 1 as n from made)
      insert into album_media (album_id, media_id, org_id, position, listed, added_by)
        select numbered.id, chosen.id, $1, chosen.n, true, $2 from chosen join numbered on numbered.n = chosen.n / 201`,
    [orgId, userId, Math.floor(ROWS / 2)],
  )
  await admin.query('vacuum analyze')
}

type Row = Cost & { name: string }

async function costsOf(asked: readonly Asked[], world: World): Promise<Row[]> {
  const cells = asked.map((one) => ({ ...one, costs: [] as Cost[] }))
  for (const cell of cells) await costOf(cell, world)
  for (let round = 0; round < ROUNDS; round++) {
    for (const cell of round % 2 ? cells.toReversed() : cells) cell.costs.push(await costOf(cell, world))
  }
  const of = (costs: readonly Cost[], what: keyof Cost) => median(costs.map((cost) => cost[what]))
  return cells.map(({ name, costs }) => ({ name, wall: of(costs, 'wall'), cpu: of(costs, 'cpu') }))
}

/** Milliseconds per request; the CPU is that of the API. */
async function costOf({ run }: Asked, { api }: World): Promise<Cost> {
  const [before, started] = [await api.usage(), performance.now()]
  for (let n = 0; n < REQUESTS; n++) await run()
  const wall = performance.now() - started
  return { wall: wall / REQUESTS, cpu: (((await api.usage()).cpu - before.cpu) * 1000) / REQUESTS }
}

function table(rows: readonly Row[]): string {
  const [first, last] = rows
  const ratio = (last?.wall ?? 0) / (first?.wall ?? 1)
  const cpuOf = (name: string) => rows.find((row) => row.name.startsWith(name))?.cpu ?? Number.NaN
  const reorder = cpuOf(`order of ${ITEMS}, one`) / cpuOf('page of 500')
  if (ratio > TARGET || reorder > TARGET_ORDER) process.exitCode = 1
  return [
    `An album of ${ITEMS} media items among ${ROWS.toLocaleString('en')} others, medians of ${ROUNDS} alternating rounds`,
    `of ${REQUESTS} requests, milliseconds per request. The page at the end costs ${ratio.toFixed(2)} times the first:`,
    `${ratio <= TARGET ? 'met' : 'MISSED'}, target at most ${TARGET}. An order of all costs ${reorder.toFixed(2)} times the CPU`,
    `of a page of 500: ${reorder <= TARGET_ORDER ? 'met' : 'MISSED'}, target at most ${TARGET_ORDER}.`,
    '',
    '| request | ms | CPU, ms |',
    '|---|---|---|',
    ...rows.map(({ name, wall, cpu }) => `| ${name} | ${wall.toFixed(2)} | ${cpu.toFixed(2)} |`),
  ].join('\n')
}
