import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { eventually } from './support/eventually.ts'
import { runTests } from './support/run-tests.ts'

const folder = await mkdtemp(join(tmpdir(), 'keepsake-runner-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
const TAP = import.meta.resolve('tap')

async function aFile(text: string): Promise<string> {
  const file = join(folder, `${Math.random()}.ts`)
  await writeFile(file, `import t from '${TAP}'\n${text}`)
  return file
}

/** What a file's run comes to; what the runner prints about it stays here. */
async function run(text: string, timeout?: number) {
  const log = console.log
  const printed: string[] = []
  console.log = (line: string) => void printed.push(line)
  try {
    const { passed, failed, skipped } = await runTests([await aFile(text)], { jobs: 1, ...(timeout && { timeout }) })
    return { counts: [passed, failed, skipped], printed: printed.join('\n') }
  } finally {
    console.log = log
  }
}

const FILES: [string, text: string, counts: [passed: number, failed: number, skipped: number], printed: RegExp][] = [
  ['passes', `t.test('a', (t) => { t.ok(1); t.ok(1); t.end() }); t.ok(1)`, [3, 0, 0], /^ok 1 - /],
  ['skips a test', `t.test('a', { skip: 'not here' }, () => {}); t.ok(1)`, [1, 0, 1], /a # SKIP not here/],
  ['skips everything', `t.plan(0, 'not here')`, [0, 0, 1], /^# SKIP not here/],
  [
    'fails deep inside',
    `t.test('a', (t) => t.test('b', async (t) => { t.equal(1, 2, 'same') }))`,
    [0, 1, 0],
    /same: .*compare: ===/,
  ],
  ['throws in a test', `t.test('a', async () => { throw new Error('oh no') })`, [0, 1, 0], /oh no/],
  [
    'throws behind a timer of a test',
    `t.test('a', async (t) => { setTimeout(() => { throw new Error('oh no') }, 5); await new Promise((r) => setTimeout(r, 50)) }); t.test('b', (t) => { t.ok(1); t.end() })`,
    [1, 1, 0],
    /not ok 1 - oh no(?:.|\n)*not ok 1 - a /,
  ],
  [
    'forgets a promise in the middle of a test',
    `t.test('a', async (t) => { await t.test('b', async (t) => { void Promise.reject(new Error('oh no')); await new Promise((r) => setTimeout(r, 50)); t.ok(1) }); t.ok(1) })`,
    [1, 1, 0],
    /not ok 1 - oh no(?:.|\n)*not ok 1 - b /,
  ],
  ['throws before its tests', `throw new Error('oh no')`, [0, 1, 0], /oh no/],
  ['does not parse', `const = 1`, [0, 1, 0], /SyntaxError/],
  ['has no tests', ``, [0, 1, 0], /^not ok 1 - /m],
  ['ends before its tests do', `t.test('a', async (t) => { t.ok(1); process.exit(0) })`, [1, 1, 0], /^not ok 1 - /m],
  ['is killed', `t.ok(1); process.kill(process.pid, 'SIGKILL')`, [1, 1, 0], /ended by SIGKILL/],
  ['fails behind its tests', `t.ok(1); process.on('exit', () => { process.exitCode = 3 })`, [1, 1, 0], /status 3/],
  ['runs less than it planned', `t.plan(2); t.ok(1)`, [1, 1, 0], /^not ok 1 - /m],
]
for (const [name, text, counts, printed] of FILES) {
  t.test(`a file that ${name}`, async (t) => {
    const result = await run(text)
    t.strictSame(result.counts, counts)
    t.match(result.printed, printed)
  })
}

t.test('a file that takes too long has failed', async (t) => {
  const waiting = await run(`t.test('a', () => new Promise((resolve) => setTimeout(resolve, 3000)))`, 1)
  t.strictSame(waiting.counts, [0, 1, 0])
  t.match(waiting.printed, /timeout/)
})

t.test('files start in the order given, and as many at once as jobs say', async (t) => {
  const log = join(folder, 'order')
  const say = (word: string) =>
    `import { appendFileSync } from 'node:fs'; appendFileSync('${log}', '${word} '); t.ok(1)`
  const files = [await aFile(say('third')), await aFile(say('first')), await aFile(say('second'))]
  const print = console.log
  console.log = () => {}
  t.match(await runTests(files, { jobs: 1 }), { passed: 3, failed: 0, skipped: 0 })
  console.log = print
  t.equal(await readFile(log, 'utf8'), 'third first second ')
})

t.test('the last lines of a run say what was not tested, and what installs it', async (t) => {
  const browser = `t.plan(0, 'Chromium is not installed')`
  const files = await Promise.all([
    aFile(`t.test('a', { skip: 'nats-server is not installed' }, () => {}); t.ok(1)`),
    aFile(browser),
    aFile(browser),
    aFile(`t.test('a', { skip: 'needs root' }, () => {}); t.test('b', { skip: 'needs root' }, () => {}); t.ok(1)`),
    aFile(`t.ok(1)`),
  ])
  const [nats, one, two, root, all = ''] = files
  const lastOf = async (...files: (string | undefined)[]) => {
    const env = { ...process.env, KEEPSAKE_TEST_DATABASE_URL: 'postgres://not-needed' }
    const args = ['test/run.ts', ...files.filter((file) => file !== undefined)]
    const { stdout } = await promisify(execFile)(process.execPath, args, { env })
    // What it says about each file as it runs is above the first empty line.
    return stdout
      .trimEnd()
      .split('\n')
      .slice(stdout.split('\n').indexOf('') + 1)
  }
  t.strictSame(await lastOf(nats, one, two, root, all), [
    'Not tested on this machine:',
    `- Chromium is not installed: ${[one, two].sort().join(', ')}`,
    `- nats-server is not installed: ${nats}`,
    `- needs root: ${root}`,
    'On Debian and Ubuntu `local/setup.sh --tests` installs what is missing; then run the tests again.',
    '',
    '3 passed, 0 failed, 5 skipped',
  ])
  t.strictSame(await lastOf(root), [
    'Not tested on this machine:',
    `- needs root: ${root}`,
    '',
    '1 passed, 0 failed, 2 skipped',
  ])
  t.equal((await lastOf(all)).at(-1), '1 passed, 0 failed, 0 skipped')
  t.notMatch(await lastOf(all), /Not tested/)
})

t.test('a run that is told to end takes the processes of its files with it', async (t) => {
  const said = join(folder, 'pid')
  const file = await aFile(
    `import { spawn } from 'node:child_process'
     import { writeFileSync } from 'node:fs'
     const child = spawn('sleep', ['1000'], { stdio: 'ignore' })
     t.test('waits', () => new Promise(() => { writeFileSync('${said}', String(child.pid)) }))`,
  )
  const env = { ...process.env, KEEPSAKE_TEST_DATABASE_URL: 'postgres://not-needed' }
  const runner = spawn(process.execPath, ['test/run.ts', file], { stdio: 'ignore', env })
  const pid = Number(await eventually('the child', () => readFile(said, 'utf8').catch(() => undefined)))
  runner.kill('SIGTERM')
  await once(runner, 'exit')
  t.not(runner.exitCode, 0)
  await eventually('no child', async () => !isRunning(pid))
})

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
