import { glob, mkdtemp, readdir, readFile, rm, statfs, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir, totalmem } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openLog } from '../lib/runtime/log.ts'
import { startEmbeddedPostgres } from '../local/postgres.ts'
import { isAlive } from '../local/process-table.ts'
import { notTested } from './support/not-tested.ts'
import { cpuOfChildren } from './support/process-state.ts'
import { quickTools } from './support/quick-tools.ts'
import { endTests, runTests } from './support/run-tests.ts'
import { summary } from './support/tap-output.ts'

/**
 * `npm test`: one Postgres for all files (each gets a database of its own), then every test file, or those given. The
 * longest start first, by the table test/seconds.json; `--save-seconds` writes that table anew after a run of all.
 * Ends with what was not tested here and how to install what it needs, and the line that CI reads: `N passed, N failed, N skipped`. What needs a Kubernetes is in test/cluster/ and
 * runs by `npm run test:cluster`.
 */
const TABLE = new URL('seconds.json', import.meta.url)
/** What is below test/ and no test, or no test of this run. */
const OTHERS =
  /^test\/(support|bench|cluster|demo|openapi)\/|^test\/(run|coverage|prose|write-audit-document)\.ts$|\/seeds\/|\/society[./]/
const args = process.argv.slice(2)
const given = args.filter((arg) => !arg.startsWith('--'))
const files = given.length > 0 ? given : await longestFirst(await everyTest())

async function everyTest(): Promise<string[]> {
  const found: string[] = []
  for await (const file of glob('test/**/*.ts')) {
    if (!OTHERS.test(file)) found.push(file)
  }
  return found.sort()
}

/** A file that the table does not know starts first: it may be a long one. */
async function longestFirst(found: string[]): Promise<string[]> {
  const seconds = JSON.parse(await readFile(TABLE, 'utf8')) as Record<string, number>
  const of = (file: string) => seconds[file] ?? Number.POSITIVE_INFINITY
  return found.sort((a, b) => (of(a) === of(b) ? 0 : of(b) - of(a)))
}

/**
 * In memory where there is room: each database is six hundred files, and making and removing them on a disk took more
 * CPU than most tests. Those that a killed run left behind are removed, as they hold memory.
 */
async function temporaryFolder(): Promise<string> {
  const { bavail, bsize } = await statfs('/dev/shm').catch(() => ({ bavail: 0, bsize: 0 }))
  const where = bavail * bsize > 2 * 1024 ** 3 ? '/dev/shm' : tmpdir()
  for (const name of await readdir(where)) {
    const pid = /^keepsake-test-(\d+)-/.exec(name)?.[1]
    if (pid && !(await isAlive(Number(pid)))) await rm(join(where, name), { recursive: true, force: true })
  }
  return mkdtemp(join(where, `keepsake-test-${process.pid}-`))
}

/** Four more than processors, since many files wait for what they have started; fewer where there is little memory. */
function jobsHere(): number {
  const room = Math.floor(totalmem() / (3 * 1024 ** 3))
  return Math.max(2, Math.min(6, availableParallelism() + 4, room))
}

const folder = await temporaryFolder()
const postgres = process.env['KEEPSAKE_TEST_DATABASE_URL']
  ? undefined
  : await startEmbeddedPostgres({
      dataDir: join(folder, 'postgres'),
      log: openLog({ program: 'test', level: 'error' }),
      fast: true,
    })

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void endTests(signal))
const tools = await quickTools(fileURLToPath(new URL('../.tap', import.meta.url)))
const { seconds, totalCpu, skips, ...counts } = await runTests(files, {
  jobs: Number(process.env['TEST_JOBS'] ?? jobsHere()),
  env: {
    ...(postgres && { KEEPSAKE_TEST_DATABASE_URL: postgres.socketUrl }),
    ...(tools && { PATH: `${tools}${delimiter}${process.env['PATH'] ?? ''}` }),
  },
  share: files.length > 1 && !args.includes('--alone'),
})
await postgres?.stop()
if (process.platform === 'linux')
  console.log(
    `CPU: ${totalCpu.toFixed(0)} s of the files, ${(cpuOfChildren() - totalCpu).toFixed(0)} s of their Postgres`,
  )
await rm(folder, { recursive: true, force: true })
if (args.includes('--save-seconds')) {
  const rounded = Object.entries(seconds).map(([file, taken]) => [file, Math.round(taken)] as const)
  const table = Object.fromEntries(rounded.sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)))
  await writeFile(TABLE, `${JSON.stringify(table, null, 2)}\n`)
}

for (const line of ['', ...notTested(skips), summary(counts)]) console.log(line)
process.exitCode = counts.failed > 0 ? 1 : 0
