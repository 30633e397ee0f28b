import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { KubeConfig } from '@kubernetes/client-node'
import t from 'tap'
import { succeededOf } from '../../crds/run.ts'
import { TRANSCODE_JOBS } from '../../crds/transcode-job.ts'
import { type ProgressReport, progressToken } from '../../lib/contract/progress.ts'
import { loadConfig } from '../../lib/runtime/config.ts'
import { EVENTS_V1 } from '../../lib/runtime/kube/cluster.ts'
import { openKubeCluster } from '../../lib/runtime/kube/kube-cluster.ts'
import { OperatorConfig } from '../../operator/config.ts'
import { startOperator } from '../../operator/operator.ts'
import { startApiServer } from '../support/api-server.ts'
import { eachKind } from '../support/each-kind.ts'
import { eventually } from '../support/eventually.ts'
import { noIpv6 } from '../support/ipv6.ts'
import { controllersOf, operatorEnv } from '../support/operator-world.ts'
import { KITS, TRANSCODE } from '../support/program-kinds.ts'
import { quietLog } from '../support/quiet-log.ts'

/** A lease is lost when a test takes it, never because a busy machine stops this process for a second. */
const leader = { leaseDurationMs: 120_000, renewDeadlineMs: 60_000, retryPeriodMs: 50 }
const report: ProgressReport = { percent: 12.7, speed: 1.84, etaSeconds: 61, stage: 'Encoding', accelerator: 'cpu' }

async function open(t: { teardown(fn: () => Promise<void>): unknown }, kit = TRANSCODE, progressIntervalMs = 150) {
  const api = await startApiServer()
  t.teardown(() => api.close())
  const kube = new KubeConfig()
  kube.loadFromClusterAndUser({ name: 'test', server: api.url, skipTLSVerify: true }, { name: 'test' })
  async function start(env: Record<string, string> = {}) {
    const fatal: Error[] = []
    const log = quietLog()
    const cluster = openKubeCluster({ log, config: kube, perSecond: 1000, burst: 1000 })
    const config = loadConfig(OperatorConfig, operatorEnv(env))
    const tuning = { progressIntervalMs, leader }
    const operator = await startOperator({ config, cluster, log, tuning, onFatal: (e) => void fatal.push(e) })
    const close = async () => {
      await operator.close()
      await cluster.close()
    }
    t.teardown(close)
    return { ...operator, cluster, fatal, close }
  }
  return { api, start, ...controllersOf(api.store, kit) }
}

async function post(url: string, token: string | undefined, body: unknown, init: RequestInit = {}) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { ...(token && { authorization: `Bearer ${token}` }), 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...init,
  })
  await response.body?.cancel()
  return response.status
}

/** Sends one chunk after the other until there is an answer. */
async function pour(url: string, token: string): Promise<number | undefined> {
  const req = request(url, { method: 'POST', headers: { authorization: `Bearer ${token}` } })
  const timer = setInterval(() => req.write('x'.repeat(1024)), 5)
  try {
    const [response] = (await once(req, 'response')) as [IncomingMessage]
    return response.statusCode
  } finally {
    clearInterval(timer)
    req.on('error', () => {})
    req.destroy()
  }
}

t.test('without HOST, pods, probes and scrapes reach it by IPv4 and by IPv6', { skip: noIpv6 }, async (t) => {
  const w = await open(t)
  const operator = await w.start({ HOST: '' })
  for (const host of ['127.0.0.1', '[::1]']) {
    const at = (url: string) => url.replace('127.0.0.1', host)
    t.equal(await post(at(operator.progressUrl), undefined, report), 401, `progress, ${host}`)
    for (const url of [`${operator.healthUrl}/livez`, operator.metricsUrl])
      t.equal((await fetch(at(url))).status, 200, at(url))
  }
})

