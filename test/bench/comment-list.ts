import { Client } from 'undici'
import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * What a page of comments costs on an event with a thousand comments and on one with `BENCH_ROWS` (1,000,000). Rounds of
 * all pages in both databases alternate, so that whatever else the machine does meets each of them; medians are compared.
 * `BENCH_ROUNDS` (15) changes how many.
 */
const ROWS = Number(process.env['BENCH_ROWS'] ?? 1_000_000)
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15)
const FEW = 1000
const REPLIES = 5
const REACTIONS = 6
const USERS = 1000
const REQUESTS = 40
const TARGET = 1.3

interface Side {
  world: World
  client: Client
  event: Uuid
  /** Paths of the pages, in the order of their names. */
  pages: string[]
}
const PAGES = ['the first page', 'a page in the middle', 'the replies to a comment', 'one comment']

console.log(await inWorld((small) => inWorld((large) => measure(small, large))))

async function measure(small: World, large: World): Promise<string> {
  const sides = [await build(small, FEW), await build(large, ROWS)]
  try {
    return table(await timesOf(sides))
  } finally {
    for (const { client } of sides) await client.close()
  }
}

/** The newest comments have replies and reactions; every tenth of all has an attachment. */
async function build(world: World, rows: number): Promise<Side> {
  const event = newUuid()
  const { admin } = world.database
  const given = [event, world.orgId, world.userId]
  await admin.query(
    `insert into events (id, org_id, owner_id, title, start_at, status) values ($1, $2, $3, 'Reunion', now(), 'active')`,
    given,
  )
  await admin.query(
    `with made as (
        insert into users (id, issuer, subject, display_name)
          select gen_random_uuid(), 'bench', n::text, 'Person ' || n from generate_series(1, $2::int) n returning id)
      insert into memberships (org_id, user_id, role) select $1, id, 'member' from made`,
    [world.orgId, USERS],
  )
  await admin.query(
    `insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body, created_at)
      select gen_random_uuid(), $2, $1, 'meta', $1, 'event', $3, 'Comment ' || n, now() - make_interval(secs => n)
      from generate_series(1, $4::int) n`,
    [...given, rows],
  )
  await admin.query(
    `insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body, created_at)
      select gen_random_uuid(), $2, $1, 'comment', c.id, 'event', $3, 'Reply', c.created_at + make_interval(secs => n)
      from (select id, created_at from comments where target_type = 'meta' order by created_at desc limit $4) c,
        generate_series(1, $5::int) n`,
    [...given, FEW, REPLIES],
  )
  await admin.query(
    `insert into reactions (id, org_id, event_id, target_type, target_id, user_id, emoji)
      select gen_random_uuid(), $2, $1, 'comment', c.id, u.user_id, '🔥'
      from (select id from comments where target_type = 'meta' order by created_at desc limit $3) c,
        (select user_id from memberships limit $4) u`,
    [event, world.orgId, FEW, REACTIONS],
  )
  const media = newUuid()
  await admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes)
      values ($1, $2, $3, 'IMG', 'image/jpeg', 'image', 1)`,
    [media, world.orgId, world.userId],
  )
  await admin.query(
    `insert into comment_media (comment_id, position, org_id, event_id, media_id)
      select id, 0, $2, $1, $3 from comments where target_type = 'meta' and body like '%0'`,
    [event, world.orgId, media],
  )
  await admin.query('vacuum analyze')
  const side = { world, event, client: new Client(world.api.url) }
  return { ...side, pages: await pagesOf(side) }
}

type Page = { comments: { comment_id: string; reply_count: number; reaction_counts: Record<string, number> }[] } & {
  next_cursor: string
}

async function pagesOf({ world, event, client }: Omit<Side, 'pages'>): Promise<string[]> {
  const wire = formatId('event', event)
  const at = (type: string, id: string) => `/v1/api/orgs/${world.org}/events/${wire}/${type}/${id}/comments`
  const list = `${at('meta', wire)}?limit=20`
  const read = async (path: string) => ((await (await ask(world, client, path)).json()) as { data: Page }).data
  const first = await read(list)
  let cursor = first.next_cursor
  for (let n = 0; n < 4; n++) cursor = (await read(`${at('meta', wire)}?limit=100&cursor=${cursor}`)).next_cursor
  const [newest] = first.comments
  const isFull = first.comments.every((c) => c.reply_count === REPLIES && c.reaction_counts['🔥'] === REACTIONS)
  if (!newest || first.comments.length !== 20 || !isFull) throw new Error('the first page is not full')
  const { comment_id: id } = newest
  return [list, `${list}&cursor=${cursor}`, `${at('comment', id)}?limit=20`, `${at('meta', wire)}/${id}`]
}

async function ask({ token }: World, client: Client, path: string) {
  const { statusCode, body } = await client.request({
    method: 'GET',
    path,
    headers: { authorization: `Bearer ${token}` },
  })
  if (statusCode !== 200) throw new Error(`${path} answered ${statusCode}`)
  return body
}

/** Milliseconds per request of each page in each database, in this order: the medians of the rounds. */
async function timesOf(sides: readonly Side[]): Promise<number[]> {
  const cells = PAGES.flatMap((_, page) => sides.map((side) => ({ page, side, times: [] as number[] })))
  for (const { side, page } of cells) await timeOf(side, page)
  for (let round = 0; round < ROUNDS; round++) {
    for (const { side, page, times } of round % 2 ? cells.toReversed() : cells) times.push(await timeOf(side, page))
  }
  return cells.map(({ times }) => median(times))
}

async function timeOf({ world, client, pages }: Side, page: number): Promise<number> {
  const started = performance.now()
  for (let n = 0; n < REQUESTS; n++) await (await ask(world, client, pages[page] ?? '')).dump()
  return (performance.now() - started) / REQUESTS
}

function table(times: readonly number[]): string {
  const lines = PAGES.map((name, p) => {
    const [few = 0, many = 0] = times.slice(2 * p)
    const verdict = `${(many / few).toFixed(2)}, ${many / few <= TARGET ? 'met' : 'MISSED'}`
    return `| ${name} | ${few.toFixed(2)} | ${many.toFixed(2)} | ${verdict} |`
  })
  return [
    `Pages of 20 comments on an event, medians of ${ROUNDS} alternating rounds of ${REQUESTS} requests, milliseconds per`,
    `request; target: at most ${TARGET} times`,
    '',
    `| page | of ${FEW.toLocaleString('en')} | of ${ROWS.toLocaleString('en')} | ratio |`,
    '|---|---|---|---|',
    ...lines,
  ].join('\n')
}
