import t from 'tap'
import { progressToken, verifyProgressToken } from '../../../lib/contract/progress.ts'
import type { Job } from '../../../operator/jobs/batch.ts'
import { type ChildConfig, childJob, childName, configurationOf, madeOf } from '../../../operator/program/child.ts'
import { aTranscodeJob, childConfig } from '../../support/transcode-job.ts'

const resource = aTranscodeJob()
const SUBJECT = {
  kind: 'TranscodeJob',
  namespace: 'media',
  name: 'med-1',
  uid: 'uid-1',
  jobName: 'tj-med-1-49a88c84',
} as const
const RESTRICTED = { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } }
/** Change it on purpose or not at all: the Pod Security Standard `restricted` accepts exactly this. */
const WHOLE = {
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: {
    name: 'tj-med-1-49a88c84',
    namespace: 'media',
    labels: {
      'app.kubernetes.io/name': 'keepsake',
      'app.kubernetes.io/component': 'transcode',
      'app.kubernetes.io/managed-by': 'keepsake-operator',
      'media.keepsake.dev/owner-uid': 'uid-1',
      'media.keepsake.dev/priority': 'normal',
    },
    annotations: {
      'media.keepsake.dev/transcode-job': 'med-1',
      'media.keepsake.dev/memory': '2Gi',
      'media.keepsake.dev/configuration': configurationOf(childConfig),
    },
    ownerReferences: [
      {
        apiVersion: 'media.keepsake.dev/v1alpha1',
        kind: 'TranscodeJob',
        name: 'med-1',
        uid: 'uid-1',
        controller: true,
        blockOwnerDeletion: true,
      },
    ],
  },
  spec: {
    suspend: false,
    parallelism: 1,
    completions: 1,
    backoffLimit: 2,
    podReplacementPolicy: 'Failed',
    podFailurePolicy: {
      rules: [
        { action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] },
        { action: 'FailJob', onExitCodes: { containerName: 'media', operator: 'In', values: [10, 11, 12, 13] } },
      ],
    },
    template: {
      metadata: {
        labels: {
          'app.kubernetes.io/name': 'keepsake',
          'app.kubernetes.io/component': 'transcode',
          'app.kubernetes.io/managed-by': 'keepsake-operator',
          'media.keepsake.dev/owner-uid': 'uid-1',
          'media.keepsake.dev/priority': 'normal',
        },
        annotations: { 'media.keepsake.dev/transcode-job': 'med-1' },
      },
      spec: {
        restartPolicy: 'Never',
        activeDeadlineSeconds: 7200,
        terminationGracePeriodSeconds: 30,
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        securityContext: {
          runAsNonRoot: true,
          runAsUser: 10001,
          runAsGroup: 10001,
          fsGroup: 10001,
          seccompProfile: { type: 'RuntimeDefault' },
        },
        initContainers: [
          {
            name: 'store-proxy',
            image: 'keepsake:1',
            restartPolicy: 'Always',
            command: ['node', '--max-semi-space-size=2', 'jobs/store-proxy/main.js'],
            env: [
              { name: 'STORE_GRANT', value: '{"read":["org/o/media/m1/original"],"write":["org/o/media/m1/v1/"]}' },
              { name: 'STORE_SOCKET', value: '/store/socket' },
              { name: 'LOG_LEVEL', value: 'info' },
              { name: 'SCRATCH_FOLDER', value: '/tmp' },
            ],
            envFrom: [{ secretRef: { name: 'object-store' } }],
            resources: {
              requests: { cpu: '50m', memory: '96Mi', 'ephemeral-storage': '64Mi' },
              limits: { memory: '256Mi', 'ephemeral-storage': '64Mi' },
            },
            securityContext: { ...RESTRICTED, runAsUser: 10002, runAsGroup: 10002 },
            volumeMounts: [
              { name: 'store', mountPath: '/store' },
              { name: 'proxy-tmp', mountPath: '/tmp' },
            ],
          },
        ],
        containers: [
          {
            name: 'media',
            image: 'keepsake:1',
            command: ['node', 'jobs/transcode/main.js'],
            env: [
              {
                name: 'JOB_SPEC',
                value:
                  '{"inputs":[{"id":"m1","type":"video","sourceKey":"org/o/media/m1/original","outputPrefix":"org/o/media/m1/v1/"}],"renditions":["360p","720p","1080p"],"segmentSeconds":6,"accelerator":"auto"}',
              },
              { name: 'STORE_KIND', value: 'proxy' },
              { name: 'STORE_SOCKET', value: '/store/socket' },
              { name: 'PROGRESS_URL', value: 'http://operator:8090/progress' },
              { name: 'PROGRESS_TOKEN', value: progressToken(childConfig.progressKey, SUBJECT) },
              { name: 'LOG_LEVEL', value: 'info' },
              { name: 'WORK_FOLDER', value: '/work' },
            ],
            resources: {
              requests: { cpu: '2', memory: '2Gi', 'ephemeral-storage': '20Gi' },
              limits: { memory: '2Gi', 'ephemeral-storage': '20Gi' },
            },
            terminationMessagePolicy: 'FallbackToLogsOnError',
            securityContext: RESTRICTED,
            volumeMounts: [
              { name: 'work', mountPath: '/work' },
              { name: 'tmp', mountPath: '/tmp' },
              { name: 'store', mountPath: '/store', readOnly: true },
            ],
          },
        ],
        volumes: [
          { name: 'work', emptyDir: { sizeLimit: '20Gi' } },
          { name: 'tmp', emptyDir: { sizeLimit: '256Mi' } },
          { name: 'store', emptyDir: { sizeLimit: '1Mi' } },
          { name: 'proxy-tmp', emptyDir: { sizeLimit: '64Mi' } },
        ],
      },
    },
  },
}

