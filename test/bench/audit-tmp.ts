import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { insertAudit } from '../../api/audit/queries.ts'
import { PASS_ENTRIES, sealOnce } from '../../api/audit/seal.ts'
import { measureSeal } from '../../api/audit/seal-queries.ts'
import { startSealer } from '../../api/audit/sealer.ts'
import { newUuid } from '../../lib/contract/ids.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import { auditWorld } from '../support/audit.ts'
import { testDatabase } from '../support/database.ts'
import { testPersonalData } from '../support/personal-data.ts'
import { quietLog } from '../support/quiet-log.ts'
import { costsOf } from './rounds.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * What the audit log costs: the entry of a small write (an event is created) beside the same program without entries
 * (`without-audit-child.ts`), and the seal. `BENCH_ROUNDS` (15) and `BENCH_ENTRIES` (200,000) change the size.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15)
const ENTRIES = Number(process.env['BENCH_ENTRIES'] ?? 200_000)
const REQUESTS = 100
const WRITE_TARGET = 1.15
const VERIFY_TARGET = 50_000
const RATE = 2000
const SECONDS = 8
const VERIFICATIONS = 5

const verdict = (isMet: boolean) => (isMet ? 'met' : 'MISSED')

const parts = process.env['BENCH_PARTS'] ?? 'write,seal'
if (parts.includes('write'))
  console.log(
    await inWorld((without) => inWorld((full) => measureWrite(without, full)), { program: 'without-audit-child.ts' }),
  )
if (parts.includes('seal')) console.log(await onDatabase(measureSealing))

async function measureWrite(...worlds: [World, World]): Promise<string> {
  const api: number[][] = [[], []]
  const backends: number[][] = [[], []]
  for (let round = 0; round <= ROUNDS; round++) {
    for (const i of round % 2 ? [1, 0] : [0, 1]) {
      const cost = await costOfWrite(worlds[i] as World)
      // The first round opens connections and fills caches.
      if (round === 0) continue
      api[i]?.push(cost.api)
      backends[i]?.push(cost.postgres)
    }
  }
  const [apiWithout = 0, apiWith = 0] = api.map(median)
  const [pgWithout = 0, pgWith = 0] = backends.map(median)
  const ratio = (apiWith + pgWith) / (apiWithout + pgWithout)
  return [
    `Creating an event, medians of ${ROUNDS} alternating rounds of ${REQUESTS}, milliseconds of CPU per request; without → with its entry`,
    '',
    '| API | Postgres | both | ratio |',
    '|---|---|---|---|',
    `| ${apiWithout.toFixed(2)} → ${apiWith.toFixed(2)} | ${pgWithout.toFixed(2)} → ${pgWith.toFixed(2)} | ${(apiWithout + pgWithout).toFixed(2)} → ${(apiWith + pgWith).toFixed(2)} | ${ratio.toFixed(2)}, ${verdict(ratio <= WRITE_TARGET)} |`,
    '',
  ].join('\n')
}

/** Milliseconds of CPU of a request. */
async function costOfWrite({ api, org, token, database }: World): Promise<{ api: number; postgres: number }> {
  const side = {
    child: api,
    next: () => ({
      method: 'POST' as const,
      path: `/v1/api/orgs/${org}/events`,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ title: 'A day out', start_at: '2026-11-21T09:30:00Z' }),
    }),
  }
  const name = [new URL(database.url).pathname.slice(1)]
  const [before = 0] = await cpuOf(name)
  // Which runs it once to warm up, so twice.
  const [costs = []] = await costsOf([side], { name: 'write', connections: 4, requests: REQUESTS }, 1)
  const [after = 0] = await cpuOf(name)
  return { api: costs[0]?.cpu ?? Number.NaN, postgres: (after - before) / (2 * REQUESTS) }
}

/** Milliseconds of CPU that the backends of each database have used: Postgres writes its name into their titles. */
async function cpuOf(databases: readonly string[]): Promise<number[]> {
  const used = databases.map(() => 0)
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const read = (file: string) => readFile(join('/proc', pid, file), 'utf8').catch(() => '')
    const title = await read('cmdline')
    const i = title.startsWith('postgres:') ? databases.findIndex((name) => title.includes(name)) : -1
    if (i < 0) continue
    const fields = (await read('stat')).replace(/^.*\) /, '').split(' ')
    used[i] = (used[i] ?? 0) + (Number(fields[11]) + Number(fields[12])) * 10
  }
  return used
}

/** Without the API. */
async function onDatabase<T>(work: (on: Pick<World, 'database' | 'folder'>) => Promise<T>): Promise<T> {
  const endings: (() => Promise<void>)[] = []
  const database = await testDatabase({ teardown: (done) => void endings.unshift(done) })
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-bench-'))
  try {
    return await work({ database, folder })
  } finally {
    for (const end of endings) await end()
    await rm(folder, { recursive: true, force: true })
  }
}

