import { once } from 'node:events'
import { join } from 'node:path'
import { Client } from 'undici'
import { insertMany, vacuum } from '../support/explain.ts'
import { aRun, startRetention } from '../support/retention.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * What requests wait for while a run of the policy for the trash works beside the API, on the same Postgres and the same cores:
 * four requests at a time, without a run and beside one, in alternating rounds. The items have no objects, so that the run takes
 * of Postgres what it can. `BENCH_ROUNDS` (7) and `BENCH_ITEMS` (60,000) change the size.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 7)
const ITEMS = Number(process.env['BENCH_ITEMS'] ?? 60_000)
const REQUESTS = 600
const AT_ONCE = 4
const TARGET = 1.3

console.log(await inWorld(measure))

async function measure(world: World): Promise<string> {
  await fill(world)
  await timesOf(world)
  const alone: number[][] = []
  const beside: number[][] = []
  const rates: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const sides = [
      async () => void alone.push(await timesOf(world)),
      async () => void beside.push(await whileRunning()),
    ]
    for (const side of round % 2 ? sides.reverse() : sides) await side()
  }
  async function whileRunning(): Promise<number[]> {
    const teardowns: (() => unknown)[] = []
    const here = { teardown: (done: () => unknown) => void teardowns.push(done) }
    const run = aRun('MediaTrash', { confirmed: true, batchSize: 100 })
    const program = await startRetention(here, {
      ...{ databaseUrl: world.database.url, storeFolder: join(world.folder, 'store'), run },
    })
    // Starting is not working.
    while ((await purgedBy(world, run.run)) === 0) await new Promise((resolve) => setTimeout(resolve, 50))
    const [before, started] = [await purgedBy(world, run.run), performance.now()]
    const times = await timesOf(world)
    const purged = (await purgedBy(world, run.run)) - before
    if (purged === 0) throw new Error('the run has ended before the requests')
    rates.push((purged * 1000) / (performance.now() - started))
    const ended = once(program.child, 'exit')
    program.child.kill('SIGTERM')
    await ended
    for (const done of teardowns) await done()
    return times
  }
  const at = (all: readonly number[][], share: number) =>
    median(all.map((times) => times.sort((a, b) => a - b)[Math.floor(times.length * share)] ?? Number.NaN))
  const ratio = at(beside, 0.95) / at(alone, 0.95)
  if (ratio > TARGET) process.exitCode = 1
  return [
    `${REQUESTS} requests, ${AT_ONCE} at a time, medians of ${ROUNDS} alternating rounds, milliseconds; the run purges ${median(rates).toFixed(0)} items a second beside them`,
    '',
    '| | p50 | p95 |',
    '|---|---|---|',
    `| without a run | ${at(alone, 0.5).toFixed(1)} | ${at(alone, 0.95).toFixed(1)} |`,
    `| beside a run | ${at(beside, 0.5).toFixed(1)} | ${at(beside, 0.95).toFixed(1)} |`,
    `| ratio (target ${TARGET}) | ${(at(beside, 0.5) / at(alone, 0.5)).toFixed(2)} | ${ratio.toFixed(2)}, ${ratio <= TARGET ? 'met' : 'MISSED'} |`,
  ].join('\n')
}

async function fill({ database, orgId, userId }: World): Promise<void> {
  await insertMany(
    database,
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status, deleted_at, deleted_by)
      select gen_random_uuid(), $1, $2, 'f', 'video/mp4', 'video', 7, 'completed',
        case when n <= $3 then now() - interval '40 days' end, case when n <= $3 then $2::uuid end
      from generate_series(1, $3::int + 5000) n`,
    [orgId, userId, ITEMS],
  )
  const bytes = (ITEMS + 5000) * 7
  await database.admin.query('insert into user_storage (user_id, media_bytes) values ($1, $2)', [userId, bytes])
  await database.admin.query('insert into storage_in_organizations (user_id, org_id, bytes) values ($1, $2, $3)', [
    ...[userId, orgId, bytes],
  ])
  await vacuum(database, 'media')
}

async function purgedBy({ database }: World, run: string): Promise<number> {
  const { rows } = await database.admin.query(
    'select coalesce(sum(purged), 0)::int as n from retention_counts where run = $1',
    [run],
  )
  return rows[0].n
}

/** Milliseconds of each: reads and a write, in turns. */
async function timesOf({ api, org, token }: World): Promise<number[]> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ title: 'A day out', start_at: '2026-11-21T09:30:00Z' })
  const asked = [
    { method: 'GET' as const, path: `/v1/api/media/${org}?limit=20` },
    { method: 'GET' as const, path: '/v1/api/users/me' },
    { method: 'POST' as const, path: `/v1/api/orgs/${org}/events`, body },
    { method: 'GET' as const, path: '/v1/api/users/me/feed?limit=20' },
  ]
  const times: number[] = []
  let n = 0
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      const client = new Client(api.url)
      while (n < REQUESTS) {
        const request = asked[n++ % asked.length]
        if (!request) continue
        const started = performance.now()
        const { statusCode, body: answer } = await client.request({ ...request, headers })
        if (statusCode >= 300) throw new Error(`${request.path} answered ${statusCode}: ${await answer.text()}`)
        await answer.dump()
        times.push(performance.now() - started)
      }
      await client.close()
    }),
  )
  return times
}
