import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { succeededOf } from '../../crds/run.ts'
import { startApiServer } from '../support/api-server.ts'
import { eachKind } from '../support/each-kind.ts'
import { eventually } from '../support/eventually.ts'
import { controllersOf, operatorEnv } from '../support/operator-world.ts'
import { TRANSCODE } from '../support/program-kinds.ts'
import { quickStart } from '../support/quick-start.ts'

const MAIN = fileURLToPath(new URL('../../operator/main.ts', import.meta.url))

/** The real program, against an API server that outlives it. */
async function open(t: { teardown(fn: () => Promise<void>): unknown }, kit = TRANSCODE) {
  const api = await startApiServer()
  const folder = mkdtempSync(join(tmpdir(), 'operator-'))
  const kubeconfig = join(folder, 'config')
  const cluster = { server: api.url, 'insecure-skip-tls-verify': true }
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster }],
      users: [{ name: 'u', user: {} }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    }),
  )
  const started: ChildProcess[] = []
  t.teardown(async () => {
    for (const child of started) if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    await api.close()
    rmSync(folder, { recursive: true })
  })
  function start(env: Record<string, string> = {}) {
    const all = { ...operatorEnv({ LEADER_ELECTION: 'false', LOG_LEVEL: 'error', ...env }), KUBECONFIG: kubeconfig }
    const child = spawn(process.execPath, [MAIN], {
      env: { PATH: process.env['PATH'], ...quickStart(), ...all },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    started.push(child)
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (d) => {
        output += d
      })
    const exit = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
    return { child, exit, output: () => output }
  }
  return { api, start, ...controllersOf(api.store, kit) }
}

eachKind(t, (t, kit) => {
  for (const where of ['operator.job-created', 'operator.status-applied', 'operator.status-applied:2']) {
    t.test(`killed at ${where}, the next one goes on as if nothing had happened`, async (t) => {
      const w = await open(t, kit)
      w.submit('med-1')
      const first = w.start({ KEEPSAKE_FAILPOINT: where })
      // A resource that goes well is written about twice: when its pod runs and at its end.
      const atTheEnd = where.endsWith(':2')
      if (atTheEnd) {
        await w.awaitJob('med-1')
        w.run('med-1')
        await eventually('the first status', () => w.resource('med-1')?.status?.phase === 'Running')
        w.succeed('med-1')
      }
      t.strictSame(await first.exit, [null, 'SIGKILL'], first.output())
      w.start()
      await eventually('a status', () => w.resource('med-1')?.status?.jobName)
      if (!atTheEnd) {
        w.run('med-1')
        w.succeed('med-1')
      }
      await eventually('success', () => succeededOf(w.resource('med-1')?.status)?.status === 'True')
      t.equal(w.jobs().length, 1)
      t.match(w.resource('med-1')?.status, { attempts: 1, progress: { percent: 100 } })
    })
  }
})

t.test('SIGTERM gives the lease back and ends well', async (t) => {
  const w = await open(t)
  w.submit('med-1')
  const operator = w.start({ LEADER_ELECTION: 'true' })
  await w.awaitJob('med-1')
  operator.child.kill('SIGTERM')
  t.strictSame(await operator.exit, [0, null], operator.output())
  const leases = { group: 'coordination.k8s.io', version: 'v1', plural: 'leases', kind: 'Lease' }
  const [lease] = w.api.store.all<{ metadata: { name: string }; spec: { holderIdentity?: string } }>(leases)
  t.equal(lease?.spec.holderIdentity, undefined)
})

t.test('a lease taken away ends the process at once', async (t) => {
  const w = await open(t)
  w.submit('med-1')
  const operator = w.start({ LEADER_ELECTION: 'true' })
  await w.awaitJob('med-1')
  const leases = { group: 'coordination.k8s.io', version: 'v1', plural: 'leases', kind: 'Lease' }
  const [lease] = w.api.store.all(leases)
  w.api.store.replace(leases, { ...(lease as { metadata: { name: string } }), spec: { holderIdentity: 'thief' } })
  t.strictSame(await operator.exit, [1, null])
})

t.test('a bad configuration is told at once', async (t) => {
  const w = await open(t)
  const operator = w.start({ JOB_IMAGE: '', PROGRESS_KEY: 'short' })
  t.strictSame(await operator.exit, [1, null])
  t.match(operator.output(), /JOB_IMAGE[\s\S]*PROGRESS_KEY|PROGRESS_KEY[\s\S]*JOB_IMAGE/)
})
