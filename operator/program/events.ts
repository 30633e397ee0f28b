import { type Run, succeededOf } from '../../crds/run.ts'
import type { Job } from '../jobs/batch.ts'
import { isQuiet } from './quiet.ts'
import type { Verdict } from './verdict.ts'

export interface PlannedEvent {
  type: 'Normal' | 'Warning'
  reason: string
  action: string
  note: string
}

const NORMAL = ['Running', 'Suspended', 'Succeeded']

/** Recorded right after the creation, whether or not the following status write succeeds. */
export const jobCreated = ({ metadata }: Job): PlannedEvent => ({
  type: 'Normal',
  reason: 'JobCreated',
  action: 'CreateJob',
  note: `Created Job ${metadata.name}`,
})

/** Recorded right after the creation. */
export const helpersCreated = ({ metadata, spec }: Job): PlannedEvent => ({
  type: 'Normal',
  reason: 'HelpersCreated',
  action: 'CreateHelpers',
  note: `Created Job ${metadata.name} with ${spec['completions']} pods that help`,
})

/** The resource goes on without helpers. */
export const helpersRefused = ({ message }: Error): PlannedEvent => ({
  type: 'Warning',
  reason: 'HelpersRefused',
  action: 'CreateHelpers',
  note: `Continuing without help: ${message}`,
})

/** One event per change of reason: repeating a plan repeats no event once its status has been written. */
export function eventsFor(resource: Run, verdict: Verdict): PlannedEvent[] {
  const events: PlannedEvent[] = []
  const { reason, message } = verdict
  const old = succeededOf(resource.status)?.reason
  if (old === 'Suspended' && !resource.spec.suspend && verdict.status === 'Unknown') {
    events.push({ type: 'Normal', reason: 'Resumed', action: 'ResumeJob', note: 'Resumed by spec.suspend' })
  }
  if (reason === old || isQuiet(reason) || (reason === 'Running' && isUneventful(old))) return events
  const type = NORMAL.includes(reason) ? 'Normal' : 'Warning'
  return [...events, { type, reason, action: 'Observe', note: message }]
}

/** The start of the first attempt needs no event: the pod has one. After a problem, running again is an event. */
const isUneventful = (old: string | undefined) => old === undefined || isQuiet(old)
