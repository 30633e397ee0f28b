import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import t from 'tap'
import { parseAllDocuments } from 'yaml'
import { ApiConfig } from '../../../api/config.ts'
import { NotificationSettings } from '../../../api/features/notifications/settings.ts'
import { parseRetentionPolicy } from '../../../crds/retention-policy.ts'
import { RETENTION_TARGETS } from '../../../crds/retention-rules.ts'
import { parseSchedule } from '../../../operator/retention-policy/schedule.ts'
import { PodTemplate as RetentionTemplate } from '../../../operator/retention-policy/template.ts'
import { CHART, MINIMAL, NAMESPACE, withHelm } from '../chart-support/chart.ts'
import { controlPlane } from '../support.ts'

interface Document {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace?: string; annotations?: Record<string, string>; labels?: Record<string, string> }
  spec?: PodSpec & NetworkPolicySpec & { replicas?: number; template?: PodTemplate; podFailurePolicy?: object }
}
interface PodTemplate {
  metadata: { annotations?: object; labels?: Record<string, string> }
  spec: PodSpec
}
interface NetworkPolicySpec {
  podSelector?: { matchLabels: Record<string, string>; matchExpressions?: object[] }
  policyTypes?: string[]
  ingress?: object[]
  egress?: object[]
}
interface PodSpec {
  serviceAccountName?: string
  automountServiceAccountToken?: boolean
  activeDeadlineSeconds?: number
  volumes?: object[]
  containers?: Container[]
}

