import { existsSync, readdirSync } from 'node:fs'
import { mkdir, readFile, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { PODS } from '../../../lib/runtime/kube/cluster.ts'
import { resolveFromRepository } from '../../../local/cluster/command.ts'
import { expand, rewritePath } from '../../../local/cluster/environment.ts'
import { numberOf } from '../../../local/cluster/memory-limit.ts'
import type { Pod } from '../../../local/cluster/types.ts'
import { waitForExit } from '../../../local/process-table.ts'
import { eventually } from '../../support/eventually.ts'
import { jobCluster, testFolder } from '../../support/local-jobs.ts'

const terminatedOf = (over: Awaited<ReturnType<ReturnType<typeof jobCluster>['over']>>) =>
  over.pods[0]?.status?.containerStatuses?.[0]?.state.terminated

t.test('a container gets what its pod says and nothing of this process', async (t) => {
  process.env['KEEPSAKE_TEST_SECRET'] = 'must not leak'
  t.teardown(() => delete process.env['KEEPSAKE_TEST_SECRET'])
  const c = jobCluster(t, {
    secrets: { store: { STORE_KEY: 'from secret', STORE_FOLDER: '/work/store', SHADOWED: 'secret' } },
    extraEnv: { EXTRA: 'extra', SHADOWED: 'extra' },
  })
  const field = (name: string, fieldPath: string) => ({ name, valueFrom: { fieldRef: { fieldPath } } })
  const resource = (name: string, resource: string, divisor?: string) => ({
    name,
    valueFrom: { resourceFieldRef: { resource, ...(divisor && { divisor }) } },
  })
  const env = [
    { name: 'PLAIN', value: 'text' },
    { name: 'COMPOSED', value: '$(PLAIN)-$(STORE_KEY)-$(ABSENT)-$$(PLAIN)' },
    { name: 'WORK_FOLDER', value: '/work' },
    { name: 'INNER', value: '/work/inner/file' },
    { name: 'OUTER', value: '/workshop' },
    { name: 'KEYED', valueFrom: { secretKeyRef: { name: 'store', key: 'STORE_KEY' } } },
    resource('CORES', 'requests.cpu'),
    resource('MEMORY_MIB', 'limits.memory', '1Mi'),
    resource('NO_LIMIT', 'limits.cpu'),
    field('NAME', 'metadata.name'),
    field('NAMESPACE', 'metadata.namespace'),
    field('UID', 'metadata.uid'),
    field('JOB', "metadata.labels['batch.kubernetes.io/job-name']"),
  ]
  await c.create('env', 'env -0', {
    pod: { volumes: [{ name: 'work', emptyDir: {} }] },
    container: {
      env,
      resources: { requests: { cpu: '1500m' }, limits: { memory: '2Gi' } },
      envFrom: [{ secretRef: { name: 'store' } }],
      volumeMounts: [{ name: 'work', mountPath: '/work/' }],
    },
  })
  const { pods } = await c.over('env')
  const [pod] = pods
  const lines = c.cluster.logs(c.key(pod?.metadata.name ?? '')).split('\0')
  const seen = Object.fromEntries(lines.filter(Boolean).map((line) => line.split(/=(.*)/s)))
  const work = seen['WORK_FOLDER']
  t.match(seen, {
    PLAIN: 'text',
    COMPOSED: 'text-from secret-$(ABSENT)-$(PLAIN)',
    INNER: `${work}/inner/file`,
    OUTER: '/workshop',
    KEYED: 'from secret',
    STORE_FOLDER: '/work/store',
    SHADOWED: 'secret',
    EXTRA: 'extra',
    CORES: '2',
    MEMORY_MIB: '2048',
    NO_LIMIT: '0',
    NAME: pod?.metadata.name,
    NAMESPACE: 'test',
    UID: pod?.metadata.uid,
    JOB: 'env',
    PATH: process.env['PATH'],
  })
  t.ok(work?.endsWith(`/pods/${pod?.metadata.uid}/volumes/work`), 'the mount is a folder of the pod')
  const known = new Set([...env.map((e) => e.name), 'STORE_KEY', 'STORE_FOLDER', 'SHADOWED', 'EXTRA'])
  // What the test runner itself puts into the environment of every process begins like these.
  const isOfRunner = (name: string) => name.startsWith('_TAPJS_') || name === 'NODE_OPTIONS'
  const own = ['PATH', 'HOME', 'LANG', 'NODE_COMPILE_CACHE', 'TMPDIR', 'TERMINATION_LOG', 'PWD', 'OLDPWD', 'SHLVL', '_']
  t.strictSame(
    Object.keys(seen).filter((name) => !known.has(name) && !own.includes(name) && !isOfRunner(name)),
    [],
  )
})

t.test('paths and variables are replaced as the API says', async (t) => {
  const mounts = new Map([
    ['/work', '/scratch/a'],
    ['/work/deep', '/scratch/b'],
  ])
  t.equal(rewritePath('/work/x', mounts), '/scratch/a/x')
  t.equal(rewritePath('/work/deep/x', mounts), '/scratch/b/x')
  t.equal(rewritePath('/worker', mounts), '/worker')
  t.equal(rewritePath('see /work', mounts), 'see /work')
  t.equal(expand('$(A)$(B)$$(A)$A', { A: '1' }), '1$(B)$(A)$A')
  t.strictSame(
    [numberOf('8Gi'), numberOf('500M'), numberOf(12), numberOf('half'), numberOf(undefined)],
    [8 * 2 ** 30, 5e8, 12, undefined, undefined],
  )
})

t.test('a program of this repository stands in for the one in the image', async (t) => {
  const here = new URL('../../../jobs/transcode/main.ts', import.meta.url).pathname
  const resolve = (command: string[] | undefined, args: string[] | undefined) =>
    resolveFromRepository({ name: 'main', terminationMessagePolicy: 'File', command, args })
  const want = { file: process.execPath, args: [here, '--x'] }
  t.strictSame(resolve(['node', '/app/jobs/transcode/main.js'], ['--x']), want)
  t.strictSame(resolve(undefined, ['jobs/transcode/main.js', '--x']), want)
  t.strictSame(resolve(['node', 'jobs/absent/main.js'], []).args, ['jobs/absent/main.js'], 'node itself will complain')
  t.strictSame(resolve(['sh', '-c', 'exit 0'], undefined), { file: 'sh', args: ['-c', 'exit 0'] })
})

t.test('a termination message is the end of the log, or of the output where that is asked for', async (t) => {
  const c = jobCluster(t)
  const fallback = { container: { terminationMessagePolicy: 'FallbackToLogsOnError' }, spec: { backoffLimit: 0 } }
  await c.create('long', `head -c 5000 /dev/zero | tr '\\0' x > $TERMINATION_LOG; printf END >> $TERMINATION_LOG`)
  await c.create('logs', `head -c 9000 /dev/zero | tr '\\0' y; printf END; exit 20`, fallback)
  await c.create('mute', 'echo output; exit 20', { spec: { backoffLimit: 0 } })
  await c.create('fine', 'echo output', fallback)
  await c.create('gone', 'rm $TERMINATION_LOG')
  t.match(terminatedOf(await c.over('long'))?.message, /^x{4093}END$/)
  t.match(terminatedOf(await c.over('logs'))?.message, /^y{2045}END$/)
  for (const name of ['mute', 'fine', 'gone']) t.equal(terminatedOf(await c.over(name))?.message, undefined, name)
})

t.test('what a program has started ends with it, and its folder goes', async (t) => {
  const folder = await testFolder(t)
  const c = jobCluster(t, { folder: join(folder, 'cluster'), extraEnv: { FOLDER: folder } })
  await c.create('parent', `echo x > $TMPDIR/left; sleep 60 & echo $! > $FOLDER/child; exit 0`)
  await c.over('parent')
  const child = Number(await readFile(join(folder, 'child'), 'utf8'))
  t.ok(await waitForExit(child, 30_000))
  await eventually('an empty folder', () => readdirSync(join(folder, 'cluster/pods')).length === 0)
})

t.test('a program that cannot be started or holds too much memory says so', async (t) => {
  const c = jobCluster(t, { memoryCheckMs: 20 })
  const once = { spec: { backoffLimit: 0 } }
  await c.create('absent', '', { ...once, container: { command: ['/no/such/program'] } })
  await c.create('nowhere', 'exit 0', { ...once, container: { workingDir: '/no/such/folder' } })
  await c.create('nul', '', { ...once, container: { command: ['sh', '-c', 'a\0b'] } })
  const hog = 'const all = []; setInterval(() => all.push(Buffer.alloc(2e7, 1)), 5)'
  const container = { command: [process.execPath, '-e', hog], resources: { limits: { memory: '150Mi' } } }
  await c.create('hog', '', { ...once, container })
  t.match(terminatedOf(await c.over('absent')), { exitCode: 128, reason: 'StartError', message: /not found/ })
  t.match(terminatedOf(await c.over('nowhere')), { exitCode: 128, reason: 'StartError', message: /ENOENT/ })
  t.match(terminatedOf(await c.over('nul')), { exitCode: 128, reason: 'StartError' })
  t.match(terminatedOf(await c.over('hog')), { exitCode: 137, signal: 9, reason: 'OOMKilled' })
})

t.test('a pod whose secret is missing waits visibly until its deadline', async (t) => {
  const c = jobCluster(t)
  const container = { envFrom: [{ secretRef: { name: 'absent' } }] }
  const seen: Pod['status'][] = []
  c.cluster.reflect<Pod>(PODS, { onSet: ({ status }) => void seen.push(status), onDelete: () => undefined })
  await c.create('unset', 'exit 0', { container, pod: { activeDeadlineSeconds: 1 }, spec: { backoffLimit: 0 } })
  t.match((await c.over('unset')).pods[0]?.status, { phase: 'Failed', reason: 'DeadlineExceeded' })
  const waiting = { reason: 'CreateContainerConfigError', message: 'secret "absent" not found' }
  const said = seen.find((status) => status?.containerStatuses?.[0]?.state.waiting?.message !== undefined)
  t.match(said, { phase: 'Pending', containerStatuses: [{ state: { waiting } }] })
})

t.test('output is kept in bounds, and in a file where there is a folder for it', async (t) => {
  const logFolder = join(await testFolder(t), 'logs')
  const c = jobCluster(t, { logFolder })
  await c.create('loud', `head -c 2000000 /dev/zero | tr '\\0' z; echo END >&2`)
  const { pods } = await c.over('loud')
  const name = pods[0]?.metadata.name ?? ''
  const logs = c.cluster.logs(c.key(name))
  t.match(logs, /zEND\n$/)
  t.ok(logs.length <= 262_144)
  const file = join(logFolder, `test_${name}.log`)
  await eventually('the whole file', async () => (await readFile(file)).length === 2_000_004)

  for (let i = 0; i < 250; i++) await writeFile(join(logFolder, `old-${i}.log`), '')
  await Promise.all(Array.from({ length: 250 }, (_, i) => utimes(join(logFolder, `old-${i}.log`), i, i)))
  jobCluster(t, { logFolder })
  const left = readdirSync(logFolder)
  t.strictSame([left.length, left.includes(`test_${name}.log`), left.includes('old-50.log')], [200, true, false])
})

t.test('pending pods start by priority, then by age, as there is room', async (t) => {
  const folder = await testFolder(t)
  const c = jobCluster(t, { maxPods: 1, priorityClasses: { high: 100, low: -100 }, extraEnv: { FOLDER: folder } })
  const say = (word: string) => `echo ${word} >> $FOLDER/order`
  await c.create('first', `until test -e $FOLDER/go; do sleep 0.02; done; ${say('first')}`)
  await c.pod('first', 'running', (p) => p.status?.phase === 'Running')
  const jobs = [
    ['low', 'low'],
    ['old', undefined],
    ['new', undefined],
    ['high', 'high'],
  ] as const
  for (const [name, priorityClassName] of jobs) await c.create(name, say(name), { pod: { priorityClassName } })
  const full = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: /Too many pods/ }
  const pending = await c.pod('high', 'a verdict', (p) => p.status?.conditions !== undefined)
  t.match(pending?.status, { phase: 'Pending', conditions: [full] })
  await writeFile(join(folder, 'go'), '')
  await c.over('low')
  t.strictSame((await readFile(join(folder, 'order'), 'utf8')).trim().split('\n'), [
    'first',
    'high',
    'old',
    'new',
    'low',
  ])
})

