import * as z from 'zod'
import { Condition, GROUP } from '../../crds/kind.ts'
import { type Job, jobCondition } from './batch.ts'

/**
 * Annotation of Jobs: why the operator ended this Job, and what follows. The patch that ends the Job also writes it, so
 * neither exists without the other. Nothing else lasts long enough: the Job controller deletes the pods of a Job that
 * it ends, even a failed one if its cache still shows that pod as running, and the condition in status may be lost in a
 * crash or replaced by what the operator sees next.
 */
const ENDED = `${GROUP}/ended`

const Ending = z.object({
  /** The resource fails, another Job with the next number follows, or the same Job is created again. */
  next: z.enum(['Fail', 'StartOver', 'Remake']),
  reason: Condition.shape.reason,
  message: Condition.shape.message,
  /** Attempts so far: the pods that they are counted from may be deleted. */
  attempts: z.int().min(0),
})
export type Ending = z.infer<typeof Ending>

export const endingAnnotation = (ending: Ending): Record<string, string> => ({ [ENDED]: JSON.stringify(ending) })

/** Why the operator is ending this Job, or has ended it; undefined when another cause ended it first. */
export function endingOf(job: Job): Ending | undefined {
  const said = job.metadata.annotations?.[ENDED]
  if (said === undefined) return undefined
  const cause = jobCondition(job, 'Failed')?.reason ?? 'DeadlineExceeded'
  return cause === 'DeadlineExceeded' ? parse(said) : undefined
}

/** Undefined when a user has edited the annotation into something else. */
function parse(said: string): Ending | undefined {
  try {
    return Ending.safeParse(JSON.parse(said)).data
  } catch {
    return undefined
  }
}
