import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import { openLocalCluster } from '../../../local/cluster/local-cluster.ts'
import { isAlive, waitForExit } from '../../../local/process-table.ts'
import { eventually } from '../../support/eventually.ts'
import { jobCluster, testFolder } from '../../support/local-jobs.ts'

const PROGRAM = fileURLToPath(new URL('../../support/local-cluster-child.ts', import.meta.url))

/** A process with a cluster in it; `pids` of what runs there, as the script writes them to `$0`. */
async function hostOf(t: Test, script: string, failpoint = '') {
  const folder = await testFolder(t)
  const pidFile = join(folder, 'pids')
  const args = [
    '--disable-warning=ExperimentalWarning',
    PROGRAM,
    join(folder, 'cluster'),
    script.replace('PIDS', pidFile),
    failpoint,
  ]
  const host = spawn(process.execPath, args, { stdio: 'inherit' })
  t.teardown(() => host.kill('SIGKILL'))
  return { host, folder, cluster: join(folder, 'cluster'), pids: () => pidsIn(pidFile) }
}

const pidsIn = (file: string) => {
  const numbers = existsSync(file) ? readFileSync(file, 'utf8').trim().split(' ').map(Number) : []
  return numbers.length === 2 ? numbers : undefined
}
const ended = (host: ChildProcess) =>
  eventually('the end of the host', () => host.exitCode !== null || host.signalCode !== null)

t.test('kill -9 leaves no program of a pod behind', async (t) => {
  const { host, pids } = await hostOf(t, 'sleep 600 & echo $$ $! > PIDS; wait')
  const running = await eventually('the programs', pids)
  for (const pid of running) t.ok(await isAlive(pid))
  host.kill('SIGKILL')
  for (const pid of running) t.ok(await waitForExit(pid, 30_000), `${pid} is gone`)
})

t.test('an exit without close leaves no program of a pod behind', async (t) => {
  const { host, pids } = await hostOf(t, 'sleep 600 & echo $$ $! > PIDS; wait')
  const running = await eventually('the programs', pids)
  host.kill('SIGTERM')
  await ended(host)
  t.equal(host.exitCode, 3)
  for (const pid of running) t.ok(await waitForExit(pid, 30_000))
})

t.test(
  'the next cluster in a folder sweeps what escaped the last one, and keeps out of one that is in use',
  async (t) => {
    const { host, cluster, pids } = await hostOf(t, 'setsid sleep 600 & echo $$ $! > PIDS; wait')
    const [, escaped = 0] = await eventually('the programs', pids)
    await eventually('the escape', () => readFileSync(`/proc/${escaped}/cmdline`, 'utf8').startsWith('sleep'))
    t.throws(() => jobCluster(t, { folder: cluster }), /is in use by process/)
    t.ok(await isAlive(escaped), 'which does not touch the programs of the living')
    host.kill('SIGKILL')
    await ended(host)
    t.ok(await isAlive(escaped))
    t.ok(readdirSync(join(cluster, 'pods')).length > 0)
    const next = jobCluster(t, { folder: cluster })
    t.ok(await waitForExit(escaped, 30_000))
    t.notOk(existsSync(join(cluster, 'pods')))
    await next.create('after', 'exit 0')
    t.equal((await next.over('after')).final.type, 'Complete')
  },
)

t.test('the next cluster in a folder removes it under the hands of what escaped and still writes there', async (t) => {
  const write = 'i=0; while :; do i=$((i + 1)); : > $0$i; done'
  const { host, cluster, pids } = await hostOf(
    t,
    `for who in a b c; do setsid sh -c '${write}' $who & done; echo $$ $! > PIDS; wait`,
  )
  const [, escaped = 0] = await eventually('the programs', pids)
  await eventually('what they write', () => {
    const written = readdirSync(join(cluster, 'pods'), { recursive: true, encoding: 'utf8' })
    return ['a10', 'b10', 'c10'].every((name) => written.some((path) => path.endsWith(`/${name}`)))
  })
  host.kill('SIGKILL')
  await ended(host)
  t.ok(await isAlive(escaped))
  jobCluster(t, { folder: cluster })
  t.notOk(await isAlive(escaped))
  t.notOk(existsSync(join(cluster, 'pods')))
})

t.test('dying right after a program was started leaves nothing behind', async (t) => {
  const { host, pids } = await hostOf(t, 'echo $$ $$ > PIDS; exec sleep 600', 'local-cluster.container-started')
  await ended(host)
  const pid = pids()?.[0]
  t.ok(pid === undefined || (await waitForExit(pid, 30_000)))
  t.equal(host.signalCode, 'SIGKILL')
})

t.test('a folder stays taken although nobody holds on to its cluster', async (t) => {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const folder = await testFolder(t)
  const openAndForget = () => void openLocalCluster({ folder })
  openAndForget()
  for (let i = 0; i < 5; i++) {
    collectGarbage()
    await sleep(20)
  }
  t.throws(() => openLocalCluster({ folder }), /is in use by process/)
})