interface Container {
  env?: { name: string; value?: string }[]
  envFrom?: object[]
  volumeMounts?: object[]
  resources?: { requests?: Record<string, string>; limits?: Record<string, string> }
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

/** The pods that the chart makes, by component, with their labels. */
function podsOf(documents: readonly Document[]) {
  return documents.flatMap(({ kind, metadata, spec }) => {
    const pod = kind === 'Pod' ? { labels: metadata.labels, spec } : spec?.template
    if (!pod) return []
    const labels = kind === 'Pod' ? (metadata.labels ?? {}) : (spec?.template?.metadata.labels ?? {})
    return [{ component: labels['app.kubernetes.io/component'] ?? '', labels, containers: pod.spec?.containers ?? [] }]
  })
}
const COMPONENTS = ['api', 'migrate', 'operator', 'test', 'worker']

t.test('every container says how much of the node it may fill', async (t) => {
  const pods = podsOf(await render('--values', MINIMAL))
  t.strictSame(pods.map(({ component }) => component).sort(), COMPONENTS)
  for (const { component, containers } of pods) {
    for (const { resources } of containers) {
      for (const size of [resources?.requests, resources?.limits])
        t.match(size?.['ephemeral-storage'], /Mi$/, component)
    }
  }
})

t.test('with network policies every pod has exactly one, which leaves egress alone unless told', async (t) => {
  const rule = [{ ports: [{ port: 5432 }] }]
  const policiesOf = async (...args: string[]) => {
    const all = await render('--values', MINIMAL, '--set', 'networkPolicies.enabled=true', ...args)
    const policies = all.filter(({ kind }) => kind === 'NetworkPolicy')
    return podsOf(all).map(({ component, labels }) => {
      const mine = policies.filter(({ spec }) =>
        Object.entries(spec?.podSelector?.matchLabels ?? {}).every(([name, value]) => labels[name] === value),
      )
      t.equal(mine.length, 1, component)
      return { component, spec: mine[0]?.spec, hook: mine[0]?.metadata.annotations?.['helm.sh/hook'] }
    })
  }
  for (const { component, spec } of await policiesOf()) t.strictSame(spec?.policyTypes, ['Ingress'], component)
  for (const told of COMPONENTS) {
    for (const { component, spec } of await policiesOf(
      '--set-json',
      `networkPolicies.egress.${told}=${JSON.stringify(rule)}`,
    )) {
      const dns = {
        ports: [
          { port: 53, protocol: 'UDP' },
          { port: 53, protocol: 'TCP' },
        ],
      }
      t.strictSame(spec?.egress, component === told ? [dns, ...rule] : undefined, `${component}, told of ${told}`)
    }
  }
  const silent = (await policiesOf()).filter(({ component }) => ['migrate', 'test'].includes(component))
  for (const { component, spec } of silent) t.strictSame(spec?.ingress, [], `no pod calls ${component}`)
  const hook = silent.find(({ component }) => component === 'migrate')?.hook
  t.equal(hook, 'pre-install,pre-upgrade', 'it is there when the Job starts')
})

t.test('the pods of conversions are shut in, unless an administrator says otherwise', async (t) => {
  const policies = async (...args: string[]) =>
    (await render('--values', MINIMAL, ...args)).filter(({ kind }) => kind === 'NetworkPolicy')
  const [policy, retention, ...others] = await policies()
  t.equal(others.length, 0, 'the other programs have none')
  t.equal(retention?.metadata.name, 'demo-keepsake-retention')
  t.equal(policy?.metadata.name, 'demo-keepsake-jobs')
  t.strictSame(policy?.spec?.podSelector?.matchLabels, {
    'app.kubernetes.io/name': 'keepsake',
    'app.kubernetes.io/managed-by': 'keepsake-operator',
  })
  t.strictSame(policy?.spec?.policyTypes, ['Ingress', 'Egress'])
  t.equal(policy?.spec?.ingress, undefined, 'nobody may call them')
  const [dns, operator, store, ...more] = policy?.spec?.egress ?? []
  t.match(dns, {
    ports: [{ port: 53 }, { port: 53 }],
    to: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } } }, { ipBlock: {} }],
  })
  t.match(operator, { ports: [{ port: 8090 }], to: [{ podSelector: {}, namespaceSelector: {} }] })
  t.strictSame(store, { to: [{ ipBlock: { cidr: '10.20.0.9/32' } }] })
  t.equal(more.length, 0)

  const told = async (objectStore: object, ...args: string[]) => {
    const [policy] = await policies('--set-json', `networkPolicies.objectStore=${JSON.stringify(objectStore)}`, ...args)
    return policy?.spec?.egress?.slice(2)
  }
  const extra = ['--set-json', 'networkPolicies.egress.jobs=[{"ports":[{"port":443}]}]']
  t.strictSame(await told({ cidrs: ['10.1.2.3/32'], ports: [9000] }, ...extra), [
    { to: [{ ipBlock: { cidr: '10.1.2.3/32' } }], ports: [{ port: 9000 }] },
    { ports: [{ port: 443 }] },
  ])
  const pods = { podSelector: { matchLabels: { app: 'rgw' } } }
  t.strictSame(await told({ cidrs: [], peers: [pods] }), [{ to: [pods] }], 'a store in the cluster')
  t.strictSame(
    await told({ cidrs: ['0.0.0.0/0', '::/0'] }),
    [
      {
        to: [
          { ipBlock: { cidr: '0.0.0.0/0', except: ['169.254.0.0/16', '168.63.129.16/32', '100.100.100.200/32'] } },
          { ipBlock: { cidr: '::/0', except: ['fe80::/10', 'fd00:ec2::254/128'] } },
        ],
      },
    ],
    'all addresses but those at which clouds serve credentials',
  )
  const nowhere = ['--set-json', 'networkPolicies.objectStore.cidrs=[]']
  await t.rejects(policies(...nowhere), /networkPolicies\.objectStore\.cidrs is needed/, 'not everything unasked')
  t.strictSame(await policies(...nowhere, '--set', 'networkPolicies.jobs=false'), [], 'unless there is no policy')
  t.strictSame(await policies('--set', 'networkPolicies.jobs=false'), [])
})