eachKind(t, (t, kit) => {
  t.test('a resource becomes a Job, shows its progress, and ends', async (t) => {
    const w = await open(t, kit)
    const operator = await w.start()
    w.submit('med-1')
    await w.awaitJob('med-1')
    w.run('med-1')
    await eventually('Running', () => w.resource('med-1')?.status?.phase === 'Running')

    const env = w.envOf('med-1')
    t.equal(env['PROGRESS_URL'], operator.progressUrl)
    t.equal(await post(operator.progressUrl, env['PROGRESS_TOKEN'], report), 202)
    await eventually('progress', () => w.resource('med-1')?.status?.progress)
    t.match(w.resource('med-1')?.status, {
      phase: 'Running',
      accelerator: 'cpu',
      progress: { percent: 12, speed: '1.8x', etaSeconds: 61, stage: 'Encoding' },
    })

    w.succeed('med-1')
    await eventually('100 percent', () => succeededOf(w.resource('med-1')?.status)?.status === 'True')
    t.match(w.resource('med-1')?.status, { phase: 'Succeeded', progress: { percent: 100, playable: [kit.output.id] } })
    t.equal(w.jobOf('med-1').spec.ttlSecondsAfterFinished, 21_600)
    await eventually('410', async () => (await post(operator.progressUrl, env['PROGRESS_TOKEN'], report)) === 410)
    await eventually('both events', () => w.api.store.all(EVENTS_V1).length >= 2)
    t.match(w.api.store.all(EVENTS_V1), [{ reason: 'JobCreated' }, { reason: 'Succeeded' }])
  })

  t.test(
    'progress is written at once when it is the first or makes something playable, else at intervals',
    async (t) => {
      // Long enough for three reports to arrive within one interval on a busy machine.
      const w = await open(t, kit, 2000)
      const operator = await w.start()
      w.submit('med-1')
      await w.awaitJob('med-1')
      w.run('med-1')
      await eventually('Running', () => w.resource('med-1')?.status?.phase === 'Running')
      const token = w.envOf('med-1')['PROGRESS_TOKEN']
      const percent = () => w.resource('med-1')?.status?.progress?.percent
      const writes = () => w.api.seen.filter((r) => r.query.get('fieldManager') === 'keepsake-progress').length
      const send = (change: Partial<ProgressReport>) => post(operator.progressUrl, token, { ...report, ...change })

      await send({ percent: 1 })
      await eventually('the first', () => percent() === 1)
      for (const p of [2, 3, 4]) await send({ percent: p })
      t.equal(writes(), 1)
      await send({ percent: 5, playable: [kit.output.id, 'never heard of'] })
      await eventually('playable', () => percent() === 5)
      t.strictSame(w.resource('med-1')?.status?.progress?.playable, [kit.output.id])
      for (const p of [6, 7, 8]) await send({ percent: p })
      t.equal(percent(), 5)
      await eventually('the newest last', () => percent() === 8)
      t.strictSame(w.resource('med-1')?.status?.progress?.playable, [kit.output.id], 'what was playable stays so')
      t.equal(writes(), 3)
    },
  )
})

t.test('resources of the same name and different kinds have nothing to do with each other', async (t) => {
  const w = await open(t)
  const others = KITS.map((kit) => controllersOf(w.api.store, kit))
  const operator = await w.start()
  for (const of of others) of.submit('one')
  for (const of of others) await of.awaitJob('one')
  for (const of of others) of.run('one')
  for (const of of others) await eventually('Running', () => of.resource('one')?.status?.phase === 'Running')
  t.equal(new Set(others.map((of) => of.jobOf('one').metadata.name)).size, KITS.length)

  const [first, ...rest] = others as [(typeof others)[0], ...typeof others]
  t.equal(await post(operator.progressUrl, first.envOf('one')['PROGRESS_TOKEN'], report), 202)
  await eventually('progress', () => first.resource('one')?.status?.progress)
  first.succeed('one')
  await eventually('success', () => succeededOf(first.resource('one')?.status)?.status === 'True')
  for (const of of rest) {
    t.match(of.resource('one')?.status, { phase: 'Running', progress: undefined })
    t.equal(await post(operator.progressUrl, of.envOf('one')['PROGRESS_TOKEN'], report), 202, 'still runs')
  }
  t.equal(await post(operator.progressUrl, first.envOf('one')['PROGRESS_TOKEN'], report), 410)
})

