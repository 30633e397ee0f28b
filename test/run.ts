import type { ChildProcess } from 'node:child_process'
import { glob, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openLog } from '../lib/runtime/log.ts'
import { startEmbeddedPostgres } from '../local/postgres.ts'
import { endTap, runTap, summary } from './support/run-tap.ts'

/**
 * `npm test`: one Postgres for everybody (each test file gets a database of its own), then tap over all test files or
 * those given. Ends with the line that CI reads: `N passed, N failed, N skipped`. What needs a Kubernetes is in
 * test/cluster/ and runs by `npm run test:cluster`.
 */
const given = process.argv.slice(2)
const files = given.length > 0 ? given : await everyTest()

async function everyTest(): Promise<string[]> {
  const found: string[] = []
  for await (const file of glob('test/**/*.ts')) {
    if (!/^test\/(support|bench|cluster)\/|^test\/run\.ts$/.test(file)) found.push(file)
  }
  return found.sort()
}

const folder = await mkdtemp(join(tmpdir(), 'keepsake-test-'))
const postgres = process.env['KEEPSAKE_TEST_DATABASE_URL']
  ? undefined
  : await startEmbeddedPostgres({
      dataDir: join(folder, 'postgres'),
      log: openLog({ program: 'test', level: 'error' }),
      fast: true,
    })

let tap: ChildProcess | undefined
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void (tap && endTap(tap, signal)))
const { code, ...counts } = await runTap(files, {
  jobs: 2,
  ...(postgres && { env: { KEEPSAKE_TEST_DATABASE_URL: postgres.url } }),
  onStart: (child) => {
    tap = child
  },
})
await postgres?.stop()
await rm(folder, { recursive: true, force: true })

console.log(`\n${summary(counts)}`)
process.exitCode = code
