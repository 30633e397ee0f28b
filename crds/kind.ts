import * as z from 'zod'

export const GROUP = 'media.keepsake.dev'
export const VERSION = 'v1alpha1'
export const API_VERSION = `${GROUP}/${VERSION}`

/** metav1.Condition (KEP-1623): `lastTransitionTime` moves only when `status` flips. */
export const Condition = z
  .object({
    type: z.string().min(1).max(64).describe('What it is about'),
    status: z.enum(['True', 'False', 'Unknown']).describe('Unknown: not known yet'),
    reason: z
      .string()
      .regex(/^[A-Z][A-Za-z0-9]*$/)
      .max(64)
      .describe('Why, in one word for programs'),
    message: z.string().max(1024).describe('Why, for people'),
    observedGeneration: z.int().min(0).describe('The generation of the spec that this is about'),
    lastTransitionTime: z.iso.datetime().max(64).describe('When status last changed'),
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

/** What is left of metav1.ObjectMeta once an object has passed the API server: it has a name, a namespace and a uid. */
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

/** One CEL rule (`x-kubernetes-validations`); `oldSelf` makes it a rule about updates only. */
export interface CelRule {
  rule: string
  message: string
  /** Default FieldValueInvalid. With FieldValueDuplicate the API server would not show the message. */
  reason?: 'FieldValueInvalid' | 'FieldValueForbidden' | 'FieldValueRequired'
  fieldPath?: string
}

/**
 * Rules that refuse any change of these fields. They belong on the parent of the fields: on a field itself, removing it
 * would go unnoticed, because rules about updates are skipped where the value is absent. Every field must be required
 * or have a default, so that CEL may read it without asking whether it is there.
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
  /** 1: shown only by `kubectl get -o wide`. */
  priority?: number
}

/** Everything the YAML generator and the clients need to know about one custom resource. */
export interface Kind<Spec extends z.ZodObject = z.ZodObject, Status extends z.ZodObject = z.ZodObject> {
  kind: string
  plural: string
  shortNames: string[]
  categories: string[]
  description: string
  spec: Spec
  status: Status
  columns: PrinterColumn[]
}

/** Returns the next list of conditions; `lastTransitionTime` only moves when `status` flips. */
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
