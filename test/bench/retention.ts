import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { mediaPrefix } from '../../lib/contract/object-keys.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { openS3Store } from '../../lib/runtime/object-store/s3.ts'
import { testDatabase } from '../support/database.ts'
import { insertMany, vacuum } from '../support/explain.ts'
import { aRun, startRetention } from '../support/retention.ts'
import { startRadosGateway } from '../support/services/radosgw.ts'

/**
 * Runs of policies. Memory: one process for the trash and many due items without objects, so that the database is all that
 * takes time. Many: the same for notifications, which go fifty at a time, `BENCH_MANY` (1,000,000) of them. Speed: items with two objects each in a real gateway, beside a bare loop of the same calls, four at once like
 * the program. `BENCH_ITEMS` (30,000) and `BENCH_OBJECTS_OF` (600) change the size.
 */
const ITEMS = Number(process.env['BENCH_ITEMS'] ?? 30_000)
const MANY = Number(process.env['BENCH_MANY'] ?? 1_000_000)
const STORED = Number(process.env['BENCH_OBJECTS_OF'] ?? 600)
const PARTS = process.env['BENCH_PARTS'] ?? 'memory,many,speed'
const ROUNDS = 2
const AT_ONCE = 4
const MAX_MIB = 150
const RATIO = 0.8

const teardowns: (() => unknown)[] = []
const here = { teardown: (done: () => unknown) => void teardowns.push(done) }
const verdict = (isMet: boolean) => (isMet ? 'met' : 'MISSED')
const database = await testDatabase(here)
const [org, user] = [newUuid(), newUuid()]
await database.admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [user, 'test', user])
await database.admin.query('insert into organizations (id, name) values ($1, $2)', [org, 'Friends'])
try {
  if (PARTS.includes('memory')) {
    await measureMemory(database.admin, {
      count: ITEMS,
      prepare: fill,
      run: run(),
      what: 'media items without objects',
    })
  }
  if (PARTS.includes('many')) {
    const old = aRun('Notifications', { confirmed: true, batchSize: 500, rules: [{ after: 'P90D', action: 'purge' }] })
    await measureMemory(database.admin, { count: MANY, prepare: fillNotifications, run: old, what: 'notifications' })
  }
  if (PARTS.includes('speed')) await measureSpeed()
} finally {
  for (const done of teardowns.reverse()) await done()
}

