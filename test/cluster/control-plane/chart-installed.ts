import { cp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { GROUP } from '../../../crds/kind.ts'
import { KINDS } from '../../../crds/kinds.ts'
import { established } from '../../support/established.ts'
import { eventually } from '../../support/eventually.ts'
import { CHART, INSTALLABLE, MINIMAL, NAMESPACE, withHelm } from '../chart-support/chart.ts'
import { type Right, rights } from '../chart-support/rights.ts'
import { clientOf } from '../chart-support/token-client.ts'
import { controlPlane } from '../support.ts'

const CRD = 'customresourcedefinition/transcodejobs.media.keepsake.dev'
const CRDS = KINDS.map(({ plural }) => `customresourcedefinition/${plural}.${GROUP}`)
const HOLIDAY = {
  apiVersion: 'media.keepsake.dev/v1alpha1',
  kind: 'TranscodeJob',
  metadata: { name: 'holiday', namespace: NAMESPACE },
  spec: { inputs: [{ id: 'med_1', type: 'video', sourceKey: 'org/a/original', outputPrefix: 'org/a/hls/' }] },
}

function isUnserved(error: Error): false {
  if (/could not find the requested resource|no matches for kind|initializing/.test(error.message)) return false
  throw error
}

const plane = await controlPlane(t)
const { helm, folder } = await withHelm(t, plane)
await helm('install', 'demo', CHART, ...INSTALLABLE)
await established(plane.kubectl, ...CRDS)

/** One SubjectAccessReview each: what the API server would answer to the account. */
async function review(table: readonly Right[]): Promise<boolean[]> {
  const reviews = table.map(({ who, verb, what, namespace, name }) => {
    const [path = '', group = ''] = what.split('@')
    const [resource = '', subresource] = path.split('/')
    const attributes = { verb, group, resource, namespace, ...(subresource && { subresource }), ...(name && { name }) }
    const user = `system:serviceaccount:${NAMESPACE}:demo-keepsake-${who}`
    const groups = ['system:serviceaccounts', `system:serviceaccounts:${NAMESPACE}`, 'system:authenticated']
    const spec = { user, groups, resourceAttributes: attributes }
    return JSON.stringify({ apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec })
  })
  const format = 'jsonpath={.status.allowed}{"\\n"}'
  const answers = await plane.kubectlIn(reviews.join('\n---\n'), 'create', '-f', '-', '-o', format)
  return answers
    .trim()
    .split('\n')
    .map((answer) => answer === 'true')
}

t.test('each program may do what it needs and nothing else', async (t) => {
  const table = rights()
  // The API server hears of new roles a moment after it has stored them.
  const given = table.filter(({ may }) => may)
  await eventually('the roles in force', async () => (await review(given)).every((may) => may)).catch(() => {})
  const answers = await review(table)
  t.equal(answers.length, table.length)
  const wrong = table.filter(({ may }, i) => answers[i] !== may)
  t.same(wrong, [], `${table.length} rights, ${table.filter(({ may }) => may).length} of them given`)
})

t.test('a real token is good for just that', async (t) => {
  const jobs = `/apis/media.keepsake.dev/v1alpha1/namespaces/${NAMESPACE}/transcodejobs`
  const elsewhere = jobs.replace(NAMESPACE, 'media')
  const secrets = `/api/v1/namespaces/${NAMESPACE}/secrets`
  const merge = 'application/merge-patch+json'
  const suspended = { spec: { suspend: true } }
  const phase = { apiVersion: HOLIDAY.apiVersion, kind: HOLIDAY.kind, status: { phase: 'Pending' } }
  const asks: Record<string, [number, string, string, object?, string?][]> = {
    worker: [
      [201, 'POST', jobs, HOLIDAY],
      [200, 'GET', jobs],
      [403, 'GET', elsewhere],
      [403, 'PATCH', `${jobs}/holiday`, suspended, merge],
      [403, 'PATCH', `${jobs}/holiday/status`, phase, merge],
      [403, 'GET', secrets],
    ],
    operator: [
      [200, 'GET', jobs],
      [200, 'PATCH', `${jobs}/holiday/status?fieldManager=test&force=true`, phase, 'application/apply-patch+yaml'],
      [403, 'PATCH', `${jobs}/holiday`, suspended, merge],
      [403, 'POST', jobs, HOLIDAY],
      [403, 'GET', elsewhere],
      [403, 'GET', secrets],
    ],
    api: [[403, 'GET', jobs]],
    jobs: [[403, 'GET', jobs]],
  }
  for (const [who, list] of Object.entries(asks)) {
    const ask = await clientOf(plane, NAMESPACE, `demo-keepsake-${who}`)
    for (const [status, method, path, body, type] of list) {
      t.equal(await ask(method, path, body, type), status, `${who}: ${method} ${path}`)
    }
  }
})

t.test('who may view or edit a namespace may view or edit TranscodeJobs in it', async (t) => {
  const may = async (user: string, verb: string) =>
    (await plane.kubectl('auth', 'can-i', verb, 'tj', '-n', NAMESPACE, '--as', user).catch(() => 'no')).trim()
  for (const role of ['view', 'edit']) {
    await plane.kubectl('create', 'rolebinding', role, '-n', NAMESPACE, `--clusterrole=${role}`, `--user=${role}er`)
  }
  // The roles are put together by a controller.
  await eventually('what who edits may', async () => (await may('editer', 'patch')) === 'yes')
  await eventually('what who views may', async () => (await may('viewer', 'list')) === 'yes')
  t.equal(await may('viewer', 'patch'), 'no')
  t.equal(await may('stranger', 'list'), 'no')
})

t.test('a policy keeps what a person has set, unless the values set it, and outlives its target', async (t) => {
  const name = 'demo-keepsake-media-trash'
  const upgrade = (...args: string[]) => helm('upgrade', 'demo', CHART, ...INSTALLABLE, ...args)
  const patch = (spec: object) =>
    plane.kubectl('patch', 'rp', name, '-n', NAMESPACE, '--type=merge', '-p', JSON.stringify({ spec }))
  await eventually('the policies', async () => {
    await upgrade()
    return (await plane.kubectl('get', 'rp', '-n', NAMESPACE, '-o', 'name')).includes(name)
  })
  await patch({ suspend: true })
  await t.resolves(upgrade())
  const rules = [{ after: 'P90D', action: 'purge' }]
  await patch({ rules })
  await t.rejects(upgrade(), /conflict with "kubectl-patch"/)
  const told = ['--set-json', `retention.policies.MediaTrash.rules=${JSON.stringify(rules)}`]
  t.notMatch(await upgrade(...told), /not one of retention.targets/, 'equal fields are no conflict')
  const spec = ['-n', NAMESPACE, '-o', 'jsonpath={.spec.suspend} {.spec.rules[*].after}']
  t.equal(await plane.kubectl('get', 'rp', name, ...spec), 'true P90D')
  const notes = await upgrade('--set-json', 'retention.targets=["AuditLog"]')
  t.match(notes, `kubectl --namespace ${NAMESPACE} delete retentionpolicy ${name}`)
  t.notMatch(notes, /AuditLog is not one of retention.targets/)
  t.equal(await plane.kubectl('get', 'rp', name, ...spec), 'true P90D', 'which Helm has kept')
  await plane.kubectl('delete', 'rp', '--all', '-n', NAMESPACE)
})

t.test('custom resources survive an uninstall, and the next install takes them over', async (t) => {
  await helm('uninstall', 'demo')
  await t.resolves(plane.kubectl('get', 'tj', 'holiday', '-n', NAMESPACE), 'still there')
  t.equal((await plane.kubectl('get', 'deployments,roles', '-n', NAMESPACE, '-o', 'name')).trim(), '')
  const needed = await plane.kubectl('get', 'serviceaccount,priorityclass', '-n', NAMESPACE, '-o', 'name')
  for (const what of ['serviceaccount/demo-keepsake-jobs', /priorityclass\S*demo-keepsake-normal/]) {
    t.match(needed, what, 'what the next attempt of a Job that survives needs')
  }
  await t.resolves(helm('install', 'demo', CHART, ...INSTALLABLE), 'under the same name')
  await helm('uninstall', 'demo')
  await t.rejects(
    helm('install', 'other', CHART, ...INSTALLABLE),
    /invalid ownership metadata/,
    'not unasked under another',
  )
  await t.resolves(helm('install', 'other', CHART, ...INSTALLABLE, '--take-ownership'), 'but when told so')
  const third = ['third', CHART, ...INSTALLABLE, '--set', 'crds.install=false']
  const taken = /the operator of the release "other" .* already watches keepsake: two releases that watch one namespace/
  await t.rejects(helm('install', ...third), taken, 'two operators for the same TranscodeJobs')
  await t.rejects(helm('install', ...third, '--set', 'watchNamespace=*'), taken, 'nor one for those of all namespaces')
  await t.resolves(helm('upgrade', 'other', CHART, ...INSTALLABLE), 'the first one is none of them')
  await t.resolves(helm('install', ...third, '--set', 'watchNamespace=media'), 'two beside each other')
  await helm('uninstall', 'third')
  await helm('uninstall', 'other')
  await t.resolves(plane.kubectl('get', 'tj', 'holiday', '-n', NAMESPACE))
})

t.test('an upgrade of the release upgrades the definitions', async (t) => {
  await plane.kubectl('delete', ...CRDS)
  const old = join(folder, 'old')
  await cp(CHART, old, { recursive: true })
  const file = join(old, 'files', 'crds', 'transcodejobs.yaml')
  const text = await readFile(file, 'utf8')
  await writeFile(file, text.replaceAll('gpuGivenUp:', 'gpuRefused:'))
  await helm('install', 'demo', old, ...INSTALLABLE)
  t.notMatch(await plane.kubectl('get', CRD, '-o', 'yaml'), /gpuGivenUp/)
  await established(plane.kubectl, ...CRDS)
  // What is established is served a moment later.
  await eventually('a kind that is served', () =>
    plane.kubectlIn(JSON.stringify(HOLIDAY), 'create', '-f', '-').then(() => true, isUnserved),
  )
  await helm('upgrade', 'demo', CHART, ...INSTALLABLE)
  const now = await plane.kubectl('get', CRD, '-o', 'yaml')
  t.match(now, /gpuGivenUp/)
  t.notMatch(now, /gpuRefused/)
  await t.resolves(plane.kubectl('get', 'tj', 'holiday', '-n', NAMESPACE), 'what there was is there')
  await helm('rollback', 'demo', '1')
  t.match(await plane.kubectl('get', CRD, '-o', 'yaml'), /gpuRefused/, 'and back')
  await plane.kubectlIn(text, 'apply', '--server-side', '--force-conflicts', '-f', '-')
  t.match(await plane.kubectl('get', CRD, '-o', 'yaml'), /gpuGivenUp/, 'or without Helm, as documented')
})

t.test('an install whose migrations do not end makes nothing, and is simply tried again', async (t) => {
  const names = async () => (await plane.kubectl('get', 'deployments,services', '-n', NAMESPACE, '-o', 'name')).trim()
  await helm('uninstall', 'demo')
  await t.rejects(helm('install', 'demo', CHART, '--values', MINIMAL, '--timeout', '4s'), /pre-install/)
  t.equal(await names(), '')

  const migrate = ['-n', NAMESPACE, '-l', 'app.kubernetes.io/component=migrate']
  const job = (field: string) => plane.kubectl('get', 'jobs', ...migrate, '-o', `jsonpath={.items[*].${field}}`)
  const [uid, pod] = [await job('metadata.uid'), (await plane.kubectl('get', 'pods', ...migrate, '-o', 'name')).trim()]
  const shows = async (phase: string, ready: boolean) => {
    const status = { phase, conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] }
    const merge = ['--subresource=status', '--type=merge', '-p', JSON.stringify({ status })]
    await plane.kubectl('patch', pod, '-n', NAMESPACE, ...merge)
    await eventually('the Job that sees it', async () => (await job('status.ready')) === (ready ? '1' : '0'))
  }
  await shows('Running', true)
  const again = ['upgrade', '--install', 'demo', CHART, '--values', MINIMAL, '--timeout', '4s']
  await t.rejects(helm(...again), /still running in the Job demo-keepsake-migrate/, 'one that works is not interrupted')
  t.equal(await job('metadata.uid'), uid)
  await shows('Pending', false)
  await t.rejects(helm(...again), /pre-install|pre-upgrade/)
  t.not(await job('metadata.uid'), uid, 'one that waits for something is replaced')
  await helm('upgrade', '--install', 'demo', CHART, ...INSTALLABLE)
  t.match(await names(), /deployment.apps\/demo-keepsake-api/)
})
