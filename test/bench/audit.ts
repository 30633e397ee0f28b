import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { PASS_ENTRIES, sealOnce } from '../../api/audit/seal.ts'
import { measureSeal } from '../../api/audit/seal-queries.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import { auditWorld } from '../support/audit.ts'
import { testDatabase } from '../support/database.ts'
import { startChild } from './children.ts'
import { costsOf } from './rounds.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * What the audit log costs: the entry of a small write (an event is created) beside the same program without entries
 * (`without-audit-child.ts`), the seal, and whether it keeps up. `BENCH_ROUNDS` (15), `BENCH_ENTRIES` (200,000) and
 * `BENCH_SECONDS` (40) change the size, `BENCH_PARTS` names the parts.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15)
const ENTRIES = Number(process.env['BENCH_ENTRIES'] ?? 200_000)
const REQUESTS = 100
const WRITE_TARGET = 1.15
const VERIFY_TARGET = 50_000
const RATE = 2000
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 40)
const WINDOW = 5
const VERIFICATIONS = 5

const verdict = (isMet: boolean) => (isMet ? 'met' : 'MISSED')

const parts = process.env['BENCH_PARTS'] ?? 'write,seal,keep-up'
if (parts.includes('write'))
  console.log(
    await inWorld((without) => inWorld((full) => measureWrite(without, full)), { program: 'without-audit-child.ts' }),
  )
if (parts.includes('seal')) console.log(await onDatabase(measureSealing))
if (parts.includes('keep-up')) console.log(await onDatabase(measureKeepingUp))

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
  const sealing = performance.now()
  while ((await sealOnce(world, PASS_ENTRIES)) === 'more');
  const sealed = (ENTRIES * 1000) / (performance.now() - sealing)
  await database.admin.query('analyze audit_links')
  const rates: number[] = []
  const databases = [new URL(database.url).pathname.slice(1)]
  const cpu = { node: process.cpuUsage(), postgres: (await cpuOf(databases))[0] ?? 0 }
  for (let i = 0; i < VERIFICATIONS; i++) {
    const started = performance.now()
    const { entries, findings } = await world.verify()
    if (entries < ENTRIES || findings.length > 0) throw new Error(`${entries} entries, ${JSON.stringify(findings)}`)
    rates.push((entries * 1000) / (performance.now() - started))
  }
  const verified = median(rates)
  const node = process.cpuUsage(cpu.node)
  // Each of the two processes has a core of its own where there is one: the slower decides.
  const perEntry = [(node.user + node.system) / 1000, ((await cpuOf(databases))[0] ?? 0) - cpu.postgres].map(
    (ms) => ms / (VERIFICATIONS * ENTRIES),
  )
  const idle = 1000 / Math.max(...perEntry)
  return [
    `| sealing a backlog of ${ENTRIES}, entries/s | verify, entries/s (target ${VERIFY_TARGET}) | CPU of verify per 1,000 entries: Node, Postgres, ms | entries/s of the slower on a core of its own |`,
    '|---|---|---|---|',
    `| ${sealed.toFixed(0)} | ${verified.toFixed(0)}, ${verdict(verified >= VERIFY_TARGET)} | ${perEntry.map((ms) => (ms * 1000).toFixed(1)).join(', ')} | ${idle.toFixed(0)} |`,
  ].join('\n')
}

/** A sealer and writers at a steady rate, each in a process of its own as they are with the worker and the API. */
async function measureKeepingUp({ database, folder }: Pick<World, 'database' | 'folder'>): Promise<string> {
  const env = { BENCH_DATABASE: database.url, BENCH_STORE: join(folder, 'anchors'), BENCH_RATE: String(RATE) }
  const sealer = await startChild('seal-child.ts', folder, env)
  const writer = await startChild('audit-writer-child.ts', folder, env)
  const count = async () => Number((await database.admin.query('select count(*) from audit_log')).rows[0].count)
  const costs = async () => ({
    at: performance.now(),
    sealer: (await sealer.usage()).cpu * 1000,
    writer: (await writer.usage()).cpu * 1000,
    sealing: await cpuOfBackends(database, 'keepsake_worker'),
    writing: await cpuOfBackends(database, 'writer'),
    written: await count(),
  })
  await sleep(3000)
  const before = await costs()
  const windows: number[][] = []
  for (let n = 0; n < SECONDS / WINDOW; n++) {
    const lags: number[] = []
    for (const end = performance.now() + WINDOW * 1000; performance.now() < end; await sleep(100)) {
      lags.push(await database.db.read({ audit: true }, measureSeal))
    }
    windows.push(lags)
  }
  const after = await costs()
  await writer.stop()
  const stopped = performance.now()
  while ((await database.db.read({ audit: true }, measureSeal)) > 0) await sleep(20)
  const caughtUp = performance.now() - stopped
  await sealer.stop()
  const seconds = (after.at - before.at) / 1000
  const written = (after.written - before.written) / seconds
  const share = (of: 'sealer' | 'writer' | 'sealing' | 'writing') =>
    `${((after[of] - before[of]) / seconds / 10).toFixed(0)} %`
  const half = windows.length >> 1
  const early = median(windows.slice(0, half).flat())
  const late = median(windows.slice(half).flat())
  const isMet = written >= 0.98 * RATE && late <= early + 0.5
  if (!isMet) process.exitCode = 1
  return [
    `Entries of 20 organizations are written for ${SECONDS} s beside one sealer. Behind, by windows of ${WINDOW} s, median/most in seconds: ${windows.map((lags) => `${median(lags).toFixed(2)}/${Math.max(...lags).toFixed(2)}`).join(', ')}.`,
    '',
    '| written/s (target 2,000) | behind, first half → second half, median s | after the last entry | CPU of the sealer | its Postgres backends | the writers | their backends |',
    '|---|---|---|---|---|---|---|',
    `| ${written.toFixed(0)} | ${early.toFixed(2)} → ${late.toFixed(2)}, ${verdict(isMet)} | ${(caughtUp / 1000).toFixed(1)} s | ${share('sealer')} | ${share('sealing')} | ${share('writer')} | ${share('writing')} |`,
  ].join('\n')
}

/** Milliseconds of CPU of the backends with this name, which live as long as the measurement. */
async function cpuOfBackends({ admin }: World['database'], name: string): Promise<number> {
  const { rows } = await admin.query(
    'select pid from pg_stat_activity where datname = current_database() and application_name = $1',
    [name],
  )
  let used = 0
  for (const { pid } of rows) {
    const fields = (await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')).replace(/^.*\) /, '').split(' ')
    if (fields.length > 12) used += (Number(fields[11]) + Number(fields[12])) * 10
  }
  return used
}