interface Built {
  spec: {
    template: {
      metadata: object
      spec: {
        containers: { env: { name: string; value: string }[]; resources: { requests: object; limits: object } }[]
      }
    }
  }
}
const build = (change: Parameters<typeof aTranscodeJob>[0] = {}, config: Partial<ChildConfig> = {}) =>
  childJob(aTranscodeJob(change), 1, { ...childConfig, ...config }) as Job & Built
const envOf = (job: Built) =>
  Object.fromEntries(job.spec.template.spec.containers[0]?.env.map((e) => [e.name, e.value]) ?? [])

t.test('is exactly this Job', async (t) => t.strictSame(JSON.parse(JSON.stringify(build())), WHOLE))

t.test('the name fits, is a DNS label, and belongs to one resource and one number', async (t) => {
  const names = new Map<string, string>()
  for (const name of ['a', 'med-01j', 'x'.repeat(253), `${'y'.repeat(50)}-.z`, 'dots.in.a.name']) {
    for (const uid of ['uid-1', 'uid-2']) {
      for (const number of [1, 2]) {
        const made = childName(aTranscodeJob({ metadata: { name, uid } }), number)
        t.match(made, /^tj-[a-z0-9]([-a-z0-9]*[a-z0-9])?$/)
        t.ok(made.length <= 63, made)
        t.notOk(names.has(made), 'its own')
        names.set(made, name)
      }
    }
  }
  t.equal(childName(resource, 1), childName(aTranscodeJob({ status: { attempts: 3 } }), 1), 'nothing else matters')
})

t.test('the program gets the part of the specification it needs, and a token for itself alone', async (t) => {
  const env = envOf(build())
  t.strictSame(Object.keys(JSON.parse(env['JOB_SPEC'] ?? '')).sort(), [
    'accelerator',
    'inputs',
    'renditions',
    'segmentSeconds',
  ])
  t.strictSame(verifyProgressToken(childConfig.progressKey, env['PROGRESS_TOKEN'] ?? ''), SUBJECT)
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
  t.equal(made.size, 3, 'a pod that waits in vain follows when that is mended')
})

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
  t.match(job.spec.template.spec.containers[0]?.resources, { requests: { memory: '4Gi' }, limits: { memory: '4Gi' } })
  t.equal(job.spec.backoffLimit, 0, 'the third of three attempts')
  t.match(job.metadata.annotations, { 'media.keepsake.dev/memory': '4Gi', 'media.keepsake.dev/attempts-before': '2' })
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
  t.not(made[0], made[1], 'a pod that waits in vain follows when that is mended')
})

t.test('pods run as the account of the configuration, without its token', async (t) => {
  const { spec } = build({}, { serviceAccount: 'keepsake-jobs' }).spec.template
  t.match(spec, { serviceAccountName: 'keepsake-jobs', automountServiceAccountToken: false })
  t.notOk('serviceAccountName' in build({}).spec.template.spec)
})
