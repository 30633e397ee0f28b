import { hash } from 'node:crypto'
import * as z from 'zod'
import { API_VERSION, GROUP } from '../../crds/kind.ts'
import type { RetentionPolicy } from '../../crds/retention-policy.ts'
import type { RetentionRun } from '../../lib/contract/retention.ts'
import type { Job } from '../jobs/batch.ts'
import { CONFIGURATION, MANAGED_BY, OPERATOR, OWNER_UID } from '../jobs/labels.ts'
import { digestOf, type PodTemplate } from './template.ts'

/** Annotation of Jobs and pods: name of their policy. */
export const POLICY_ANNOTATION = `${GROUP}/retention-policy`
export const COMPONENT = 'retention'
/** Annotation of Jobs: what the operator has to know about the run, whatever became of the policy meanwhile. */
const NOTE = `${GROUP}/retention-run`

/** A run that is to start. */
export interface RunStart {
  name: string
  /** The slot of the schedule, or the time that a person named. */
  slot: Date
  /** The annotation's value that asked for it; absent when the schedule did. */
  request?: string
  confirmation?: string
  /** What the run that asked for the confirmation had found due. */
  confirmedDue?: number
  /** The end of the window. */
  until?: Date
  /** The run whose place it takes, and why no pod of that could start. */
  replaces?: { run: string; why: string }
}

const Note = z.object({
  slot: z.iso.datetime(),
  request: z.string().optional(),
  confirmation: z.string().optional(),
  confirmedDue: z.int().min(0).optional(),
  until: z.iso.datetime().optional(),
  replaces: z.object({ run: z.string(), why: z.string() }).optional(),
  generation: z.int().min(0),
  dryRun: z.boolean(),
})
export type Note = z.infer<typeof Note>

/** Undefined when a user has edited the annotation into something else. */
export function noteOf({ metadata }: Job): Note | undefined {
  try {
    return Note.safeParse(JSON.parse(metadata.annotations?.[NOTE] ?? '')).data
  } catch {
    return undefined
  }
}

type Named = Pick<RetentionPolicy, 'metadata'>

/** Enough for `-` and the minutes of the year 9999, or `-r` and a digest. */
const MAX_STEM = 63 - 11

/** What the names of all runs of a policy begin with. No two policies have the same. */
function stemOf({ metadata: { name } }: Named): string {
  if (name.length <= MAX_STEM && !name.includes('.')) return name
  const digest = hash('sha256', name).slice(0, 8)
  return `${name
    .replaceAll('.', '-')
    .slice(0, MAX_STEM - 9)
    .replace(/-+$/, '')}-${digest}`
}

/** A slot has one run: its name is the slot, so that creating it twice is a no-op. */
export const slotName = (policy: Named, slot: Date) => `${stemOf(policy)}-${Math.floor(slot.getTime() / 60_000)}`

/** The same for a value of an annotation, of this policy and no later one of its name. */
export const askedName = (policy: Named, annotation: 'request' | 'confirmation' | 'replacement', value: string) =>
  `${stemOf(policy)}-r${hash('sha256', `${policy.metadata.uid} ${annotation} ${value}`).slice(0, 8)}`

/**
 * The run that takes the place of one whose pods cannot start. A Job's template is immutable, so another Job is needed; its name
 * follows from that of the first, so that creating it twice is a no-op. It follows the policy as it is now, so a confirmation of
 * earlier rules does not go with it.
 */
export function replacementOf(policy: RetentionPolicy, job: Job, why: string): RunStart {
  const { metadata } = job
  const { slot, request, confirmation, confirmedDue, until, generation } = noteOf(job) ?? {}
  const isConfirmed = confirmation !== undefined && generation === policy.metadata.generation
  return {
    name: askedName(policy, 'replacement', metadata.name),
    slot: new Date(slot ?? metadata.creationTimestamp ?? 0),
    replaces: { run: metadata.name, why: why.slice(0, 400) },
    ...(request !== undefined && { request }),
    ...(isConfirmed && { confirmation }),
    ...(isConfirmed && confirmedDue !== undefined && { confirmedDue }),
    ...(until && { until: new Date(until) }),
  }
}

