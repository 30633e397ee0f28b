import { hash } from 'node:crypto'
import * as z from 'zod'
import { API_VERSION, GROUP } from '../../crds/kind.ts'
import type { RetentionPolicy } from '../../crds/retention-policy.ts'
import type { RetentionRun } from '../../lib/contract/retention.ts'
import type { Job } from '../jobs/batch.ts'
import { MANAGED_BY, OPERATOR, OWNER_UID } from '../jobs/labels.ts'
import type { PodTemplate } from './template.ts'

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
  /** The end of the window. */
  until?: Date
}

const Note = z.object({
  slot: z.iso.datetime(),
  request: z.string().optional(),
  confirmation: z.string().optional(),
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
export const askedName = (policy: Named, annotation: 'request' | 'confirmation', value: string) =>
  `${stemOf(policy)}-r${hash('sha256', `${policy.metadata.uid} ${annotation} ${value}`).slice(0, 8)}`

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
  const slot = start.slot.toISOString()
  const { request, confirmation } = start
  const asked = { ...(request !== undefined && { request }), ...(confirmation !== undefined && { confirmation }) }
  const note: Note = { slot, ...asked, generation, dryRun: spec.dryRun }
  const annotations = { [POLICY_ANNOTATION]: name }
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: start.name,
      namespace,
      labels,
      annotations: { ...annotations, [NOTE]: JSON.stringify(note) },
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
function runOf({ metadata, spec }: RetentionPolicy, { name, slot, until, confirmation }: RunStart): RetentionRun {
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
    slot: slot.toISOString(),
  }
}
