import { spawn } from 'node:child_process'
import { glob, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openLog } from '../lib/runtime/log.ts'
import { startEmbeddedPostgres } from '../local/postgres.ts'

/**
 * `npm test`: one Postgres for everybody (each test file gets a database of its own), then tap over all test files or
 * those given. Ends with the line that CI reads: `N passed, N failed, N skipped`.
 */
const given = process.argv.slice(2)
const files = given.length > 0 ? given : await everyTest()

async function everyTest(): Promise<string[]> {
  const found: string[] = []
  for await (const file of glob('test/**/*.ts')) {
    if (!/^test\/(support|bench)\/|^test\/run\.ts$/.test(file)) found.push(file)
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

const counts = { passed: 0, failed: 0, skipped: 0 }
const tap = spawn('tap', ['run', '--disable-coverage', '--reporter=tap', '--jobs=2', ...files], {
  stdio: ['ignore', 'pipe', 'inherit'],
  env: { ...process.env, ...(postgres && { KEEPSAKE_TEST_DATABASE_URL: postgres.url }) },
})
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => tap.kill(signal))

let rest = ''
let failing = false
tap.stdout.setEncoding('utf8')
for await (const chunk of tap.stdout) {
  const lines = (rest + chunk).split('\n')
  rest = lines.pop() ?? ''
  for (const line of lines) show(line)
}
const code = await new Promise<number>((resolve) => {
  if (tap.exitCode !== null) resolve(tap.exitCode)
  else tap.once('close', (status) => resolve(status ?? 1))
})
await postgres?.stop()
await rm(folder, { recursive: true, force: true })

if (code !== 0 && counts.failed === 0) counts.failed = 1
console.log(`\n${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`)
process.exitCode = code

/** Counts assertions and shows what a reader wants: one line a file, and everything about a failure. */
function show(line: string): void {
  const test = /^( *)(not )?ok \d+ - (.*)$/.exec(line)
  if (test) count(line, test[1] === '', Boolean(test[2]), test[3] ?? '')
  else if (failing) console.log(line)
}

function count(line: string, isFile: boolean, failed: boolean, name: string): void {
  failing = failed
  if (/# (skip|todo)/i.test(name)) counts.skipped += 1
  // A line that closes a subtest repeats the verdict of the lines inside it; only leaves and files are counted.
  else if (failed) counts.failed += isFile ? 0 : 1
  else if (!/# time=/.test(name)) counts.passed += 1
  if (isFile || failed || /# skip/i.test(name)) console.log(line.trim())
}
