import { isDeepStrictEqual } from 'node:util'
import * as z from 'zod'
import { API_VERSION, type CelRule, GROUP, type Kind, VERSION } from '../../crds/kind.ts'
import { ClusterError, EVENTS_V1, JOBS, LEASES, PODS, type Resource } from '../../lib/runtime/kube/cluster.ts'
import { EventBody, JobSpec, LeaseSpec, PodSpec } from './batch-schemas.ts'
import { isPlainObject, type Json } from './json.ts'
import { refuseDuplicates } from './list-types.ts'
import { CONTROLLER_UID, JOB_NAME, type StoredMeta } from './types.ts'

/** The fields of an object besides apiVersion, kind, metadata and status: `spec` for most kinds. */
export type Body = Json

/** The API server's rules for one resource. */
export interface ResourceRules {
  resource: Resource
  apiVersion: string
  /** Status is only written through the status subresource. */
  hasStatus: boolean
  hasGeneration: boolean
  /** The kubelet carries out deletions. */
  isDeletedGracefully?: boolean
  keepsForMs?: number
  /** Returns the body with defaults. Throws Invalid when it, or the change from `old`, is not allowed. */
  admit(body: Body, metadata: StoredMeta, old: Body | undefined): Body
  /** Throws Invalid when `status` does not match the schema. */
  checkStatus?(status: unknown): void
}

export const resourceOf = (kind: Kind): Resource => ({
  group: GROUP,
  version: VERSION,
  plural: kind.plural,
  kind: kind.kind,
})

export const invalid = (message: string) => new ClusterError('Invalid', message)

export function parsed<S extends z.ZodType>(schema: S, value: unknown, path: string): z.output<S> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw invalid(
    result.error.issues.map((i) => `${[path, ...i.path].filter(Boolean).join('.')}: ${i.message}`).join('; '),
  )
}

/** The rules of a custom resource, from its kind: zod schemas, list types and CEL rules on updates. */
export function customResource(kind: Kind): ResourceRules {
  const specShape = z.toJSONSchema(kind.spec, { io: 'input', unrepresentable: 'any' })
  const statusShape = z.toJSONSchema(kind.status, { io: 'input', unrepresentable: 'any' })
  const fixed = immutableFields(kind)
  return {
    resource: resourceOf(kind),
    apiVersion: API_VERSION,
    hasStatus: true,
    hasGeneration: true,
    admit(body, _metadata, old) {
      const spec = parsed(kind.spec, body['spec'], 'spec')
      refuseDuplicates(specShape, spec, 'spec')
      if (old) refuseChange(old['spec'], spec, (field) => fixed.has(field))
      return { spec }
    },
    checkStatus(status) {
      const known = parsed(kind.status, status, 'status')
      // In server-side apply an unknown field is an error; it is not pruned.
      if (!isDeepStrictEqual(known, status)) throw invalid('status: field not declared in schema')
      refuseDuplicates(statusShape, status, 'status')
    },
  }
}

const FIXED = /^self\.(\w+) == oldSelf\.\1$/
/** Of a field that may be absent. */
const FIXED_IF_SET = /^has\(self\.(\w+)\) == has\(oldSelf\.\1\) && \(!has\(self\.\1\) \|\| self\.\1 == oldSelf\.\1\)$/

/**
 * The zod schema does not say what an update may change; the CEL rules do. Rules without `oldSelf` repeat the schema. A
 * rule about updates that this cluster cannot evaluate is an error.
 */
function immutableFields(kind: Kind): ReadonlySet<string> {
  const rules = (kind.spec.meta()?.['x-kubernetes-validations'] ?? []) as CelRule[]
  const aboutUpdates = rules.filter(({ rule }) => rule.includes('oldSelf'))
  return new Set(
    aboutUpdates.map(({ rule }) => {
      const field = (FIXED.exec(rule) ?? FIXED_IF_SET.exec(rule))?.[1]
      if (!field) throw new Error(`${kind.kind}: the local cluster does not understand the rule ${rule}`)
      return field
    }),
  )
}

function refuseChange(old: unknown, next: unknown, isFixed: (field: string) => boolean): void {
  const before = isPlainObject(old) ? old : {}
  const after = isPlainObject(next) ? next : {}
  for (const field of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (!isFixed(field) || isDeepStrictEqual(before[field], after[field])) continue
    throw invalid(`spec.${field}: Invalid value: field is immutable`)
  }
}

const JOB_MUTABLE = [
  'suspend',
  'parallelism',
  'backoffLimit',
  'activeDeadlineSeconds',
  'ttlSecondsAfterFinished',
  'podReplacementPolicy',
]

const jobs: ResourceRules = {
  resource: JOBS,
  apiVersion: 'batch/v1',
  hasStatus: true,
  hasGeneration: true,
  admit(body, metadata, old) {
    if (metadata.name.length > 63) throw invalid('metadata.name: must be no more than 63 characters')
    const spec = parsed(JobSpec, body['spec'], 'spec')
    const last = (spec.completions ?? 1) - 1
    // The names of its pods are host names.
    if (spec.completionMode === 'Indexed' && `${metadata.name}-${last}`.length > 63) {
      throw invalid('metadata.name: will not able to create pod with invalid DNS label: must be no more than 63 bytes')
    }
    const labels = { [CONTROLLER_UID]: metadata.uid ?? '', [JOB_NAME]: metadata.name }
    const own = {
      ...spec,
      selector: { matchLabels: { [CONTROLLER_UID]: metadata.uid ?? '' } },
      template: {
        ...spec.template,
        metadata: { ...spec.template.metadata, labels: { ...spec.template.metadata?.labels, ...labels } },
      },
    }
    if (old) refuseChange(old['spec'], own, (field) => !JOB_MUTABLE.includes(field))
    return { spec: own }
  },
}

const POD_MUTABLE = ['nodeName', 'activeDeadlineSeconds', 'terminationGracePeriodSeconds']

const pods: ResourceRules = {
  resource: PODS,
  apiVersion: 'v1',
  hasStatus: true,
  hasGeneration: true,
  isDeletedGracefully: true,
  admit(body, _metadata, old) {
    const spec = parsed(PodSpec, body['spec'], 'spec')
    if (old) refuseChange(old['spec'], spec, (field) => !POD_MUTABLE.includes(field))
    return { spec }
  },
}

const leases: ResourceRules = {
  resource: LEASES,
  apiVersion: 'coordination.k8s.io/v1',
  hasStatus: false,
  hasGeneration: false,
  admit: (body) => ({ spec: parsed(LeaseSpec, body['spec'] ?? {}, 'spec') }),
}

const HOUR_MS = 3_600_000

const events: ResourceRules = {
  resource: EVENTS_V1,
  apiVersion: 'events.k8s.io/v1',
  hasStatus: false,
  hasGeneration: false,
  keepsForMs: HOUR_MS,
  admit(body, metadata) {
    const event = parsed(EventBody, body, '')
    const about = event.regarding?.namespace
    if (about !== undefined && about !== metadata.namespace) {
      throw invalid(`regarding.namespace: does not match event.namespace`)
    }
    return event
  },
}

export const BUILT_IN: readonly ResourceRules[] = [jobs, pods, leases, events]
