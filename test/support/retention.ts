import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type pg from 'pg'
import { carryOut } from '../../api/features/retention/run.ts'
import { TARGETS } from '../../api/features/retention/targets.ts'
import type { RetentionTarget } from '../../crds/retention-rules.ts'
import { newUuid } from '../../lib/contract/ids.ts'
import { parseRetentionResult, type RetentionResult, RetentionRun } from '../../lib/contract/retention.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { TestDatabase } from './database.ts'
import { quickStart } from './quick-start.ts'
import { quietLog } from './quiet-log.ts'

const MAIN = fileURLToPath(new URL('../../api/features/retention/main.ts', import.meta.url))

/** A run as the operator describes it: of a target, with a name of its own. */
export const aRun = (target: RetentionTarget, change: Partial<RetentionRun> = {}): RetentionRun =>
  RetentionRun.parse({
    policy: 'test',
    uid: 'uid',
    run: `test-${newUuid().slice(-12)}`,
    target,
    rules: [{ after: 'P30D', action: 'purge' }],
    batchSize: 100,
    dryRun: false,
    maxDuePercent: 20,
    confirmed: false,
    slot: new Date().toISOString(),
    ...change,
  })

/**
 * From now on the programs think that it is so much later; a negative interval moves back. As the owner of the database: no role
 * of a program can.
 */
export async function shiftClock(admin: pg.Pool, by: string): Promise<void> {
  await admin.query(`create schema if not exists test_clock`)
  await admin.query(`create table if not exists test_clock.shift (by interval not null)`)
  await admin.query(`delete from test_clock.shift`)
  await admin.query(`insert into test_clock.shift values ($1)`, [by])
  await admin.query(`create or replace function app_now() returns timestamptz language sql stable security definer
    set search_path = pg_catalog as 'select now() + (select by from test_clock.shift)'`)
}

/** The next process of a run, in this one: for what need not be killed. */
export function retentionHere({ database, store }: { database: Pick<TestDatabase, 'worker'>; store: ObjectStore }) {
  return (run: RetentionRun): Promise<RetentionResult> => {
    const target = TARGETS.find(({ name }) => name === run.target)
    if (!target) throw new Error(`there is no target ${run.target}`)
    return carryOut({ db: database.worker, store, log: quietLog(), signal: new AbortController().signal }, target, run)
  }
}

interface Teardown {
  teardown(done: () => void | Promise<void>): void
}

/** The program as it runs in a pod. Killed at the end of the test. */
export async function startRetention(
  t: Teardown,
  o: { databaseUrl: string; run: RetentionRun; failpoint?: string } & (
    | { storeFolder: string }
    | { storeSettings: Record<string, string> }
  ),
) {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-retention-'))
  const log = join(folder, 'termination-log')
  const mortal = process.platform === 'linux' ? ['setpriv', '--pdeathsig', 'KILL'] : []
  const [command = '', ...args] = [
    ...mortal,
    process.execPath,
    '--max-semi-space-size=2',
    '--max-old-space-size=64',
    MAIN,
  ]
  const child = spawn(command, args, {
    env: {
      PATH: process.env['PATH'],
      ...quickStart(),
      DATABASE_URL: o.databaseUrl,
      ...('storeFolder' in o ? { STORE_KIND: 'folder', STORE_FOLDER: o.storeFolder } : o.storeSettings),
      RETENTION_RUN: JSON.stringify(o.run),
      TERMINATION_LOG: log,
      ...(o.failpoint && { KEEPSAKE_FAILPOINT: o.failpoint }),
    },
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk
    })
  }
  const ended = once(child, 'close').then(([code, signal]) => (code as number | null) ?? String(signal))
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
    await rm(folder, { recursive: true, force: true })
  })
  return {
    child,
    ended,
    output: () => output,
    result: async () => parseRetentionResult(await readFile(log, 'utf8').catch(() => undefined)),
  }
}