async function fill(count: number): Promise<Uuid[]> {
  await insertMany(
    database,
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status, deleted_at, deleted_by)
      select gen_random_uuid(), $1, $2, 'f', 'video/mp4', 'video', 7, 'completed', now() - interval '40 days', $2
      from generate_series(1, $3::int)`,
    [org, user, count],
  )
  await database.admin.query(
    `insert into user_storage (user_id, media_bytes) values ($1, $2) on conflict (user_id) do update set media_bytes = $2`,
    [user, count * 7],
  )
  await database.admin.query(
    `insert into storage_in_organizations (user_id, org_id, bytes) values ($1, $2, $3)
      on conflict (user_id, org_id) do update set bytes = $3`,
    [user, org, count * 7],
  )
  await vacuum(database, 'media')
  return (await database.admin.query('select id from media')).rows.map(({ id }) => id)
}

async function peakMib(pid: number): Promise<number> {
  return Number(/VmHWM:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
}
function run() {
  return aRun('MediaTrash', { confirmed: true, batchSize: 100 })
}

async function fillNotifications(count: number): Promise<void> {
  const event = newUuid()
  await insertMany(
    database,
    `with e as (insert into events (id, org_id, owner_id, title, start_at, created_at)
        values ($1, $2, $3, 'e', now() - interval '1 year', now() - interval '1 year'))
      insert into notifications (id, org_id, template, event_id, user_id, comment_id, created_at)
      select gen_random_uuid(), $2, 'Mention.v1', $1, $3, gen_random_uuid(), now() - interval '200 days' + n * interval '1 second'
      from generate_series(1, $4::int) n`,
    [event, org, user, count],
  )
  await vacuum(database, 'notifications')
}

interface Memory {
  count: number
  prepare(count: number): Promise<unknown>
  run: ReturnType<typeof aRun>
  what: string
}

async function measureMemory(admin: pg.Pool, { count, prepare, run, what }: Memory): Promise<void> {
  const storeFolder = await mkdtemp(join(tmpdir(), 'keepsake-bench-'))
  here.teardown(() => rm(storeFolder, { recursive: true, force: true }))
  await prepare(count)
  const startedAt = performance.now()
  const program = await startRetention(here, { databaseUrl: database.url, storeFolder, run })
  const peaks: { done: number; mib: number }[] = []
  const running = { ended: false }
  void program.ended.then(() => {
    running.ended = true
  })
  for (let next = 0.1; !running.ended; await sleep(100)) {
    const { rows } = await admin.query(
      'select coalesce(sum(purged), 0)::int as n from retention_counts where run = $1',
      [run.run],
    )
    if (rows[0].n < next * count) continue
    peaks.push({ done: rows[0].n, mib: await peakMib(program.child.pid ?? 0).catch(() => 0) })
    next = Math.floor((rows[0].n / count) * 10) / 10 + 0.1
  }
  const seconds = (performance.now() - startedAt) / 1000
  const result = await program.result()
  if (result?.purged !== count) throw new Error(`${JSON.stringify(result)} ${program.output().slice(-1000)}`)
  const [first, last] = [peaks[0], peaks.at(-1)]
  const isMet = (last?.mib ?? 0) <= MAX_MIB
  console.log(`${count} ${what} in ${seconds.toFixed(0)} s, ${(count / seconds).toFixed(0)} a second.`)
  console.log(`Highest resident size so far, MiB, at each tenth: ${peaks.map(({ mib }) => mib.toFixed(0)).join(', ')}.`)
  console.log(
    `Resident at most ${first?.mib.toFixed(0)} MiB after ${first?.done} items, ${last?.mib.toFixed(0)} MiB after ${last?.done}: ${verdict(isMet)}`,
  )
}

async function measureSpeed(): Promise<void> {
  const gateway = await startRadosGateway()
  if (!gateway) return console.log('Ceph is not installed: speed was not measured')
  here.teardown(() => gateway.stop())
  const store = openS3Store(gateway.s3)
  here.teardown(() => store.close())
  const { endpoint, bucket, accessKey, secretKey, region } = gateway.s3
  const storeSettings = {
    ...{
      STORE_KIND: 's3',
      S3_ENDPOINT: endpoint,
      S3_BUCKET: bucket,
      S3_ACCESS_KEY: accessKey,
      S3_SECRET_KEY: secretKey,
    },
    ...(region && { S3_REGION: region }),
  }
  const rates: { bare: number[]; program: number[] } = { bare: [], program: [] }
  for (let round = 0; round < ROUNDS; round++) {
    const bare = Array.from({ length: STORED }, () => newUuid())
    await putObjects(store, bare)
    rates.bare.push(await perSecond(() => bareLoop(store, bare)))
    await putObjects(store, await fill(STORED))
    const program = await startRetention(here, { databaseUrl: database.url, storeSettings, run: run() })
    // Its start is no part of the rate.
    const { database: _, ...times } = await timesOf(program, database.admin)
    rates.program.push(STORED / times.seconds)
  }
  const best = (all: number[]) => Math.max(...all)
  const ratio = best(rates.program) / best(rates.bare)
  console.log(
    `${STORED} items of two objects in a gateway, best of ${ROUNDS}: ${best(rates.program).toFixed(0)} items a second, a bare loop of the same calls ${best(rates.bare).toFixed(0)}; ratio ${ratio.toFixed(2)}, ${verdict(ratio >= RATIO)}`,
  )
}

/** From the first item to the last, by the database's clock. */
async function timesOf(program: Awaited<ReturnType<typeof startRetention>>, admin: pg.Pool) {
  if ((await program.ended) !== 0) throw new Error(program.output().slice(-2000))
  const { rows } =
    await admin.query(`select (extract(epoch from max(o.created_at) - max(r.started_at)))::float8 as seconds
    from retention_runs r, outbox o where o.type = 'MediaPurged'
      and r.started_at = (select max(started_at) from retention_runs) and o.created_at > r.started_at`)
  return { seconds: rows[0].seconds as number, database: admin }
}

async function perSecond(work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return STORED / ((performance.now() - startedAt) / 1000)
}

async function eachOf(ids: readonly Uuid[], work: (id: Uuid) => Promise<void>): Promise<void> {
  const waiting = [...ids]
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let id = waiting.pop(); id; id = waiting.pop()) await work(id)
    }),
  )
}

function putObjects(store: ObjectStore, ids: readonly Uuid[]): Promise<void> {
  return eachOf(ids, async (id) => {
    for (const name of ['original', 'v1/manifest.json']) {
      await store.put(`${mediaPrefix(org, id)}${name}`, 'bytes', { contentType: 'video/mp4', size: 5 })
    }
  })
}

/** What the program asks of the store, and nothing else. */
function bareLoop(store: ObjectStore, ids: readonly Uuid[]): Promise<void> {
  return eachOf(ids, async (id) => {
    for await (const _ of store.list(mediaPrefix(org, id)));
    await store.deletePrefix(mediaPrefix(org, id))
    await store.deletePrefix(mediaPrefix(org, id))
  })
}