t.test('reports that nobody asked for get their answer', async (t) => {
  const w = await open(t)
  const operator = await w.start()
  const made = w.submit('med-1')
  const { name: jobName } = (await w.awaitJob('med-1')).metadata
  const subject = {
    kind: 'TranscodeJob' as const,
    namespace: 'media',
    name: 'med-1',
    uid: made.metadata.uid ?? '',
    jobName,
  }
  await eventually('jobName', () => w.resource('med-1')?.status?.jobName)
  const key = 'k'.repeat(32)
  const good = progressToken(key, subject)
  const url = operator.progressUrl
  t.equal(good, w.envOf('med-1')['PROGRESS_TOKEN'])
  await eventually('ready', async () => (await fetch(`${operator.healthUrl}/readyz`)).status === 200)

  const cases: [string, number, () => Promise<number>][] = [
    ['no token', 401, () => post(url, undefined, report)],
    ['a token signed with another key', 401, () => post(url, progressToken('other'.repeat(8), subject), report)],
    ['half a token', 401, () => post(url, good.split('.')[0], report)],
    ['an unknown resource', 410, () => post(url, progressToken(key, { ...subject, name: 'med-2' }), report)],
    ['a re-created resource', 410, () => post(url, progressToken(key, { ...subject, uid: 'old' }), report)],
    ['the Job before this one', 410, () => post(url, progressToken(key, { ...subject, jobName: 'tj-old' }), report)],
    ['another kind', 410, () => post(url, progressToken(key, { ...subject, kind: 'HighlightRender' }), report)],
    ['no JSON', 400, () => post(url, good, '{')],
    ['more than everything', 400, () => post(url, good, { ...report, percent: 101 })],
    ['no progress at all', 400, () => post(url, good, {})],
    ['a long story', 413, () => post(url, good, { ...report, acceleratorReason: 'x'.repeat(5000) })],
    ['another path', 404, () => post(url.replace('progress', 'metrics'), good, report)],
    ['another method', 405, () => post(url, good, report, { method: 'PUT' })],
    ['a good one', 202, () => post(url, good, report)],
  ]
  for (const [name, want, send] of cases) t.equal(await send(), want, name)
  t.equal(await pour(url, good), 413, 'a body without end is cut off')
  const text = await (await fetch(operator.metricsUrl)).text()
  t.match(text, /keepsake_progress_reports_total\{code="410"\} 4/)
})

t.test('health says when the caches are complete; metrics are served', async (t) => {
  const w = await open(t)
  const looked = Promise.withResolvers<void>()
  w.api.failNext({ match: (r) => r.path.endsWith('/pods'), status: 500, after: looked.promise })
  const operator = await w.start()
  const ready = async () => (await fetch(`${operator.healthUrl}/readyz`)).status
  t.equal(await ready(), 503)
  t.equal((await fetch(`${operator.healthUrl}/livez`)).status, 200)
  looked.resolve()
  await eventually('ready', async () => (await ready()) === 200)
  t.equal((await fetch(`${operator.healthUrl}/secrets`)).status, 404)
  const text = await (await fetch(operator.metricsUrl)).text()
  for (const line of [
    'keepsake_transcode_jobs{phase="Running"} 0',
    'keepsake_highlight_renders{phase="Running"} 0',
    'keepsake_cache_objects{resource="pods"} 0',
    'keepsake_watch_interruptions_total{resource="pods"} 1',
    'controller_runtime_reconcile_total{controller="transcodejob",result="error"} 0',
    'controller_runtime_reconcile_total{controller="highlightrender",result="error"} 0',
    'workqueue_depth{name="highlightrender",controller="highlightrender",priority="0"} 0',
    'leader_election_master_status{name="keepsake-operator"}',
  ]) {
    t.ok(text.includes(line), line)
  }
})

t.test('of two operators one works; when it is stopped the other goes on, and nothing happens twice', async (t) => {
  const w = await open(t)
  const [a, b] = [await w.start(), await w.start()]
  const [first, second] = await eventually('a leader', () =>
    a.isLeading() ? [a, b] : b.isLeading() ? [b, a] : undefined,
  )
  t.notOk(second.isLeading())
  w.submit('med-1')
  await w.awaitJob('med-1')
  w.run('med-1')
  await eventually('Running', () => w.resource('med-1')?.status?.phase === 'Running')
  t.equal(await post(second.progressUrl, w.envOf('med-1')['PROGRESS_TOKEN'], report), 202, 'any replica takes reports')
  await eventually('progress', () => w.resource('med-1')?.status?.progress?.percent === 12)

  await first.close()
  w.submit('med-2')
  w.succeed('med-1')
  await w.awaitJob('med-2')
  await eventually('success', () => succeededOf(w.resource('med-1')?.status)?.status === 'True')
  t.ok(second.isLeading())
  t.equal(w.jobs().length, 2)
  t.strictSame([...first.fatal, ...second.fatal], [])
})

