import * as z from 'zod'

/**
 * The parts of batch/v1 and v1 that this cluster acts on, with the API server's defaults. The schemas are loose: a Job
 * for a real cluster has more fields (security context, affinity, tolerations). A field that changes how the program
 * runs and is not supported here is refused, not ignored.
 */
const NAME = z.string().regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, 'must be a DNS label')
const Quantity = z.union([z.string(), z.number()])

const EnvVar = z.looseObject({
  name: z.string().min(1),
  value: z.string().optional(),
  valueFrom: z
    .looseObject({
      fieldRef: z.looseObject({ fieldPath: z.string() }).optional(),
      resourceFieldRef: z
        .looseObject({ containerName: z.string().optional(), resource: z.string(), divisor: Quantity.optional() })
        .optional(),
      secretKeyRef: z.looseObject({ name: z.string(), key: z.string(), optional: z.boolean().optional() }).optional(),
    })
    .optional(),
})
export type EnvVar = z.infer<typeof EnvVar>

const EnvFrom = z.looseObject({
  prefix: z.string().optional(),
  secretRef: z.looseObject({ name: z.string(), optional: z.boolean().optional() }).optional(),
})

const Container = z.looseObject({
  name: NAME.max(63),
  image: z.string().optional(),
  command: z.array(z.string()).optional(),
  args: z.array(z.string()).optional(),
  workingDir: z.string().optional(),
  env: z.array(EnvVar).optional(),
  envFrom: z.array(EnvFrom).optional(),
  resources: z
    .looseObject({
      limits: z.record(z.string(), Quantity).optional(),
      requests: z.record(z.string(), Quantity).optional(),
    })
    .optional(),
  terminationMessagePolicy: z.enum(['File', 'FallbackToLogsOnError']).default('File'),
  volumeMounts: z.array(z.looseObject({ name: z.string(), mountPath: z.string().startsWith('/') })).optional(),
})
export type Container = z.infer<typeof Container>

/** A native sidecar: an init container that runs beside the others and is restarted when it ends. */
const Sidecar = Container.extend({
  restartPolicy: z.literal(
    'Always',
    'only init containers with restartPolicy Always are supported by the local cluster',
  ),
})

export const PodSpec = z
  .looseObject({
    containers: z.array(Container).min(1),
    initContainers: z.array(Sidecar).optional(),
    restartPolicy: z.literal('Never', 'only restartPolicy Never is supported by the local cluster'),
    volumes: z
      .array(
        z.looseObject({
          name: NAME.max(63),
          emptyDir: z.looseObject({}, 'only emptyDir volumes are supported by the local cluster'),
        }),
      )
      .optional(),
    nodeName: z.string().optional(),
    priorityClassName: z.string().optional(),
    activeDeadlineSeconds: z.int().min(1).optional(),
    terminationGracePeriodSeconds: z.int().min(0).default(30),
  })
  .superRefine((spec, ctx) => {
    const volumes = new Set(spec.volumes?.map((v) => v.name))
    for (const list of ['initContainers', 'containers'] as const) {
      for (const [i, container] of (spec[list] ?? []).entries()) {
        const lost = container.volumeMounts?.filter((mount) => !volumes.has(mount.name)) ?? []
        const path = [list, i, 'volumeMounts']
        for (const { name } of lost)
          ctx.addIssue({ code: 'custom', path, message: `Not found: ${JSON.stringify(name)}` })
      }
    }
  })
export type PodSpec = z.infer<typeof PodSpec>

const ExitCodes = z.looseObject({
  containerName: z.string().optional(),
  operator: z.enum(['In', 'NotIn']),
  values: z.array(z.int().min(0).max(255)).min(1).max(255),
})

export const PodFailureRule = z
  .looseObject({
    action: z.enum(['FailJob', 'FailIndex', 'Ignore', 'Count']),
    onExitCodes: ExitCodes.optional(),
    onPodConditions: z
      .array(z.looseObject({ type: z.string(), status: z.string().default('True') }))
      .max(20)
      .optional(),
  })
  .refine(
    (rule) => (rule.onExitCodes === undefined) !== (rule.onPodConditions === undefined),
    'specifying one of OnExitCodes and OnPodConditions is required',
  )
  .refine(
    ({ onExitCodes }) => !(onExitCodes?.operator === 'In' && onExitCodes.values.includes(0)),
    'must not be 0 for the In operator',
  )
