// A process of its own: it runs test files itself.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { eventually } from './support/eventually.ts'
import { notTested } from './support/not-tested.ts'
import { type RunOptions, runTests } from './support/run-tests.ts'

const folder = await mkdtemp(join(tmpdir(), 'keepsake-runner-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
const TAP = import.meta.resolve('tap')

async function aFile(text: string): Promise<string> {
  const file = join(folder, `${Math.random()}.ts`)
  await writeFile(file, `import t from '${TAP}'\n${text}`)
  return file
}

/** What a run of files comes to; what the runner prints about them stays here. */
async function run(files: readonly string[], options: Partial<RunOptions> = {}) {
  const log = console.log
  const printed: string[] = []
  console.log = (line: string) => void printed.push(line)
  try {
    const { passed, failed, skipped } = await runTests(files, { jobs: 1, ...options })
    return { counts: [passed, failed, skipped] as Three, printed: printed.join('\n') }
  } finally {
    console.log = log
  }
}

type Three = [passed: number, failed: number, skipped: number]

const FILES: [string, text: string, counts: Three, printed: RegExp][] = [
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
  [
    'fails behind its tests',
    `t.ok(1); process.on('exit', () => { process.exitCode = 3 })`,
    [1, 1, 0],
    /status 3|left a listener for exit/,
  ],
  ['runs less than it planned', `t.plan(2); t.ok(1)`, [1, 1, 0], /^not ok 1 - /m],
]
/** In a process of their own, where the end of the process says more than the lines of tap, which are the same below. */
const ALONE = new Set([
  ...['throws behind a timer of a test', 'throws before its tests', 'ends before its tests do', 'is killed'],
  'fails behind its tests',
])
const alone = FILES.filter(([name]) => ALONE.has(name))
t.equal(alone.length, ALONE.size)
for (const [name, text, counts, printed] of alone) {
  t.test(`a file that ${name}`, async (t) => {
    const result = await run([await aFile(text)])
    t.strictSame(result.counts, counts)
    t.match(result.printed, printed)
  })
}

t.test('in a process that they share, files come to the same, whatever ran before', async (t) => {
  const files = await Promise.all(FILES.map(([, text]) => aFile(text)))
  const { counts, printed } = await run(files, { share: true })
  const sum = (index: 0 | 1 | 2) => FILES.reduce((all, [, , counts]) => all + counts[index], 0)
  t.strictSame(counts, [sum(0), sum(1), sum(2)])
  for (const [index, [name, , [, failed], shown]] of FILES.entries()) {
    const line = `${failed > 0 ? 'not ok' : 'ok'} ${index + 1} - ${files[index]} # time=`
    t.ok(printed.includes(line), `a file that ${name}`, { printed, line })
    t.match(printed, shown.flags === '' ? new RegExp(shown, 'm') : shown)
  }
})

/** Files in the order given, the process of each, and what was printed. */
async function shared(texts: readonly string[], timeout?: number) {
  const files = await Promise.all(
    texts.map((text, n) =>
      aFile(`import { writeFileSync } from 'node:fs'; const PID = '${folder}/pid-${n}'
      writeFileSync(PID, String(process.pid))\n${text}`),
    ),
  )
  const result = await run(files, { share: true, ...(timeout && { timeout }) })
  const pids = await Promise.all(files.map((_, n) => readFile(join(folder, `pid-${n}`), 'utf8')))
  return { ...result, files, pids }
}

const PASSES = `t.test('a', async (t) => { await new Promise((r) => setTimeout(r, 100)); t.ok(1) }); t.teardown(() => {})`

t.test('files share a process, but for those that want one of their own', async (t) => {
  const alone = `t.ok(1)\n// A process of its own: it says so\n`
  const { counts, pids, printed } = await shared([PASSES, PASSES, alone, PASSES, PASSES])
  t.strictSame(counts, [5, 0, 0])
  const [one, two, own, three, four] = pids
  t.equal(new Set([one, two, three, four]).size, 1)
  t.not(own, one)
  t.equal(printed.match(/^ok \d+ - .*cpu=\d/gm)?.length, 5)
})

const TRACES: [text: string, said: string][] = [
  [`process.env.CHANGED = '1'`, 'changed process.env.CHANGED'],
  [`process.chdir('/')`, 'changed the working directory'],
  [`process.umask(0o077)`, 'changed the umask'],
  [`Date.now = () => 0`, 'changed Date.now'],
  [`globalThis.fetch = async () => {}`, 'changed globalThis.fetch'],
  [`globalThis.leaked = 1`, 'changed globalThis.leaked'],
  [`console.warn = () => {}`, 'changed console.warn'],
  [`process.on('SIGUSR2', () => {})`, 'left a listener for SIGUSR2'],
  [`process.on('exit', () => {})`, 'left a listener for exit'],
  [
    `const { spawn } = await import('node:child_process'); spawn('sleep', ['60'], { stdio: 'ignore' }).unref()`,
    'left the process',
  ],
]
t.test('a file that leaves its process changed has failed, and the next has another process', async (t) => {
  const { counts, pids, printed, files } = await shared([
    `process.env.BACK = '1'; t.teardown(() => delete process.env.BACK)\n${PASSES}`,
    `${TRACES.map(([text]) => text).join('\n')}\n${PASSES}`,
    PASSES,
  ])
  process.kill(Number(/left the process (\d+): sleep 60/.exec(printed)?.[1]))
  t.strictSame(counts, [3, TRACES.length, 0])
  for (const [, said] of TRACES) t.match(printed, `not ok - ${files[1]}: ${said}`)
  t.match(printed, 'it has to put that back, or to say `// A process of its own: WHY`')
  t.equal(pids[0], pids[1], 'what is put back is no change')
  t.not(pids[1], pids[2])
})

t.test('a file that takes the shared process with it has failed, and the others run elsewhere', async (t) => {
  const { counts, pids, printed, files } = await shared([
    PASSES,
    `t.test('a', async (t) => { t.ok(1); process.kill(process.pid, 'SIGKILL'); await new Promise(() => {}) })`,
    PASSES,
    `t.test('a', async (t) => { t.ok(1); process.exit(0) })`,
    PASSES,
    `t.test('a', async (t) => { t.ok(1) }); setTimeout(() => process.abort(), 20)`,
    PASSES,
  ])
  t.strictSame(counts, [7, 3, 0])
  for (const [index, file] of files.entries())
    t.match(printed, `${index % 2 === 1 ? 'not ok' : 'ok'} ${index + 1} - ${file} # time=`)
  t.match(printed, `not ok - ${files[1]}: ended by SIGKILL`)
  t.match(printed, `# ran in one process after: ${files[0]}`)
  t.equal(new Set(pids).size, 4)
})

t.test('what is thrown after the end of a file is of that file', async (t) => {
  const { counts, printed, files } = await shared([
    `import { existsSync } from 'node:fs'
     t.test('a', async (t) => {
       t.ok(1)
       const wait = setInterval(() => {
         if (!existsSync('${folder}/next')) return
         clearInterval(wait)
         throw new Error('too late')
       }, 10).unref()
     })`,
    `t.test('b', async (t) => { writeFileSync('${folder}/next', ''); await new Promise((r) => setTimeout(r, 300)); t.ok(1) })`,
    PASSES,
  ])
  t.strictSame(counts, [3, 1, 0])
  t.match(printed, `not ok - ${files[0]}: threw after its end, while ${files[1]} ran: Error: too late`)
  t.match(printed, `ok 2 - ${files[1]}`)
})

t.test('a file that leaves something to wait for has failed, and the others run', async (t) => {
  const server = `const { createServer } = await import('node:http'); createServer().listen(0, '127.0.0.1')`
  const { counts, printed, files } = await shared(
    [PASSES, `${server}\nt.test('a', async (t) => { t.ok(1) })`, PASSES],
    5,
  )
  t.strictSame(counts, [3, 1, 0])
  t.match(printed, new RegExp(`^not ok 2 - ${files[1]}`, 'm'))
  t.match(printed, /timeout/)
  t.match(printed, new RegExp(`^ok 3 - ${files[2]}`, 'm'))
})

t.test('the time that a file may take ends with it', async (t) => {
  // tap kills its process ten seconds after the time is over.
  const slow = `t.setTimeout(60_000); t.test('a', { timeout: 60_000 }, async (t) => { await new Promise((r) => setTimeout(r, 16_000)); t.ok(1) })`
  const { counts, pids } = await shared([`t.ok(1)`, slow], 5)
  t.strictSame(counts, [2, 0, 0])
  t.equal(pids[0], pids[1])
})

t.test('a module that files share cannot keep the tap of one of them', async (t) => {
  const helper = await aFile('export const use = () => t')
  const { printed } = await shared([`const { use } = await import('${helper}'); use()\n${PASSES}`])
  t.match(printed, /imports tap; only the test file itself can/)
})

const LONG = `t.test('a', () => new Promise((resolve) => setTimeout(resolve, 3000)))`
t.test('a file that takes too long has failed', async (t) => {
  const waiting = await run([await aFile(LONG)], { timeout: 1 })
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
  t.match(await runTests(files, { jobs: 1, share: true }), { passed: 3, failed: 0, skipped: 0 })
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
  const [nats, one, two, root] = files
  const env = { ...process.env, KEEPSAKE_TEST_DATABASE_URL: 'postgres://not-needed' }
  const { stdout } = await promisify(execFile)(process.execPath, ['test/run.ts', ...files], { env })
  // What it says about each file as it runs is above the first empty line.
  const lines = stdout.trimEnd().split('\n')
  t.strictSame(lines.slice(lines.indexOf('') + 1), [
    'Not tested on this machine:',
    `- Chromium is not installed: ${[one, two].sort().join(', ')}`,
    `- nats-server is not installed: ${nats}`,
    `- needs root: ${root}`,
    'On Debian and Ubuntu `local/setup.sh --tests` installs what is missing; then run the tests again.',
    '',
    '3 passed, 0 failed, 5 skipped',
  ])
  const skip = { file: 'test/a.ts', why: 'needs root' }
  t.strictSame(notTested([skip, skip]), ['Not tested on this machine:', '- needs root: test/a.ts', ''])
  t.strictSame(notTested([]), [])
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