t.test('the pods of retention reach Postgres, the store and DNS, and are not those of conversions', async (t) => {
  const policyOf = async (name: string, ...args: string[]) => {
    const all = await render('--values', MINIMAL, ...args)
    return all.find(({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === name)?.spec
  }
  t.match(await policyOf('demo-keepsake-jobs'), {
    podSelector: {
      matchExpressions: [{ key: 'app.kubernetes.io/component', operator: 'NotIn', values: ['retention'] }],
    },
  })
  const spec = await policyOf('demo-keepsake-retention')
  t.match(spec?.podSelector?.matchLabels, { 'app.kubernetes.io/component': 'retention' })
  t.strictSame([spec?.policyTypes, spec?.ingress], [['Ingress', 'Egress'], undefined])
  const [dns, store, ...more] = spec?.egress ?? []
  t.match(dns, { ports: [{ port: 53 }, { port: 53 }] })
  t.strictSame([store, ...more], [{ to: [{ ipBlock: { cidr: '10.20.0.9/32' } }] }, { ports: [{ port: 5432 }] }])
  const rule = { to: [{ ipBlock: { cidr: '10.20.0.7/32' } }], ports: [{ port: 6432 }] }
  const told = ['--set-json', `networkPolicies.egress.retention=${JSON.stringify([rule])}`]
  t.strictSame((await policyOf('demo-keepsake-retention', ...told))?.egress?.slice(2), [rule])
})

const KNOWN = ['--api-versions', 'media.keepsake.dev/v1alpha1/RetentionPolicy']

t.test('there is a policy for each target that is named, with the periods of the specification', async (t) => {
  const policiesOf = async (...args: string[]) =>
    (await render('--values', MINIMAL, ...args)).filter(({ kind }) => kind === 'RetentionPolicy')
  t.strictSame(await policiesOf(), [], 'none where the API server does not know the kind yet')
  const named = (await policiesOf(...KNOWN)).map(({ spec }) => (spec as { target?: string } | undefined)?.target)
  t.strictSame(named.sort(), [...RETENTION_TARGETS].sort())
  const all = await policiesOf(...KNOWN)
  const rules = all.map((policy) => {
    t.equal(policy.metadata.annotations?.['helm.sh/resource-policy'], 'keep')
    const parsed = parseRetentionPolicy({ ...policy, metadata: { ...policy.metadata, uid: 'u' } })
    if ('problem' in parsed) throw new Error(parsed.problem)
    const { target, schedule, rules } = parsed.resource.spec
    t.match(parseSchedule(schedule), { schedule: {} }, target)
    return `${target}: ${rules.map(({ after, action, tier }) => `${after} ${tier ?? action}`).join(', ')}`
  })
  t.strictSame(rules.sort(), [
    'AuditLog: P90D warm, P2Y cold, P7Y purge',
    'EventArchive: P2Y cold, P7Y purge',
    'MediaTrash: P30D purge',
    'Notifications: P90D purge',
    'PieceCache: P30D purge',
    'Uploads: P1D purge',
  ])
  t.strictSame(await policiesOf(...KNOWN, '--set-json', 'retention.targets=[]'), [])
  const unknown = ['--set-json', 'retention.targets=["Everything"]']
  await t.rejects(policiesOf(...KNOWN, ...unknown), /retention.targets|\/retention\/targets/)
})

/** The pods of retention, which the operator makes from a file. */
async function retentionPod(...args: string[]) {
  const all = (await render('--values', MINIMAL, ...args)) as (Document & { data?: Record<string, string> })[]
  const file = all.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'demo-keepsake-retention')
  const template = RetentionTemplate.parse(JSON.parse(file?.data?.['template.json'] ?? ''))
  const operator = all.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'demo-keepsake-operator')
  return { template, annotations: operator?.spec?.template?.metadata.annotations }
}

t.test('the template of the pods of retention replaces the operator when it changes', async (t) => {
  const [before, same, after] = [
    await retentionPod(),
    await retentionPod(),
    await retentionPod('--set', 'image.tag=two'),
  ]
  t.strictSame(before, same)
  t.notSame(before.annotations, after.annotations)
  t.match(after.template.spec.containers, [
    { image: 'keepsake:two', command: ['node', /^--/, /^--/, 'api/features/retention/main.js'] },
  ])
})

const ACCOUNTS = ['rbac', 'jobs'].flatMap((file) => ['--show-only', `templates/${file}.yaml`])

