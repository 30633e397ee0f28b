import type { Run } from '../../crds/run.ts'
import { attemptsOf } from '../jobs/attempts.ts'
import { isOwnedBy, type Job, type Pod } from '../jobs/batch.ts'
import type { ProgramConfig } from './child.ts'
import type { ProgramKind } from './kind.ts'
import { shapeOf } from './shape.ts'

/** All inputs of a decision. */
export interface Observed {
  kind: ProgramKind
  resource: Run
  /** The Job with the name of the current one, whatever its owner. */
  job: Job | undefined
  /** Pods of that Job. */
  pods: readonly Pod[]
  /** Other Jobs of this resource. */
  leftovers: readonly Job[]
  /** The Jobs of helpers of this resource. */
  helpers: readonly Job[]
  /** The API server has refused a Job of helpers: not before this time again. */
  helpersNotBefore?: Date | undefined
  config: ProgramConfig
  now: Date
  /** Other resources wait for their turn: what can be written later is not written now. */
  isUrgent?: boolean
}

/** Attempts so far, including those of earlier Jobs of the resource. */
export function attemptsSoFar({ resource, job, pods, config }: Observed): number {
  const recorded = resource.status?.attempts ?? 0
  if (!job || !isOwnedBy(job, resource.metadata.uid)) return recorded
  return attemptsOf({ recorded, job, before: shapeOf(job, config).attemptsBefore, pods })
}