t.test('an operator that loses its lease says so and writes no more', async (t) => {
  const w = await open(t)
  const operator = await w.start()
  await eventually('leading', () => operator.isLeading())
  const leases = { group: 'coordination.k8s.io', version: 'v1', plural: 'leases', kind: 'Lease' }
  const lease = w.api.store.all<{ metadata: { name: string }; spec: object }>(leases)[0]
  w.api.store.replace(leases, {
    ...(lease as { metadata: { name: string } }),
    spec: { holderIdentity: 'thief', leaseDurationSeconds: 60 },
  })
  await eventually('fatal', () => operator.fatal.length === 1)
  t.match(operator.fatal, [{ message: /lease is lost/ }])
  w.submit('med-1')
  await sleep(100)
  t.equal(w.jobs().length, 0)
})

t.test('one namespace is all it looks at, if told so', async (t) => {
  const w = await open(t)
  await w.start({ WATCH_NAMESPACE: 'media', LEADER_ELECTION: 'false' })
  w.submit('med-1')
  await w.awaitJob('med-1')
  const lists = w.api.seen.filter((r) => r.method === 'GET' && r.path.startsWith('/apis/media'))
  t.ok(lists.every((r) => r.path.includes('/namespaces/media/')))
  t.equal(w.api.seen.filter((r) => r.path.includes('/leases')).length, 0)
})

t.test('hundreds of resources at once are each given one Job', async (t) => {
  const w = await open(t)
  for (let i = 0; i < 200; i++) w.submit(`med-${i}`)
  await w.start({ LEADER_ELECTION: 'false' })
  await eventually('all Jobs', () => w.jobs().length === 200, 240_000)
  await eventually(
    'all statuses',
    () => w.api.store.all<{ metadata: { name: string }; status?: object }>(TRANSCODE_JOBS).every((r) => r.status),
    240_000,
  )
  t.equal(new Set(w.jobs().map((j) => j.metadata.ownerReferences?.[0]?.name)).size, 200)
})

t.test('configuration reports every mistake at once, and no value', async (t) => {
  const bad = {
    JOB_IMAGE: '',
    PROGRESS_KEY: 'secret',
    JOB_MEMORY: 'much',
    JOB_PRIORITY_CLASSES: '{"urgent":"x"}',
    JOB_NODE_SELECTOR: '{"pool":1}',
    JOB_TOLERATIONS: '[{"operator":"Like"}]',
    JOB_POD_LABELS: '{"team":"not a value"}',
    JOB_POD_ANNOTATIONS: '{"media.keepsake.dev/role":"helper"}',
  }
  const error = t.throws(() => loadConfig(OperatorConfig, operatorEnv(bad))) as Error
  for (const name of Object.keys(bad)) t.match(error.message, name)
  t.notMatch(error.message, 'secret')
  const good = loadConfig(OperatorConfig, operatorEnv({ JOB_PRIORITY_CLASSES: '{"interactive":"now"}' }))
  t.match(good, { LEADER_ELECTION: true, JOB_PRIORITY_CLASSES: { interactive: 'now' } })
  // By these the operator, Kubernetes and the NetworkPolicies tell pods from each other.
  for (const name of [
    'media.keepsake.dev/role',
    'job-name',
    'batch.kubernetes.io/job-name',
    'app.kubernetes.io/instance',
  ])
    t.throws(
      () => loadConfig(OperatorConfig, operatorEnv({ JOB_POD_LABELS: JSON.stringify({ [name]: 'x' }) })),
      /LABELS/,
    )
  const labels = { 'sidecar.istio.io/inject': 'false', team: '' }
  t.match(loadConfig(OperatorConfig, operatorEnv({ JOB_POD_LABELS: JSON.stringify(labels) })), {
    JOB_POD_LABELS: labels,
  })
})
