import t from 'tap'
import { verifyProgressToken } from '../../../lib/contract/progress.ts'
import type { Job } from '../../../operator/jobs/batch.ts'
import { childJob, madeOf, type ProgramConfig } from '../../../operator/program/child.ts'
import { eachKind } from '../../support/each-kind.ts'
import { programConfig } from '../../support/program-kinds.ts'

eachKind(t, (t, kit) => {
  const { aResource, jobName } = kit

  const resource = aResource()
  const { namespace, name, uid } = resource.metadata
  const subject = { kind: kit.name, namespace, name, uid, jobName: jobName(resource, 1) }

  interface Built {
    spec: {
      template: {
        metadata: { labels: object; annotations: object }
        spec: {
          containers: { env: { name: string; value: string }[]; resources: { requests: object; limits: object } }[]
        }
      }
    }
  }
  const build = (change: Parameters<typeof aResource>[0] = {}, config: Partial<ProgramConfig> = {}) =>
    childJob(kit.kind, aResource(change), 1, { ...programConfig, ...config }) as Job & Built
  const envOf = (job: Built) =>
    Object.fromEntries(job.spec.template.spec.containers[0]?.env.map((e) => [e.name, e.value]) ?? [])

  t.test('the name fits, is a DNS label, and belongs to one resource and one number', async (t) => {
    const names = new Map<string, string>()
    for (const name of ['a', 'med-01j', 'x'.repeat(253), `${'y'.repeat(50)}-.z`, 'dots.in.a.name']) {
      for (const uid of ['uid-1', 'uid-2']) {
        for (const number of [1, 2]) {
          const made = jobName(aResource({ metadata: { name, uid } }), number)
          t.match(made, /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/)
          t.ok(made.startsWith(`${kit.kind.shortName}-`))
          t.ok(made.length <= 63, made)
          t.notOk(names.has(made), 'its own')
          names.set(made, name)
        }
      }
    }
    t.equal(jobName(resource, 1), jobName(aResource({ status: { attempts: 3 } }), 1), 'nothing else matters')
  })

  t.test('the program gets what it needs of the specification, and a token for itself alone', async (t) => {
    const env = envOf(build())
    t.strictSame(env['JOB_SPEC'], JSON.stringify(kit.kind.jobSpec(resource.spec)))
    const scheduling = ['priority', 'suspend', 'attemptDeadlineSeconds', 'maxAttempts', 'ttlSecondsAfterFinished']
    for (const field of scheduling) t.notOk(field in JSON.parse(env['JOB_SPEC'] ?? ''), field)
    t.strictSame(verifyProgressToken(programConfig.progressKey, env['PROGRESS_TOKEN'] ?? ''), subject)
  })

  t.test('the program is told the cores that its pod was promised, not those of the node', async (t) => {
    for (const priority of ['normal', 'backfill'] as const) {
      const [container] = build({ spec: { priority } }).spec.template.spec.containers
      t.match(
        container?.env.find((e) => e.name === 'CORES'),
        { valueFrom: { resourceFieldRef: { containerName: 'media', resource: 'requests.cpu', divisor: '1' } } },
      )
      t.notOk('cpu' in (container?.resources.limits ?? {}), 'idle cores of the node may be used')
    }
  })

  const gpu: [string, 'auto' | 'gpu' | 'cpu', boolean, boolean][] = [
    ['gpu asks for one, whatever the cluster seems to have', 'gpu', false, true],
    ['auto asks for one where there are any', 'auto', true, true],
    ['auto does without where there are none', 'auto', false, false],
    ['cpu never asks for one', 'cpu', true, false],
  ]
  for (const [name, accelerator, gpuAvailable, want] of gpu) {
    t.test(name, async (t) => {
      const job = build({ spec: { accelerator } }, { gpuAvailable })
      t.equal('nvidia.com/gpu' in (job.spec.template.spec.containers[0]?.resources.limits ?? {}), want)
      t.equal('NVIDIA_DRIVER_CAPABILITIES' in envOf(job), want)
      t.equal('tolerations' in job.spec.template.spec, want)
    })
  }

  t.test('pods go where the configuration says, also those that want a GPU', async (t) => {
    const where = {
      nodeSelector: { pool: 'encoding' },
      tolerations: [{ key: 'pool', operator: 'Equal', value: 'encoding', effect: 'NoSchedule' }],
    }
    t.match(build({ spec: { accelerator: 'cpu' } }, where).spec.template.spec, where)
    const gpu = build({ spec: { accelerator: 'gpu' } }, where).spec.template.spec
    t.match(gpu, { nodeSelector: where.nodeSelector, tolerations: [...where.tolerations, { key: 'nvidia.com/gpu' }] })
    t.notOk('nodeSelector' in build({}).spec.template.spec, 'anywhere')
    const made = new Set([{}, where, { nodeSelector: where.nodeSelector }].map((c) => madeOf(build({}, c))))
    t.equal(made.size, 3, 'a pod that waits in vain follows when that is corrected')
  })

  t.test(
    'pods have the labels and annotations of the configuration, but none in place of those of the operator',
    async (t) => {
      const given = {
        podLabels: { 'sidecar.istio.io/inject': 'false', 'app.kubernetes.io/managed-by': 'me' },
        podAnnotations: { 'linkerd.io/inject': 'disabled', [kit.kind.ownerAnnotation]: 'other' },
      }
      const [plain, job] = [build(), build({}, given)]
      const { labels, annotations } = plain.spec.template.metadata
      t.strictSame(job.spec.template.metadata, {
        labels: { 'sidecar.istio.io/inject': 'false', ...labels },
        annotations: { 'linkerd.io/inject': 'disabled', ...annotations },
      })
      t.strictSame(job.metadata.labels, plain.metadata.labels, 'the Job itself has none of them')
      const { podLabels, podAnnotations } = given
      const made = new Set([{}, { podLabels }, { podAnnotations }, given].map((c) => madeOf(build({}, c))))
      t.equal(made.size, 4, 'a pod that waits in vain for its mesh follows when that is corrected')
    },
  )

  t.test('auto does without once status says that none came, gpu never does', async (t) => {
    const status = { gpuGivenUp: 'no GPU was free within 300 s' }
    const auto = build({ spec: { accelerator: 'auto' }, status }, { gpuAvailable: true })
    t.notOk('nvidia.com/gpu' in (auto.spec.template.spec.containers[0]?.resources.limits ?? {}))
    t.match(JSON.parse(envOf(auto)['JOB_SPEC'] ?? ''), { accelerator: 'cpu' }, 'nor does the program look for one')
    const gpu = build({ spec: { accelerator: 'gpu' }, status: {} }, { gpuAvailable: false })
    t.ok('nvidia.com/gpu' in (gpu.spec.template.spec.containers[0]?.resources.limits ?? {}))
  })

  t.test('memory and attempts that remain follow from what earlier Jobs went through', async (t) => {
    const job = build({ status: { restarts: 1, attempts: 2, memory: '4Gi' } })
    t.match(job.spec.template.spec.containers[0]?.resources, {
      requests: { memory: '4Gi' },
      limits: { memory: '4Gi' },
    })
    t.equal(job.spec.backoffLimit, 0, 'the third of three attempts')
    t.match(job.metadata.annotations, {
      'media.keepsake.dev/memory': '4Gi',
      'media.keepsake.dev/attempts-before': '2',
    })
    t.equal(build({ status: { attempts: 7 } }).spec.backoffLimit, 0)
  })

  t.test('priority becomes a PriorityClass where one is configured', async (t) => {
    const priorityClasses = { interactive: 'media-now' }
    t.match(build({ spec: { priority: 'interactive' } }, { priorityClasses }).spec.template.spec, {
      priorityClassName: 'media-now',
    })
    t.notOk('priorityClassName' in build({}, { priorityClasses }).spec.template.spec)
  })

  t.test('only a backfill asks for less of the processors, and none for less of anything else', async (t) => {
    const resourcesOf = (priority: 'interactive' | 'normal' | 'backfill', config = {}) =>
      build({ spec: { priority } }, { cpuBackfill: '100m', ...config }).spec.template.spec.containers[0]?.resources
    const normal = resourcesOf('normal')
    t.match(normal, { requests: { cpu: '2' } })
    t.strictSame(resourcesOf('interactive'), normal)
    t.strictSame(resourcesOf('backfill'), { ...normal, requests: { ...normal?.requests, cpu: '100m' } })
    const made = ['100m', '200m'].map((cpuBackfill) => madeOf(build({}, { cpuBackfill })))
    t.not(made[0], made[1], 'a pod that waits in vain follows when that is corrected')
  })

  t.test('pods run as the account of the configuration, without its token', async (t) => {
    const { spec } = build({}, { serviceAccount: 'keepsake-jobs' }).spec.template
    t.match(spec, { serviceAccountName: 'keepsake-jobs', automountServiceAccountToken: false })
    t.notOk('serviceAccountName' in build({}).spec.template.spec)
  })
})