/** Whether the Job was made from another template than this one. */
export const isOutdated = ({ metadata }: Job, template: string): boolean =>
  metadata.annotations?.[CONFIGURATION] !== template

/** The batch/v1 Job of a run: a work queue, whose pods end when nothing is left to take up. */
export function jobOf(policy: RetentionPolicy, start: RunStart, template: PodTemplate): Job {
  const { spec, metadata } = policy
  const { name, namespace, uid, generation = 0 } = metadata
  const labels = {
    'app.kubernetes.io/name': 'keepsake',
    'app.kubernetes.io/component': COMPONENT,
    [MANAGED_BY]: OPERATOR,
    [OWNER_UID]: uid,
  }
  const annotations = { [POLICY_ANNOTATION]: name }
  const note: Note = { ...noted(start), generation, dryRun: spec.dryRun }
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: start.name,
      namespace,
      labels,
      annotations: { ...annotations, [NOTE]: JSON.stringify(note), [CONFIGURATION]: digestOf(template) },
      ownerReferences: [
        { apiVersion: API_VERSION, kind: 'RetentionPolicy', name, uid, controller: true, blockOwnerDeletion: true },
      ],
    },
    spec: {
      // No completions: several pods of one queue, each of which knows when it is empty.
      parallelism: spec.parallelism,
      // Failures of all pods count together.
      backoffLimit: 2 * spec.parallelism + 2,
      // No ttlSecondsAfterFinished: the operator sets it when it has recorded the result.
      podReplacementPolicy: 'Failed',
      podFailurePolicy: {
        // No exit code fails the Job: that would end the other pods, too.
        rules: [{ action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] }],
      },
      template: {
        metadata: {
          ...template.metadata,
          labels: { ...template.metadata?.labels, ...labels },
          annotations: { ...template.metadata?.annotations, ...annotations },
        },
        spec: podSpec(template.spec, runOf(policy, start)),
      },
    },
  }
}

function noted({ slot, until, request, confirmation, confirmedDue, replaces }: RunStart) {
  return {
    slot: slot.toISOString(),
    ...(request !== undefined && { request }),
    ...(confirmation !== undefined && { confirmation }),
    ...(confirmedDue !== undefined && { confirmedDue }),
    ...(until && { until: until.toISOString() }),
    ...(replaces && { replaces }),
  }
}

function podSpec(spec: PodTemplate['spec'], run: RetentionRun) {
  const [program, ...beside] = spec.containers
  const kept = program?.env?.filter((e) => e.name !== 'RETENTION_RUN') ?? []
  return {
    ...spec,
    restartPolicy: 'Never',
    automountServiceAccountToken: false,
    containers: [{ ...program, env: [...kept, { name: 'RETENTION_RUN', value: JSON.stringify(run) }] }, ...beside],
  }
}

/** What the pods of the run get. They keep it when the policy is edited. */
function runOf(
  { metadata, spec }: RetentionPolicy,
  { name, slot, until, confirmation, confirmedDue }: RunStart,
): RetentionRun {
  const { target, rules, batchSize, bytesPerSecond, parallelism, dryRun, maxDuePercent } = spec
  return {
    policy: metadata.name,
    uid: metadata.uid,
    run: name,
    target,
    rules,
    batchSize,
    parallelism,
    ...(bytesPerSecond !== undefined && { bytesPerSecond }),
    ...(until && { until: until.toISOString() }),
    dryRun,
    maxDuePercent,
    confirmed: confirmation !== undefined,
    ...(confirmedDue !== undefined && { confirmedDue }),
    slot: slot.toISOString(),
  }
}
