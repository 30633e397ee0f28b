import { Client } from 'undici'
import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * What a page of a gallery, and its months, cost in an organization of a million media beside one of a thousand. Rounds
 * of both sizes alternate, so that whatever else the machine does meets each of them; medians are compared. The last
 * lines show what the months would cost if they were counted in the index. `BENCH_ROWS` (1,000,000) and `BENCH_ROUNDS`
 * (15) change the size.
 */
const ROWS = Number(process.env['BENCH_ROWS'] ?? 1_000_000)
const FEW = 1_000
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15)
const REQUESTS = 40
const COUNTS = 3
const TARGET = 1.3

const ASKED = [
  { name: '20 by `created_at`', path: '?limit=20' },
  { name: '20 by `captured_at`', path: '?limit=20&sort=captured_at' },
  { name: '20 images by `captured_at`', path: '?limit=20&sort=captured_at&mime_type=image/*' },
  { name: 'months', path: '/months' },
]

console.log(await inWorld(measure))

async function measure(world: World): Promise<string> {
  const small = await anotherOrganization(world)
  await fill(world, small, FEW)
  await fill(world, world.orgId, ROWS)
  await world.database.admin.query('vacuum analyze')
  const client = new Client(world.api.url)
  try {
    const times = await timesOf(client, world, [small, world.orgId])
    return table(times, await countingMonths(world))
  } finally {
    await client.close()
  }
}

async function anotherOrganization({ database: { admin }, userId }: World): Promise<Uuid> {
  const id = newUuid()
  await admin.query(`insert into organizations (id, name) values ($1, 'Small')`, [id])
  await admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'owner')`, [id, userId])
  return id
}

/** Pictures of ten years, uploaded in another order than taken; one in ten files is half of a Live Photo. */
async function fill({ database, userId }: World, orgId: Uuid, rows: number): Promise<void> {
  await database.admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
        conversion_state, output_prefix, hls_master, webp_file, thumb_file, placeholder, created_at, captured_at,
        paired_media_id)
      select id, $1::uuid, $2, 'IMG_' || n, case kind when 'video' then 'video/mp4' else 'image/heic' end, kind,
        2000000 + n, 'completed', 'succeeded', 'org/' || $1::uuid || '/media/' || id || '/v1/',
        case kind when 'video' then 'master.m3u8' end, 'image.webp', 'thumb.webp',
        'YJqGPQw7sFlslqhFafSE+Q6oJ1h2iHB2Rw==', now() - make_interval(secs => n),
        now() - make_interval(secs => (n::bigint * 7919 % 315360000)::double precision),
        case n % 20 when 1 then md5($1::uuid || '/' || n + 1)::uuid when 2 then md5($1::uuid || '/' || n - 1)::uuid end
      from (select n, md5($1::uuid || '/' || n)::uuid as id, case n % 20 when 1 then 'video' else 'image' end as kind
        from generate_series(1, $3::int) n) files`,
    [orgId, userId, rows],
  )
}

async function ask(client: Client, { token }: World, orgId: Uuid, path: string): Promise<unknown> {
  const { statusCode, body } = await client.request({
    method: 'GET',
    path: `/v1/api/media/${formatId('organization', orgId)}${path}`,
    headers: { authorization: `Bearer ${token}` },
  })
  if (statusCode !== 200) throw new Error(`${path} answered ${statusCode}`)
  return body.json()
}

/** Milliseconds per request: of each of ASKED, of each organization, the median of the rounds. */
async function timesOf(client: Client, world: World, organizations: readonly Uuid[]): Promise<number[][]> {
  const times = ASKED.map(() => organizations.map((): number[] => []))
  // The first round only warms up.
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [a, { path }] of ASKED.entries()) {
      for (const o of round % 2 ? [1, 0] : [0, 1]) {
        const took = await timeOf(() => ask(client, world, organizations[o] as Uuid, path))
        if (round > 0) times[a]?.[o]?.push(took)
      }
    }
  }
  return times.map((of) => of.map(median))
}

async function timeOf(request: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  for (let n = 0; n < REQUESTS; n++) await request()
  return (performance.now() - started) / REQUESTS
}

/** The months of the large organization counted anew, from nothing but an index; milliseconds. */
async function countingMonths({ database: { admin }, orgId }: World): Promise<number> {
  const times: number[] = []
  for (let n = 0; n < COUNTS; n++) {
    const started = performance.now()
    await admin.query(
      `select media_month(taken_at) as month, count(*) from media where org_id = $1 and listed group by 1 order by 1 desc`,
      [orgId],
    )
    times.push(performance.now() - started)
  }
  return median(times)
}

function table(times: number[][], counting: number): string {
  const lines = ASKED.map(({ name }, i) => {
    const [few = 0, many = 0] = times[i] ?? []
    const ratio = many / few
    return `| ${name} | ${few.toFixed(2)} | ${many.toFixed(2)} | ${ratio.toFixed(2)}, ${ratio <= TARGET ? 'met' : 'MISSED'} |`
  })
  return [
    `Medians of ${ROUNDS} alternating rounds of ${REQUESTS} requests, milliseconds per request; target: at most ${TARGET}`,
    '',
    `| asked for | of ${FEW.toLocaleString('en')} | of ${ROWS.toLocaleString('en')} | ratio |`,
    '|---|---|---|---|',
    ...lines,
    '',
    `The months of ${ROWS.toLocaleString('en')} counted in an index instead: ${counting.toFixed(0)} ms`,
  ].join('\n')
}
