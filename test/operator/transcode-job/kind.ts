import t from 'tap'
import { parseTranscodeJob } from '../../../crds/transcode-job.ts'
import { progressToken } from '../../../lib/contract/progress.ts'
import { childJob, configurationOf } from '../../../operator/program/child.ts'
import { transcodeJob } from '../../../operator/transcode-job/kind.ts'
import { programConfig } from '../../support/program-kinds.ts'
import { newTranscodeJob } from '../../support/transcode-job.ts'

const SUBJECT = {
  kind: 'TranscodeJob',
  namespace: 'media',
  name: 'med-1',
  uid: 'uid-1',
  jobName: 'tj-med-1-49a88c84',
} as const
const RESTRICTED = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
}
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
      'media.keepsake.dev/configuration': configurationOf(programConfig),
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
    ttlSecondsAfterFinished: 21600,
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
              { name: 'PROGRESS_TOKEN', value: progressToken(programConfig.progressKey, SUBJECT) },
              { name: 'LOG_LEVEL', value: 'info' },
              { name: 'WORK_FOLDER', value: '/work' },
              {
                name: 'CORES',
                valueFrom: { resourceFieldRef: { containerName: 'media', resource: 'requests.cpu', divisor: '1' } },
              },
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

t.test('the Job of a TranscodeJob is exactly this one', async (t) => {
  const parsed = parseTranscodeJob(newTranscodeJob({ metadata: { uid: 'uid-1' } }))
  if ('problem' in parsed) throw new Error(parsed.problem)
  t.strictSame(JSON.parse(JSON.stringify(childJob(transcodeJob, parsed.resource, 1, programConfig))), WHOLE)
})

for (const [type, scratch, given] of [
  ['video', '36Gi', '36Gi'],
  ['image', '36Gi', '20Gi'],
  ['image', '21474836481', '20Gi'],
  ['image', '1280Mi', '1280Mi'],
] as const) {
  t.test(`of ${scratch} of scratch space, a pod for a ${type} gets ${given}`, async (t) => {
    const parsed = parseTranscodeJob(newTranscodeJob({ metadata: { uid: 'uid-1' } }))
    if ('problem' in parsed) throw new Error(parsed.problem)
    const { spec, ...rest } = parsed.resource
    const of = { ...rest, spec: { ...spec, inputs: spec.inputs.map((input) => ({ ...input, type })) } }
    const job = childJob(transcodeJob, of, 1, { ...programConfig, scratch })
    const { containers, volumes } = JSON.parse(JSON.stringify(job.spec?.template)).spec
    t.equal(containers[0].resources.requests['ephemeral-storage'], given)
    t.equal(containers[0].resources.limits['ephemeral-storage'], given)
    t.match(volumes[0], { name: 'work', emptyDir: { sizeLimit: given } })
  })
}
