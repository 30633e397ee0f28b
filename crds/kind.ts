import * as z from 'zod'

export const GROUP = 'media.keepsake.dev'
export const VERSION = 'v1alpha1'
export const API_VERSION = `${GROUP}/${VERSION}`

/** metav1.Condition (KEP-1623): `lastTransitionTime` changes only when `status` does. */
export const Condition = z
  .object({
    type: z.string().min(1).max(64).describe('Type of the condition'),
    status: z.enum(['True', 'False', 'Unknown']).describe('Status of the condition; Unknown: not decided yet'),
    reason: z
      .string()
      .regex(/^[A-Z][A-Za-z0-9]*$/)
      .max(64)
      .describe('Machine-readable reason for the status, in CamelCase'),
    message: z.string().max(1024).describe('Human-readable reason for the status'),
    observedGeneration: z.int().min(0).describe('Generation of the spec that the condition is based on'),
    lastTransitionTime: z.iso.datetime().max(64).describe('Time at which status last changed'),
  })
  .describe('Standard Kubernetes condition')
export type Condition = z.infer<typeof Condition>

export const Conditions = z
  .array(Condition)
  .max(8)
  .meta({
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['type'],
  })

/** The metadata of an object that the API server has stored: name, namespace and uid are always set. */
export interface Metadata {
  name: string
  namespace: string
  uid: string
  generation?: number
  resourceVersion?: string
  creationTimestamp?: string
  deletionTimestamp?: string
  labels?: Record<string, string>
  annotations?: Record<string, string>
}

/** One CEL rule (`x-kubernetes-validations`); a rule with `oldSelf` applies to updates only. */
export interface CelRule {
  rule: string
  message: string
  /** Default FieldValueInvalid. With FieldValueDuplicate the API server does not show the message. */
  reason?: 'FieldValueInvalid' | 'FieldValueForbidden' | 'FieldValueRequired'
  fieldPath?: string
}

/** As `immutable`, for fields that may be absent. */
export const immutableIfSet = (fields: readonly string[]): CelRule[] =>
  fields.map((field) => ({
    rule: `has(self.${field}) == has(oldSelf.${field}) && (!has(self.${field}) || self.${field} == oldSelf.${field})`,
    message: `${field} cannot be changed: create another resource instead`,
    reason: 'FieldValueForbidden',
    fieldPath: `.${field}`,
  }))

/**
 * Rules that reject any change of these fields. Put them on the parent of the fields: the API server skips an update
 * rule on a field that is absent, so a rule on the field itself would permit its removal. Every field must be required
 * or have a default, so that CEL may read it without `has()`.
 */
export const immutable = (fields: readonly string[]): CelRule[] =>
  fields.map((field) => ({
    rule: `self.${field} == oldSelf.${field}`,
    message: `${field} cannot be changed: create another resource instead`,
    reason: 'FieldValueForbidden',
    fieldPath: `.${field}`,
  }))

export interface PrinterColumn {
  name: string
  type: 'string' | 'integer' | 'number' | 'date' | 'boolean'
  jsonPath: string
  description?: string
  /** 1: only `kubectl get -o wide` shows the column. */
  priority?: number
}

/** The definition of one custom resource, for the YAML generator and for clients. */
export interface Kind<
  Spec extends z.ZodObject = z.ZodObject,
  Status extends z.ZodObject = z.ZodObject,
  Name extends string = string,
> {
  kind: Name
  plural: string
  shortNames: string[]
  categories: string[]
  description: string
  spec: Spec
  status: Status
  columns: PrinterColumn[]
}

/** Replaces a condition in the list; `lastTransitionTime` changes only when `status` does. */
export function withCondition(
  list: readonly Condition[],
  next: Omit<Condition, 'lastTransitionTime'>,
  now: Date,
): Condition[] {
  const old = list.find((c) => c.type === next.type)
  const lastTransitionTime = old?.status === next.status ? old.lastTransitionTime : now.toISOString()
  return [...list.filter((c) => c.type !== next.type), { ...next, lastTransitionTime }]
}

export const conditionOf = (list: readonly Condition[] | undefined, type: string) => list?.find((c) => c.type === type)

/** The API resource of a kind. */
export const resourceOf = <K extends string>({ plural, kind }: { plural: string; kind: K }) =>
  ({ group: GROUP, version: VERSION, plural, kind }) as const

const Envelope = z.object({
  metadata: z.looseObject({ name: z.string().min(1), namespace: z.string().min(1), uid: z.string().min(1) }),
})

/**
 * Validates the spec like the CRD's schema and fills in the defaults, for a cluster whose CRD is of another version or was
 * edited: what the API server has accepted may be a value that a newer version knows. Throws for a value that is not a Kubernetes object.
 */
export function parseSpec<S extends z.ZodObject>(
  kind: Kind<S>,
  object: unknown,
): { metadata: Metadata; spec: z.infer<S> } | { problem: string } {
  const { metadata } = Envelope.parse(object)
  const parsed = kind.spec.safeParse((object as { spec?: unknown }).spec)
  if (!parsed.success) return { problem: parsed.error.issues.map(describe).join('; ').slice(0, 1024) }
  return { metadata: metadata as Metadata, spec: parsed.data }
}

const describe = (issue: z.core.$ZodIssue) => `${['spec', ...issue.path].join('.')}: ${issue.message}`