export type PodFailureRule = z.infer<typeof PodFailureRule>

const Template = z.looseObject({
  metadata: z
    .looseObject({
      labels: z.record(z.string(), z.string()).optional(),
      annotations: z.record(z.string(), z.string()).optional(),
    })
    .optional(),
  spec: PodSpec,
})

const MAX_INT32 = 2 ** 31 - 1

export const JobSpec = z
  .looseObject({
    parallelism: z.int().min(0).optional(),
    completions: z.int().min(1).optional(),
    completionMode: z.enum(['NonIndexed', 'Indexed']).default('NonIndexed'),
    backoffLimit: z.int().min(0).optional(),
    backoffLimitPerIndex: z.int().min(0).optional(),
    maxFailedIndexes: z.undefined('is not supported by the local cluster').optional(),
    successPolicy: z.undefined('is not supported by the local cluster').optional(),
    suspend: z.boolean().default(false),
    activeDeadlineSeconds: z.int().min(1).optional(),
    ttlSecondsAfterFinished: z.int().min(0).optional(),
    podReplacementPolicy: z.enum(['Failed', 'TerminatingOrFailed']).optional(),
    podFailurePolicy: z.looseObject({ rules: z.array(PodFailureRule).max(20) }).optional(),
    template: Template,
  })
  .refine((spec) => spec.podFailurePolicy === undefined || spec.podReplacementPolicy !== 'TerminatingOrFailed', {
    path: ['podReplacementPolicy'],
    message: 'must be Failed when podFailurePolicy is used',
  })
  .refine((spec) => spec.completionMode === 'NonIndexed' || spec.completions !== undefined, {
    path: ['completions'],
    message: 'when completion mode is Indexed: Required value',
  })
  .refine((spec) => spec.completionMode === 'Indexed' || spec.backoffLimitPerIndex === undefined, {
    path: ['backoffLimitPerIndex'],
    message: 'requires indexed completion mode',
  })
  .refine(
    ({ backoffLimitPerIndex, podFailurePolicy }) =>
      backoffLimitPerIndex !== undefined || !podFailurePolicy?.rules.some((rule) => rule.action === 'FailIndex'),
    { path: ['podFailurePolicy'], message: 'requires the backoffLimitPerIndex to be set' },
  )
  .transform(({ parallelism, completions, ...spec }) => ({
    ...spec,
    backoffLimit: spec.backoffLimit ?? (spec.backoffLimitPerIndex === undefined ? 6 : MAX_INT32),
    parallelism: parallelism ?? 1,
    // With parallelism alone it stays unset: a work queue, whose pods know when nothing is left.
    ...((completions !== undefined || parallelism === undefined) && { completions: completions ?? 1 }),
    podReplacementPolicy: spec.podReplacementPolicy ?? (spec.podFailurePolicy ? 'Failed' : 'TerminatingOrFailed'),
  }))
export type JobSpec = z.infer<typeof JobSpec>

/** The API server requires six digits in a metav1.MicroTime: Date.toISOString() has three and is refused. */
const MicroTime = z
  .string()
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$/, 'must be a time with six fractional digits')

export const LeaseSpec = z.looseObject({
  holderIdentity: z.string().optional(),
  leaseDurationSeconds: z.int().min(1, 'must be greater than 0').optional(),
  acquireTime: MicroTime.optional(),
  renewTime: MicroTime.optional(),
  leaseTransitions: z.int().min(0).optional(),
})

export const EventBody = z.looseObject({
  eventTime: MicroTime,
  type: z.enum(['Normal', 'Warning']),
  reason: z.string().min(1).max(128),
  action: z.string().min(1).max(128),
  note: z.string().max(1024).optional(),
  regarding: z.looseObject({ namespace: z.string().optional() }).optional(),
  reportingController: z.string().min(1),
  reportingInstance: z.string().min(1).max(128),
  series: z.looseObject({ count: z.int().min(2), lastObservedTime: MicroTime }).optional(),
})