t.test('a pod that wants a GPU stays pending where there is none, and does not block others', async (t) => {
  const c = jobCluster(t, { maxPods: 1 })
  const gpu = { container: { resources: { limits: { 'nvidia.com/gpu': 1 } } } }
  await c.create('gpu', 'exit 0', gpu)
  await c.create('cpu', 'exit 0')
  t.equal((await c.over('cpu')).final.type, 'Complete')
  const pod = await c.pod('gpu', 'a verdict', (p) => p.status?.conditions !== undefined)
  t.match(pod?.status?.conditions, [{ type: 'PodScheduled', status: 'False', message: /Insufficient nvidia.com\/gpu/ }])
  await c.delete('gpu')
  await eventually('the end of its pod', async () => (await c.pods('gpu')).length === 0)
  const rich = jobCluster(t, { gpus: 1 })
  await rich.create('gpu', 'exit 0', gpu)
  t.equal((await rich.over('gpu')).final.type, 'Complete')
})

t.test('closing stops every program and tells no reader that it failed', async (t) => {
  const folder = await testFolder(t)
  // One of them gets time to end by itself, however slow the machine is, the other one uses up the little that it gets.
  const patient = jobCluster(t, { extraEnv: { FOLDER: folder }, closeGraceSeconds: 60 })
  const c = jobCluster(t, { folder: join(folder, 'cluster'), extraEnv: { FOLDER: folder }, closeGraceSeconds: 0.2 })
  const phases: (string | undefined)[] = []
  for (const { cluster } of [patient, c]) {
    const reflection = cluster.reflect<Pod>(PODS, {
      onSet: (pod) => void phases.push(pod.status?.phase),
      onDelete: () => void phases.push('deleted'),
    })
    await reflection.synced()
  }
  await patient.create('polite', `trap 'echo bye > $FOLDER/bye; exit 0' TERM; echo ready; while :; do sleep 0.02; done`)
  await c.create('deaf', `trap '' TERM; sleep 60 & echo $$ $! > $FOLDER/pids; echo ready; wait; sleep 60`)
  await Promise.all([patient.running('polite'), c.running('deaf')])
  const pids = (await readFile(join(folder, 'pids'), 'utf8')).split(' ').map(Number)
  await Promise.all([patient.cluster.close(), c.cluster.close(), c.cluster.close()])
  for (const pid of pids) t.ok(await waitForExit(pid, 30_000))
  t.equal(await readFile(join(folder, 'bye'), 'utf8'), 'bye\n')
  t.strictSame(
    phases.filter((p) => p !== undefined && !['Pending', 'Running'].includes(p)),
    [],
  )
  t.notOk(existsSync(join(folder, 'cluster/pods')))
  await t.rejects(c.job('deaf'), { name: 'ClusterError', reason: 'Unavailable' })
  await mkdir(join(folder, 'cluster/pods'), { recursive: true })
  const next = jobCluster(t, { folder: join(folder, 'cluster') })
  t.strictSame(await next.cluster.list(PODS), [], 'the next one is empty')
})
