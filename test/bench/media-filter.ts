import { Client } from 'undici'
import { inWorld, median, type World } from './world.ts'

/**
 * What a page of a filter that matches little costs beside the page of everything, in an organization of a million media.
 * Rounds of all pages alternate, so that whatever else the machine does meets each of them; medians are compared. Then
 * the indexes of the filters are dropped, and the same pages are asked for again in fewer rounds. `BENCH_ROWS`
 * (1,000,000) and `BENCH_ROUNDS` (15) change the size.
 */
const ROWS = Number(process.env['BENCH_ROWS'] ?? 1_000_000)
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15)
const ROUNDS_WITHOUT = 3
const REQUESTS = 40
const TARGET = 1.5
const IMAGES = 40

const ALL = { name: 'everything', query: '' }
const FILTERED = [
  { name: `\`image/heic\`: the ${IMAGES} oldest`, query: '&mime_type=image/heic' },
  { name: `\`image/*\`: the same ${IMAGES}`, query: '&mime_type=image/*' },
  { name: '`image/avif`: none', query: '&mime_type=image/avif' },
  { name: '`audio/*`: none', query: '&mime_type=audio/*' },
]
const PAGES = [ALL, ...FILTERED]

console.log(await inWorld(measure))

async function measure(world: World): Promise<string> {
  await fill(world)
  const client = new Client(world.api.url)
  try {
    const wanted = [20, 20, 20, 0, 0]
    for (const [i, { query }] of PAGES.entries()) await requireRows(client, world, query, wanted[i] ?? 0)
    const as = await timesOf(client, world, ROUNDS, REQUESTS)
    await world.database.admin.query('drop index media_of_type, media_of_kind')
    const without = await timesOf(client, world, ROUNDS_WITHOUT, 1)
    return table(as, without)
  } finally {
    await client.close()
  }
}

/** Videos, and before all of them some images. */
async function fill({ database, orgId, userId }: World): Promise<void> {
  await database.admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, created_at)
      select gen_random_uuid(), $1, $2, 'IMG_' || n,
        case when n > $3::int - $4::int then 'image/heic' else 'video/mp4' end,
        case when n > $3::int - $4::int then 'image' else 'video' end,
        40000000 + n, now() - make_interval(secs => n)
      from generate_series(1, $3::int) n`,
    [orgId, userId, ROWS, IMAGES],
  )
  await database.admin.query('vacuum analyze media')
}

async function ask(client: Client, { org, token }: World, query: string) {
  const path = `/v1/api/media/${org}?limit=20${query}`
  const { statusCode, body } = await client.request({
    method: 'GET',
    path,
    headers: { authorization: `Bearer ${token}` },
  })
  if (statusCode !== 200) throw new Error(`${path} answered ${statusCode}`)
  return body
}

async function requireRows(client: Client, world: World, query: string, rows: number): Promise<void> {
  const { data } = (await (await ask(client, world, query)).json()) as { data: { media: unknown[] } }
  if (data.media.length !== rows) throw new Error(`a page of ${query || 'everything'} has ${data.media.length} rows`)
}

/** Milliseconds per request of each page: the median of the rounds. */
async function timesOf(client: Client, world: World, rounds: number, requests: number): Promise<number[]> {
  const times: number[][] = PAGES.map(() => [])
  // The first round only warms up.
  for (let round = 0; round <= rounds; round++) {
    const order = [...PAGES.keys()]
    for (const i of round % 2 ? order.reverse() : order) {
      const started = performance.now()
      for (let n = 0; n < requests; n++) await (await ask(client, world, PAGES[i]?.query ?? '')).dump()
      if (round > 0) times[i]?.push((performance.now() - started) / requests)
    }
  }
  return times.map(median)
}

function table([all = 0, ...filtered]: number[], [allWithout = 0, ...filteredWithout]: number[]): string {
  const lines = FILTERED.map(({ name }, i) => {
    const [time = 0, timeWithout = 0] = [filtered[i], filteredWithout[i]]
    const ratio = time / all
    const verdict = `${ratio.toFixed(2)}, ${ratio <= TARGET ? 'met' : 'MISSED'}`
    return `| ${name} | ${time.toFixed(2)} | ${verdict} | ${timeWithout.toFixed(1)} | ${(timeWithout / allWithout).toFixed(0)} |`
  })
  return [
    `Pages of 20 of ${ROWS.toLocaleString('en')} media, medians of ${ROUNDS} alternating rounds, milliseconds per request;`,
    `target: at most ${TARGET} times the page of everything (${all.toFixed(2)} ms, without the indexes ${allWithout.toFixed(1)} ms)`,
    '',
    '| filter | wall | ratio | without the indexes, wall | ratio |',
    '|---|---|---|---|---|',
    ...lines,
  ].join('\n')
}
