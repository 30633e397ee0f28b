import { hash } from 'node:crypto'
import * as z from 'zod'

/** The container of the program: the first one. */
const Container = z.looseObject({
  name: z.string().min(1),
  env: z.array(z.looseObject({ name: z.string() })).optional(),
})

/**
 * The pods of runs, as the installation of the operator describes them: image, program, environment, Secrets, resources. The
 * operator adds what is particular to a run.
 */
export const PodTemplate = z.looseObject({
  metadata: z
    .looseObject({
      labels: z.record(z.string(), z.string()).optional(),
      annotations: z.record(z.string(), z.string()).optional(),
    })
    .optional(),
  spec: z.looseObject({ containers: z.array(Container).min(1) }),
})
export type PodTemplate = z.infer<typeof PodTemplate>

/** Tells one template from another. */
export const digestOf = (template: PodTemplate): string => hash('sha256', JSON.stringify(template)).slice(0, 16)