t.test('every pod of the chart is admitted where only restricted ones are', async (t) => {
  await plane.kubectlIn(await helm('template', 'demo', CHART, '--values', MINIMAL, ...ACCOUNTS), 'apply', '-f', '-')
  const documents = await render('--values', MINIMAL)
  const pods = documents.flatMap(({ kind, metadata, spec }) => {
    if (kind === 'Pod') return [{ name: metadata.name, spec }]
    return spec?.template ? [{ name: metadata.name, spec: spec.template.spec }] : []
  })
  t.equal(pods.length, 5, 'api, worker, operator, migrations, test')
  pods.push({ name: 'retention', spec: (await retentionPod()).template.spec as PodSpec })
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
  const hook = all.find(({ kind, metadata }) => kind === 'Job' && metadata.annotations?.['helm.sh/hook'] !== undefined)
  const spec = hook?.spec?.template?.spec
  const annotations = { 'helm.sh/hook': 'pre-install,pre-upgrade' }
  t.match(hook, { kind: 'Job', metadata: { name: 'demo-keepsake-migrate', annotations } })
  t.notOk(spec?.serviceAccountName, 'the account of the release does not exist yet')
  t.notOk(spec?.volumes)
  const named = JSON.stringify(spec)
  for (const made of all.filter((d) => d !== hook && d.kind !== 'Pod')) {
    t.notOk(named.includes(`"${made.metadata.name}"`), `${made.kind} ${made.metadata.name}`)
  }
})