async function measureSealing({ database, folder }: Pick<World, 'database' | 'folder'>): Promise<string> {
  const world = auditWorld(database, openFolderStore({ folder: join(folder, 'anchors') }))
  await database.admin.query(
    `insert into audit_log (id, org_id, actor_id, action, resource_type, resource_id, result, request_id, details, personal,
        key_version)
      select gen_random_uuid(), ('00000000-0000-7000-8000-0000000000' || lpad((i % 20)::text, 2, '0'))::uuid,
        gen_random_uuid(), 'EVENT_ACTION', 'event', gen_random_uuid()::text, 'success', 'req_' || i,
        jsonb_build_object('operation', 'update', 'fields', 'title'), decode(repeat(md5(i::text), 7), 'hex'), 2026
      from generate_series(1, $1::int) i`,
    [ENTRIES],
  )
  await database.admin.query('analyze audit_log')
  console.error('filled', performance.now())
  const sealing = performance.now()
  while ((await sealOnce(world, PASS_ENTRIES)) === 'more');
  const sealed = (ENTRIES * 1000) / (performance.now() - sealing)
  await database.admin.query('analyze audit_links')
  console.error('sealed', performance.now())
  const rates: number[] = []
  const databases = [new URL(database.url).pathname.slice(1)]
  const cpu = { node: process.cpuUsage(), postgres: (await cpuOf(databases))[0] ?? 0 }
  for (let i = 0; i < VERIFICATIONS; i++) {
    const started = performance.now()
    const { entries, findings } = await world.verify()
    if (entries < ENTRIES || findings.length > 0) throw new Error(`${entries} entries, ${JSON.stringify(findings)}`)
    rates.push((entries * 1000) / (performance.now() - started))
  }
  console.error('verified', performance.now(), rates)
  const verified = median(rates)
  const node = process.cpuUsage(cpu.node)
  // Each of the two processes has a core of its own where there is one: the slower decides.
  const perEntry = [(node.user + node.system) / 1000, ((await cpuOf(databases))[0] ?? 0) - cpu.postgres].map(
    (ms) => ms / (VERIFICATIONS * ENTRIES),
  )
  const idle = 1000 / Math.max(...perEntry)
  const { written, behind, most } = await keepUp(world, database)
  return [
    `| sealing a backlog of ${ENTRIES}, entries/s | verify, entries/s (target ${VERIFY_TARGET}) | CPU of verify per 1,000 entries: Node, Postgres, ms | entries/s of the slower on a core of its own | written/s (target ${RATE}) | behind, median s | most s |`,
    '|---|---|---|---|---|---|---|',
    `| ${sealed.toFixed(0)} | ${verified.toFixed(0)}, ${verdict(verified >= VERIFY_TARGET)} | ${perEntry.map((ms) => (ms * 1000).toFixed(1)).join(', ')} | ${idle.toFixed(0)} | ${written.toFixed(0)} | ${behind.toFixed(2)} | ${most.toFixed(2)} |`,
  ].join('\n')
}

/** Entries of requests at a steady rate, and one sealer as the worker has it, in this process. */
async function keepUp(world: ReturnType<typeof auditWorld>, { db, worker }: World['database']) {
  const personalData = testPersonalData(db)
  const sealer = startSealer({ ...world, log: quietLog() })
  const [orgs, actors] = [20, 200].map((n) => Array.from({ length: n }, () => newUuid()))
  const context = {
    requestId: 'req_1',
    clientRequestId: null,
    ip: '192.0.2.1',
    userAgent: 'Mozilla/5.0 (X11; Linux x86_64)',
    personalData,
  }
  const started = performance.now()
  const end = started + SECONDS * 1000
  let n = 0
  const lags: number[] = []
  const watch = (async () => {
    for (; performance.now() < end; await sleep(250)) lags.push(await worker.read({}, measureSeal))
  })()
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      while (performance.now() < end) {
        if (n >= ((performance.now() - started) / 1000) * RATE) {
          await sleep(1)
          continue
        }
        n += 1
        const entry = { orgId: orgs?.[n % 20] ?? null, actorId: actors?.[n % 200] ?? null, resourceId: newUuid() }
        await db.inTransaction({}, (tx) =>
          insertAudit(tx, {
            ...entry,
            action: 'EVENT_ACTION',
            result: 'success',
            context,
            details: { operation: 'update' },
          }),
        )
      }
    }),
  )
  const written = (n * 1000) / (performance.now() - started)
  console.error('written', performance.now())
  await watch
  await sealer.stop()
  return { written, behind: median(lags), most: Math.max(...lags) }
}
