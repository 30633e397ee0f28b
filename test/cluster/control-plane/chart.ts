import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import t from 'tap'
import { parseAllDocuments } from 'yaml'
import { CHART, MINIMAL, NAMESPACE, withHelm } from '../chart-support/chart.ts'
import { controlPlane } from '../support.ts'

interface Document {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace?: string; annotations?: Record<string, string> }
  spec?: PodSpec & { template?: { metadata: object; spec: PodSpec } }
}
interface PodSpec {
  serviceAccountName?: string
  automountServiceAccountToken?: boolean
  volumes?: object[]
  containers?: { env?: { name: string; value?: string }[] }[]
}

const plane = await controlPlane(t)
const { helm } = await withHelm(t, plane)
const valuesFiles = (await readdir(join(CHART, 'ci'))).map((name) => join(CHART, 'ci', name))

async function render(...args: string[]): Promise<Document[]> {
  const text = await helm('template', 'demo', CHART, ...args)
  return parseAllDocuments(text)
    .map((document) => document.toJS() as Document | null)
    .filter((document) => document !== null)
}

t.test('the chart has no complaints about itself', async (t) => {
  for (const file of valuesFiles) {
    await t.resolves(helm('lint', CHART, '--strict', '--values', file), basename(file))
  }
})

t.test('the API server accepts everything that the chart makes of each documented values file', async (t) => {
  for (const file of valuesFiles) {
    const text = await helm('template', 'demo', CHART, '--values', file)
    const answer = await plane.kubectlIn(text, 'apply', '--dry-run=server', '--validate=strict', '-f', '-')
    const lines = answer.trim().split('\n')
    t.ok(lines.every((line) => line.endsWith('(server dry run)')))
    t.equal(lines.length, (await render('--values', file)).length, `${basename(file)}: all ${lines.length} objects`)
  }
})

t.test('every pod of the chart is admitted where only restricted ones are', async (t) => {
  await plane.kubectlIn(
    await helm('template', 'demo', CHART, '--values', MINIMAL, '--show-only', 'templates/rbac.yaml'),
    'apply',
    '-f',
    '-',
  )
  const documents = await render('--values', MINIMAL)
  const pods = documents.flatMap(({ kind, metadata, spec }) => {
    if (kind === 'Pod') return [{ name: metadata.name, spec }]
    return spec?.template ? [{ name: metadata.name, spec: spec.template.spec }] : []
  })
  t.equal(pods.length, 5, 'api, worker, operator, migrations, test')
  for (const { name, spec } of pods) {
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: NAMESPACE },
      spec: { ...spec, restartPolicy: 'Never' },
    }
    await t.resolves(plane.kubectlIn(JSON.stringify(pod), 'create', '--dry-run=server', '-f', '-'), name)
  }
  const unsafe = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'x', namespace: NAMESPACE },
    spec: { containers: [{ name: 'x', image: 'x' }] },
  }
  await t.rejects(
    plane.kubectlIn(JSON.stringify(unsafe), 'create', '--dry-run=server', '-f', '-'),
    /violates PodSecurity/,
  )
})

t.test('migrations need nothing that the release itself makes', async (t) => {
  const all = await render('--values', MINIMAL)
  const hook = all.find(({ metadata }) => metadata.annotations?.['helm.sh/hook'] === 'pre-install,pre-upgrade')
  const spec = hook?.spec?.template?.spec
  t.match(hook, { kind: 'Job', metadata: { name: 'demo-keepsake-migrate' } })
  t.notOk(spec?.serviceAccountName, 'the account of the release does not exist yet')
  t.notOk(spec?.volumes)
  const named = JSON.stringify(spec)
  for (const made of all.filter((d) => d !== hook && d.kind !== 'Pod')) {
    t.notOk(named.includes(`"${made.metadata.name}"`), `${made.kind} ${made.metadata.name}`)
  }
})

t.test('nothing secret is a value, and nothing made is a Secret', async (t) => {
  for (const file of valuesFiles) {
    const kinds = new Set((await render('--values', file)).map(({ kind }) => kind))
    t.notOk(kinds.has('Secret') || kinds.has('ConfigMap'), basename(file))
  }
})

t.test('a mistake in the values is refused with the place where it is', async (t) => {
  const mistakes: [string, RegExp][] = [
    ['api.replcas=2', /'\/api'.*'replcas'/],
    ['api.replicas=many', /\/api\/replicas.*want integer/],
    ['api.publicUrl=https://api.example.org/', /\/api\/publicUrl.*pattern/],
    ['api.basePath=v1', /\/api\/basePath/],
    ['database.url=postgres://somebody', /'\/database'.*'url'/],
    ['database.existingSecret=Not A Name', /\/database\/existingSecret/],
    ['nats.url=http://nats:4222', /\/nats\/url/],
    ['nats.replicas=9', /\/nats\/replicas.*maximum/],
    ['jobs.memory=much', /\/jobs\/memory/],
    ['jobs.gpu.available=perhaps', /\/jobs\/gpu\/available/],
    ['image.digest=latest', /\/image\/digest/],
    ['watchNamespace=Media', /\/watchNamespace/],
    ['operator.logLevel=loud', /\/operator\/logLevel/],
    ['jobs.priorityClasses.names.urgent=x', /'\/jobs\/priorityClasses\/names'.*'urgent'/],
  ]
  for (const [mistake, message] of mistakes) {
    await t.rejects(helm('template', 'demo', CHART, '--values', MINIMAL, '--set', mistake), { message }, mistake)
  }
})

t.test('what is missing is asked for by name', async (t) => {
  const needed = [
    'database.existingSecret',
    'objectStore.existingSecret',
    'nats.url',
    'auth.issuer',
    'auth.audience',
    'auth.jwksUrl',
    'api.publicUrl',
    'api.existingSecret',
    'operator.existingSecret',
  ]
  for (const name of needed) {
    const message = new RegExp(`${name.replaceAll('.', '\\.')} is needed`)
    await t.rejects(helm('template', 'demo', CHART, '--values', MINIMAL, '--set', `${name}=`), { message }, name)
  }
})

t.test('the worker makes TranscodeJobs where the operator looks', async (t) => {
  const of = (documents: Document[], component: string, name: string) =>
    documents
      .find((d) => d.kind === 'Deployment' && d.metadata.name === `demo-keepsake-${component}`)
      ?.spec?.template?.spec.containers?.[0]?.env?.find((e) => e.name === name)?.value
  const table: [string[], string | undefined, string][] = [
    [[], NAMESPACE, NAMESPACE],
    [['--set', 'watchNamespace=media'], 'media', 'media'],
    [['--set', 'watchNamespace=*'], undefined, NAMESPACE],
    [['--set', 'watchNamespace=*,jobs.namespace=media'], undefined, 'media'],
  ]
  for (const [args, watched, made] of table) {
    const documents = await render('--values', MINIMAL, ...args)
    t.equal(of(documents, 'operator', 'WATCH_NAMESPACE'), watched, `operator ${args.join(' ')}`)
    t.equal(of(documents, 'worker', 'NAMESPACE'), made, `worker ${args.join(' ')}`)
    const isCluster = documents.some((d) => d.kind === 'ClusterRole' && d.metadata.name.endsWith('-operator'))
    t.equal(isCluster, watched === undefined, 'a ClusterRole only for all namespaces')
  }
  const apart = helm('template', 'demo', CHART, '--values', MINIMAL, '--set', 'jobs.namespace=media')
  await t.rejects(apart, /jobs\.namespace is "media", but the operator only watches "keepsake"/)
})
