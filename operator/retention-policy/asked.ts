import type { Answered, RetentionPolicy } from '../../crds/retention-policy.ts'
import { CONFIRM_RUN, RUN_REQUESTED } from '../../crds/retention-policy.ts'
import type { Job } from '../jobs/batch.ts'
import { askedName, noteOf, type RunStart } from './run.ts'

/** What a person asked for by an annotation, and has no answer yet: a run that may start, or why it does not. */
export type Asked = { value: string } & ({ start: RunStart } | { answer: string })

/** A request may come with the policy, from a machine whose clock differs. One of a restored policy is long over. */
const OLDER_MS = 3_600_000
const MAX_VALUE = 256

export interface Given {
  policy: RetentionPolicy
  /** The Job of the run that has not ended. */
  open: Job | undefined
  /** Why no run may start; undefined if one may. */
  obstacle: string | undefined
  now: Date
}

function pending(policy: RetentionPolicy, annotation: string, known: Answered | undefined): string | undefined {
  const value = policy.metadata.annotations?.[annotation]?.slice(0, MAX_VALUE)
  return value === undefined || value === '' || value === known?.value ? undefined : value
}

const refused = (value: string, why: string): Asked => ({ value, answer: `Refused: ${why}` })
const begun = (value: string, { metadata }: Job): Asked => ({ value, answer: `Started run ${metadata.name}` })

/** The request of a run out of turn; undefined when there is none that has no answer. */
export function requestOf({ policy, open, obstacle, now }: Given): Asked | undefined {
  const value = pending(policy, RUN_REQUESTED, policy.status?.lastRunRequest)
  if (value === undefined) return undefined
  if (open && noteOf(open)?.request === value) return begun(value, open)
  const time = timeOf(value)
  if (!time) return refused(value, 'it is no RFC 3339 time, such as 2026-11-26T10:00:00Z')
  if (time.getTime() < Date.parse(policy.metadata.creationTimestamp ?? '') - OLDER_MS) {
    return refused(value, 'the policy was created after this time')
  }
  const why = obstacle ?? (open && `run ${open.metadata.name} is running`)
  if (why) return refused(value, why)
  // Not the time that was named: it only tells one request from another.
  return { value, start: { name: askedName(policy, 'request', value), slot: now, request: value } }
}

/**
 * The confirmation of a run that asked for it; undefined when there is none that has no answer. A run that is confirmed has no
 * guards, so that it has to do what the run that asked had found: its rules, and nothing that has happened since.
 */
export function confirmationOf({ policy, open, obstacle, now }: Given): Asked | undefined {
  const value = pending(policy, CONFIRM_RUN, policy.status?.lastConfirmation)
  if (value === undefined) return undefined
  if (open && noteOf(open)?.confirmation === value) return begun(value, open)
  const run = policy.status?.runs?.find((r) => r.name === value)
  if (!run) return refused(value, 'there is no run of this name among the last ones')
  if (run.ended !== 'ConfirmationRequired') return refused(value, 'this run did not ask for a confirmation')
  if (run.name !== policy.status?.lastRun?.name) return refused(value, 'it is not the last run')
  if (run.generation !== policy.metadata.generation) return refused(value, 'the policy was edited since this run')
  const why = obstacle ?? (open && `run ${open.metadata.name} is running`)
  if (why) return refused(value, why)
  return { value, start: { name: askedName(policy, 'confirmation', value), slot: now, confirmation: value } }
}

const RFC_3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/

function timeOf(text: string): Date | undefined {
  if (!RFC_3339.test(text)) return undefined
  const time = new Date(text)
  return Number.isNaN(time.getTime()) ? undefined : time
}
