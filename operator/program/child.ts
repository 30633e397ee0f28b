import { hash } from 'node:crypto'
import { GROUP } from '../../crds/kind.ts'
import type { Run } from '../../crds/run.ts'
import { progressToken } from '../../lib/contract/progress.ts'
import type { Job } from '../jobs/batch.ts'
import { CONFIGURATION } from '../jobs/labels.ts'
import { bytesOf } from '../jobs/quantity.ts'
import { jobFrom, type PodConfig } from '../jobs/template.ts'
import type { ProgramKind, ProgramSize } from './kind.ts'
import { nextShape, type Shape, type ShapeConfig, shapeAnnotations, shapeOf } from './shape.ts'

/** The configuration of Jobs that is the same for all resources of a kind. */
export interface ProgramConfig extends PodConfig, ShapeConfig, ProgramSize {
  /** Signs the tokens of pods. */
  progressKey: string
  /** How long `auto` waits for a node with a free GPU before it falls back to the CPU. */
  gpuWaitSeconds: number
}

const digests = new WeakMap<ProgramConfig, string>()

/** A digest of all configuration that can keep a pod from starting. */
export function configurationOf(config: ProgramConfig): string {
  const known = digests.get(config) ?? digestOf(config)
  digests.set(config, known) // every reconcile asks for it, and the configuration of a process never changes
  return known
}

function digestOf(config: ProgramConfig): string {
  const { image, storeSecret, serviceAccount, cpu, cpuBackfill, memory, scratch } = config
  const { priorityClasses, nodeSelector, tolerations, podLabels, podAnnotations } = config
  const where = [priorityClasses, nodeSelector, tolerations]
  // Left out while they are empty: a Job of an earlier operator, which had none, is not outdated for that.
  const metadata = Object.entries({ podLabels, podAnnotations }).filter(([, given]) => Object.keys(given).length > 0)
  const said = JSON.stringify([
    image,
    storeSecret,
    serviceAccount,
    cpu,
    cpuBackfill,
    memory,
    scratch,
    ...where,
    ...metadata,
  ])
  return hash('sha256', said).slice(0, 16)
}

/** The digest of the configuration that a Job was created from; undefined for Jobs of older operators. */
export const madeOf = ({ metadata }: Job): string | undefined => metadata.annotations?.[CONFIGURATION]

const MAX_NAME = 63

/**
 * Name of the Job with this number. It depends on nothing else, so creating it twice is a no-op. It includes the uid,
 * so a re-created resource never finds the Job of its predecessor.
 */
export function childName({ shortName }: ProgramKind, { metadata }: Run, number: number): string {
  const prefix = `${shortName}-`
  return nameOf(metadata.name.startsWith(prefix) ? '' : prefix, metadata, number)
}

/**
 * The name that earlier operators gave to this Job, which had the prefix twice; undefined where that is the same. A
 * Job of that name may still run after an upgrade.
 */
export function formerName(kind: ProgramKind, resource: Run, number: number): string | undefined {
  if (!kind.hadPrefixTwice) return undefined
  const former = nameOf(`${kind.shortName}-`, resource.metadata, number)
  return former === childName(kind, resource, number) ? undefined : former
}

/**
 * Name of the Job of the helpers of the Job with this number. The API server also requires that the name with the
 * highest index, `-62`, be a host name of at most 63 characters.
 */
export function helpersName({ shortName }: ProgramKind, { metadata }: Run, number: number): string {
  const prefix = `${shortName}-`
  return nameOf(metadata.name.startsWith(prefix) ? '' : prefix, metadata, `${number}/helpers`, MAX_NAME - '-62'.length)
}

function nameOf(prefix: string, { name, uid }: Run['metadata'], part: number | string, most = MAX_NAME): string {
  const digest = hash('sha256', `${uid}/${part}`).slice(0, 8)
  const room = most - prefix.length - digest.length - 1
  const readable = name.replaceAll('.', '-').slice(0, room).replace(/-+$/, '')
  return `${prefix}${readable}-${digest}`
}

/** The batch/v1 Job of a resource, which makes the attempts. */
export function childJob(kind: ProgramKind, resource: Run, number: number, config: ProgramConfig): Job {
  const { spec } = resource
  const { namespace, name, uid } = resource.metadata
  const jobName = childName(kind, resource, number)
  const shape = nextShape(resource, config)
  const subject = { kind: kind.resource.kind, namespace, name, uid, jobName }
  return jobFrom(
    {
      ...described(kind, resource, shape, config),
      name: jobName,
      annotations: { ...shapeAnnotations(shape), [CONFIGURATION]: configurationOf(config) },
      suspend: spec.suspend,
      pods: { backoffLimit: Math.max(0, spec.maxAttempts - shape.attemptsBefore - 1) },
      entry: kind.entry,
      progressToken: progressToken(config.progressKey, subject),
    },
    config,
  )
}

/** Annotation of Jobs of helpers: uid of the Job that they help. */
const HELPS = `${GROUP}/helps`

/** The uid of the Job that these helpers help. */
export const helpedBy = ({ metadata }: Job): string | undefined => metadata.annotations?.[HELPS]

/** The Job of the helpers of this Job, the one with the number. Undefined for a resource without any. */
export function helperJob(
  kind: ProgramKind,
  resource: Run,
  { number, job }: { number: number; job: Job },
  config: ProgramConfig,
): Job | undefined {
  const count = kind.helpers?.count(resource.spec) ?? 0
  if (!kind.helpers || count === 0) return undefined
  return jobFrom(
    {
      ...described(kind, resource, shapeOf(job, config), config),
      name: helpersName(kind, resource, number),
      annotations: { [HELPS]: job.metadata.uid ?? '', [CONFIGURATION]: configurationOf(config) },
      suspend: false,
      pods: { count },
      entry: kind.helpers.entry,
    },
    config,
  )
}

/** The largest upload, 10 GiB, and what is prepared of it. */
const OTHER_SCRATCH = '20Gi'
/**
 * Two of the largest uploads, and what is made of 30 items of a minute each: 2.6 GiB in three renditions, as pieces and joined,
 * 1.3 GiB of sound, of the items and mixed, and a music track of 0.5 GiB, decoded 0.7.
 */
const SCRATCH_OF_TWO = '28Gi'
const smallerOf = (a: string, b: string) => (bytesOf(a) < bytesOf(b) ? a : b)

function scratchOf(kind: ProgramKind, spec: Run['spec'], { scratch }: ProgramConfig): string {
  if (kind.makesLadders?.(spec)) return scratch
  return smallerOf(scratch, kind.holdsTwoUploads?.(spec) ? SCRATCH_OF_TWO : OTHER_SCRATCH)
}

/** What the Job of the attempts and that of their helpers have in common. */
function described(kind: ProgramKind, { spec, status, metadata }: Run, shape: Shape, config: ProgramConfig) {
  const { namespace, name, uid } = metadata
  // Status knows better than the spec: no GPU became free in time, so the program must not look for one either.
  const runSpec = status?.gpuGivenUp ? { ...spec, accelerator: 'cpu' as const } : spec
  return {
    owner: { kind: kind.resource.kind, namespace, name, uid, annotation: kind.ownerAnnotation },
    component: kind.component,
    priority: spec.priority,
    attemptDeadlineSeconds: spec.attemptDeadlineSeconds,
    spec: kind.jobSpec(runSpec),
    grant: kind.grant(spec),
    resources: {
      cpu: spec.priority === 'backfill' ? config.cpuBackfill : config.cpu,
      memory: shape.memory,
      scratch: scratchOf(kind, spec, config),
      gpu: shape.gpu,
    },
  }
}