t.test('the deadline of migrations ends their pod, whose log stays, and no other attempt follows', async (t) => {
  const { spec } = (await render('--values', MINIMAL)).find(({ kind }) => kind === 'Job') ?? {}
  t.equal(spec?.activeDeadlineSeconds, undefined, 'a Job deletes its pod at its deadline')
  t.equal(spec?.template?.spec.activeDeadlineSeconds, 3600)
  t.match(spec?.podFailurePolicy, {
    rules: [
      { action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget' }] },
      { action: 'FailJob', onExitCodes: { containerName: 'migrate', operator: 'In', values: [137, 143] } },
    ],
  })
})

t.test('migrations reach a database whose certificate a private authority signed', async (t) => {
  const values = {
    podAnnotations: { 'sidecar.istio.io/inject': 'false' },
    extraEnv: [{ name: 'PGAPPNAME', value: 'migrations' }],
    extraVolumes: [{ name: 'ca', configMap: { name: 'private-ca' } }],
    extraVolumeMounts: [{ name: 'ca', mountPath: '/ca', readOnly: true }],
  }
  const all = await render('--values', MINIMAL, '--set-json', `migrations=${JSON.stringify(values)}`)
  t.match(all.find(({ kind }) => kind === 'Job')?.spec?.template, {
    metadata: { annotations: values.podAnnotations },
    spec: {
      volumes: values.extraVolumes,
      containers: [{ env: [{ name: 'DATABASE_URL' }, ...values.extraEnv], volumeMounts: values.extraVolumeMounts }],
    },
  })
})

t.test('the worker sends what the API signs, through the mail server that the values name', async (t) => {
  const envOf = async (file: string, program: string, ...more: string[]) => {
    const all = await render('--values', join(CHART, 'ci', file), ...more)
    const made = all.find((d) => d.kind === 'Deployment' && d.metadata.name === `demo-keepsake-${program}`)
    const env = made?.spec?.template?.spec.containers?.[0]?.env ?? []
    return Object.fromEntries(env.map(({ name, ...given }) => [name, given]))
  }
  const [api, worker] = await Promise.all(['api', 'worker'].map((program) => envOf('full.yaml', program)))
  for (const name of [
    'PUBLIC_URL',
    'APP_URL',
    'BASE_PATH',
    'LINK_KEYS',
    'AUDIT_KEYS',
    'VAPID_PUBLIC_KEY',
    'PUSH_HOSTS',
  ]) {
    t.ok(api?.[name], name)
    t.strictSame(worker?.[name], api?.[name], name)
  }
  t.match(worker, {
    SMTP_URL: { valueFrom: { secretKeyRef: { name: 'keepsake-mail', key: 'SMTP_URL' } } },
    MAIL_FROM: { value: 'Keepsake <hello@example.org>' },
    SMTP_REQUIRE_TLS: { value: 'true' },
    VAPID_PRIVATE_KEY: { valueFrom: { secretKeyRef: { name: 'keepsake-push', key: 'VAPID_PRIVATE_KEY' } } },
    VAPID_SUBJECT: { value: 'mailto:admin@example.org' },
    PUSH_HOSTS: { value: 'push.example.org,*.push.example.com' },
    FCM_SERVICE_ACCOUNT: { valueFrom: { secretKeyRef: { name: 'keepsake-push', key: 'FCM_SERVICE_ACCOUNT' } } },
    OUTBOUND_ALLOWED_ADDRESSES: { value: '10.1.0.0/16,fd00::/8' },
    OUTBOUND_PORTS: { value: '443' },
  })
  const private_ = ['VAPID_PRIVATE_KEY', 'FCM_SERVICE_ACCOUNT', 'SMTP_URL']
  for (const name of private_) t.notOk(api?.[name], `${name} is the worker's`)
  const minimal = await envOf('minimal.yaml', 'worker')
  for (const name of [...private_, 'VAPID_PUBLIC_KEY']) t.notOk(minimal[name], `no ${name} unless wanted`)
  const ports = minimal['OUTBOUND_PORTS'] as { value: string }
  t.equal(ports.value, '443,8443')
  const incomplete = [
    ['mail.existingSecret=mail', /mail\.from is needed/],
    ['push.vapid.existingSecret=push', /push\.vapid\.subject is needed/],
    ['auth.services.subjects={system:serviceaccount:a:b}', /auth\.services\.issuer is needed/],
  ] as const
  for (const [set, message] of incomplete) await t.rejects(envOf('minimal.yaml', 'worker', '--set', set), message, set)
  // A misspelled variable would be ignored by the program.
  const ours = /^(MAIL|SMTP|VAPID|PUSH|FCM|OUTBOUND|INTERNAL_AUTH|APP_|PLAY_|MAX_EVENT)/
  const known = Object.keys({ ...ApiConfig.shape, ...NotificationSettings.shape })
  for (const name of Object.keys({ ...api, ...worker }).filter((name) => ours.test(name)))
    t.ok(known.includes(name), name)
})

t.test('after an installation, the notes say whether mail is sent, and how to try it', async (t) => {
  const notes = (...args: string[]) =>
    helm('install', 'demo', CHART, '--dry-run=client', '--values', MINIMAL, ...args).then(
      (all) => all.split('NOTES:')[1],
    )
  t.match(await notes(), 'No mail is sent')
  t.notMatch(await notes(), /delete customresourcedefinition/, 'which other releases would lose')
  const configured = await notes('--set', 'mail.existingSecret=smtp,mail.from=Keepsake <hello@example.org>')
  t.match(configured, 'Mail comes from Keepsake <hello@example.org>.')
  t.match(configured, /exec deployment\/demo-keepsake-api -- node api\/cli\.js notifications list$/m)
})

t.test('helm test looks with the eyes of the worker', async (t) => {
  const ca = { name: 'NODE_EXTRA_CA_CERTS', value: '/ca/ca.crt' }
  const nats = [
    '--set',
    'nats.existingSecret=bus,nats.replicas=5',
    '--set-json',
    `worker.extraEnv=[${JSON.stringify(ca)}]`,
  ]
  const all = await render('--values', MINIMAL, ...nats)
  const worker = all.find((d) => d.metadata.name === 'demo-keepsake-worker' && d.kind === 'Deployment')
  const [tested] = all.find(({ kind }) => kind === 'Pod')?.spec?.containers ?? []
  const [real] = worker?.spec?.template?.spec.containers ?? []
  t.strictSame(tested?.envFrom, real?.envFrom)
  for (const name of ['BUS_KIND', 'NATS_URL', 'NATS_REPLICAS', ca.name]) {
    const of = (container: typeof real) => container?.env?.find((e) => e.name === name)
    t.ok(of(real), name)
    t.strictSame(of(tested), of(real), name)
  }
})

t.test('helm test finds every program by the variables of its Service', async (t) => {
  const release = 'a-release-with-a-name-of-more-than-forty-three'
  const text = await helm('template', release, CHART, '--values', MINIMAL)
  const all = parseAllDocuments(text).map((document) => document.toJS() as Document | null)
  const services = all.flatMap((d) => (d?.kind === 'Service' ? [d.metadata.name] : []))
  // https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
  const variables = services.map((name) => name.toUpperCase().replaceAll('-', '_'))
  const env = all.find((d) => d?.kind === 'Pod')?.spec?.containers?.[0]?.env ?? []
  const used = env.flatMap(({ value }) => [...(value ?? '').matchAll(/\$\((\w+)_SERVICE_(?:HOST|PORT)\)/g)])
  t.equal(used.length, 6, 'host and port of three Services')
  for (const [text, name = ''] of used) t.ok(variables.includes(name), text)
})

t.test('where an autoscaler decides, the chart says nothing of replicas', async (t) => {
  for (const program of ['api', 'worker', 'operator']) {
    const replicas = async (value: string) => {
      const all = await render('--values', MINIMAL, '--set', `${program}.replicas=${value}`)
      return all.find((d) => d.kind === 'Deployment' && d.metadata.name === `demo-keepsake-${program}`)?.spec?.replicas
    }
    t.strictSame([await replicas('null'), await replicas('0'), await replicas('3')], [undefined, 0, 3], program)
  }
})

t.test('a temporary folder keeps no node alive, unless somebody wants that', async (t) => {
  const key = 'cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes'
  const own = { [key]: 'none', 'example.org/team': 'media' }
  const all = await render('--values', MINIMAL, '--set-json', `worker.podAnnotations=${JSON.stringify(own)}`)
  const annotations = (program: string) =>
    all.find((d) => d.kind === 'Deployment' && d.metadata.name === `demo-keepsake-${program}`)?.spec?.template?.metadata
      .annotations
  t.strictSame(annotations('api'), { 'kubectl.kubernetes.io/default-container': 'api', [key]: 'tmp' })
  t.strictSame(annotations('worker'), { 'kubectl.kubernetes.io/default-container': 'worker', ...own })
})

t.test('the processors of an attempt may be a number', async (t) => {
  for (const cpu of ['2', '0.5', '1500m']) {
    const all = await render('--values', MINIMAL, '--set', `jobs.cpu=${cpu}`)
    const env = all.flatMap((d) => d.spec?.template?.spec.containers?.[0]?.env ?? [])
    t.equal(env.find(({ name }) => name === 'JOB_CPU')?.value, cpu)
  }
  for (const name of ['cpu', 'cpuBackfill'])
    await t.rejects(render('--values', MINIMAL, '--set', `jobs.${name}=0`), new RegExp(`jobs/${name}`))
})

t.test('the operator is told what labels and annotations the pods of conversions get', async (t) => {
  const told = async (...args: string[]) => {
    const all = await render('--values', MINIMAL, ...args)
    const operator = all.find((d) => d.kind === 'Deployment' && d.metadata.name === 'demo-keepsake-operator')
    const env = operator?.spec?.template?.spec.containers?.[0]?.env ?? []
    return ['JOB_POD_LABELS', 'JOB_POD_ANNOTATIONS'].map((name) => env.find((e) => e.name === name)?.value)
  }
  t.strictSame(await told(), ['{}', '{}'])
  const labels = ['--set-json', 'jobs.podLabels={"sidecar.istio.io/inject":"false"}']
  const annotations = ['--set-json', 'jobs.podAnnotations={"linkerd.io/inject":"disabled"}']
  t.strictSame(await told(...labels, ...annotations), [
    '{"sidecar.istio.io/inject":"false"}',
    '{"linkerd.io/inject":"disabled"}',
  ])
})

t.test('nothing secret is a value, and nothing made is a Secret', async (t) => {
  for (const file of valuesFiles) {
    const made = (await render('--values', file)).filter(({ kind }) => kind === 'Secret' || kind === 'ConfigMap')
    // The template of pods, which name their Secrets.
    t.strictSame(
      made.map(({ kind, metadata }) => `${kind} ${metadata.name}`),
      ['ConfigMap demo-keepsake-retention'],
    )
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
    ['networkPolicies.egress.wroker[0].ports[0].port=1', /'\/networkPolicies\/egress'.*'wroker'/],
    ['mail.language=tlh', /\/mail\/language/],
    ['webhooks.allowedAddresses={10.1.0.0}', /\/webhooks\/allowedAddresses/],
    ['auth.services.subjects={alice}', /\/auth\/services\/subjects/],
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
  await t.rejects(apart, /jobs\.namespace is "media", but the operator watches only "keepsake"/)
})
