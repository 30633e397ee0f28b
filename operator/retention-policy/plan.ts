import { type Condition, conditionOf, withCondition } from '../../crds/kind.ts'
import type { RetentionPolicy, RetentionPolicyStatus, RunRecord } from '../../crds/retention-policy.ts'
import { isJobFinished, isTerminalPod, type Job, type Pod } from '../jobs/batch.ts'
import { unheardSince } from '../jobs/evidence.ts'
import { QUEUED, type Waiting, waitingOf, waitingWithoutPod } from '../jobs/waiting.ts'
import { type Asked, confirmationOf, requestOf } from './asked.ts'
import { type Due, dueOf, type Followed, follow, lastSlot } from './due.ts'
import { finalRecord, lostRecord, type PodResult, replacedRecord, runningRecord } from './result.ts'
import { isOutdated, noteOf, type RunStart, replacementOf, slotName } from './run.ts'
import { parseSchedule, type Schedule } from './schedule.ts'

/** All inputs of a decision. */
export interface Seen {
  policy: RetentionPolicy
  /** The spec is none that this operator understands. The policy's is then a placeholder that starts nothing. */
  problem?: string
  hasFinalizer: boolean
  /** The policy that is in force for the target instead of this one. */
  rival: string | undefined
  /** Jobs of this policy. If status names a run that is not among them, it is gone. */
  jobs: readonly Job[]
  /** Pods of the run that has not ended. */
  pods: readonly Pod[]
  /** The furthest result that a pod of this run left. */
  result: PodResult | undefined
  /** Digest of the template that a Job would be made from; undefined: there is none. */
  template: string | undefined
  /** Why the Job of the run that was to start could not be created. */
  refusal?: { reason: string; message: string }
  now: Date
}

export interface PlannedEvent {
  type: 'Normal' | 'Warning'
  reason: string
  action: string
  note: string
}

/** As Kubernetes writes times: slots are whole minutes. */
const timeOf = (slot: Date) => slot.toISOString().replace('.000Z', 'Z')

/** In the order in which it is carried out. */
export interface Plan {
  addFinalizer?: true
  start?: RunStart
  suspend?: Job
  status?: RetentionPolicyStatus
  /** Runs that `status` records for the first time. */
  recorded: RunRecord[]
  events: PlannedEvent[]
  /** Jobs whose runs are recorded. */
  expire: { job: Job; seconds: number }[]
  remove: Job[]
  removeFinalizer?: true
  requeueAfterMs?: number
}

/** Jobs and pods of finished runs stay so long, with the logs. */
const TTL_SECONDS = { good: 3600, bad: 86_400 } as const
const MAX_RUNS = 10
/** The clock may be set, and timers do not notice it. */
const LOOK_AGAIN_MS = 600_000
/** The operator's own writes trigger no reconcile. */
const AT_ONCE_MS = 10
/** Pods that end trigger a reconcile; this one is for a change that went unnoticed. */
const STOPPING_MS = 15_000
const REJECTED_AGAIN_MS = 300_000

/** Ends that a person should look at. */
const BAD: readonly (RunRecord['ended'] | undefined)[] = [
  'ConfirmationRequired',
  'ClockSkew',
  'StoreUnavailable',
  'Failed',
  'Lost',
]
const isBad = (run: RunRecord | undefined) => BAD.includes(run?.ended)

const runNamed = ({ policy }: Seen, name: string) => policy.status?.runs?.find((r) => r.name === name)
/** A time to live that is set says so even when ten later runs have taken its place in status. */
const isRecorded = (seen: Seen, { metadata, spec }: Job): boolean =>
  spec.ttlSecondsAfterFinished !== undefined || runNamed(seen, metadata.name)?.finished !== undefined

/** The Job of the run that takes the place of this one. */
const replacingOf = ({ jobs }: Pick<Seen, 'jobs'>, { metadata }: Job): Job | undefined =>
  jobs.find((job) => noteOf(job)?.replaces?.run === metadata.name)

/** The run that has not ended, or whose end is not recorded, and in whose place there is no other. */
export const openRun = (seen: Pick<Seen, 'policy' | 'jobs'>): Job | undefined =>
  seen.jobs.find((job) => !isRecorded(seen as Seen, job) && !replacingOf(seen, job))

const NO_PLAN: Plan = { recorded: [], events: [], expire: [], remove: [] }

/** What the policy needs next. The same observation always gives the same plan; carrying it out twice is harmless. */
export function planRetention(seen: Seen): Plan {
  const { policy, hasFinalizer } = seen
  const open = openRun(seen)
  const isDeleted = policy.metadata.deletionTimestamp !== undefined
  if (isDeleted && !hasFinalizer) return NO_PLAN
  const state = stateOf(seen, open)
  const isIdle = !open && !state.record && !state.start
  if (isDeleted && isIdle) return { ...NO_PLAN, removeFinalizer: true }
  const status = statusOf(seen, state)
  const { stopping } = state
  return {
    // Only while there is a run: a policy that outlives the operator can be deleted.
    ...(!hasFinalizer && !isIdle && { addFinalizer: true as const }),
    ...(hasFinalizer && isIdle && { removeFinalizer: true as const }),
    ...(state.start && { start: state.start }),
    ...(stopping === 'suspend' && open && { suspend: open }),
    status,
    recorded: endedNow(state),
    events: eventsOf(seen, state, status),
    ...settled(seen, state),
    ...requeue(seen, state, status),
  }
}

/** What is decided before status is written. */
interface State {
  open: Job | undefined
  /** Why the policy is not carried out; undefined if it is. */
  fault: { reason: string; message: string } | undefined
  followed: Followed | undefined
  due: Due
  /** The run of `open`, or one whose Job is gone, has ended: its record. */
  record: RunRecord | undefined
  /** The record of a run in whose place `open` is. */
  replaced: RunRecord | undefined
  /** `suspend`: the Job must be suspended now. `wait`: its pods are ending. `over`: none is left. */
  stopping: 'suspend' | 'wait' | 'over' | undefined
  request: Asked | undefined
  confirmation: Asked | undefined
  start: RunStart | undefined
}

function stateOf(seen: Seen, open: Job | undefined): State {
  const { policy, now } = seen
  const parsed = parseSchedule(policy.spec.schedule)
  const fault = faultOf(seen, 'fault' in parsed ? parsed.fault : undefined)
  const stopping = open && stoppingOf(seen, open)
  const record = recordOf(seen, open, stopping)
  // Of a policy without pods to start the schedule is followed all the same: the slot is made up for later.
  const isFollowed = !fault || fault.reason === 'NoTemplate'
  const followed = isFollowed ? follow(givenOf(seen)) : undefined
  const due = followed && 'schedule' in parsed ? scheduleSays(seen, parsed.schedule, followed) : {}
  const obstacle = fault && `${fault.message.charAt(0).toLowerCase()}${fault.message.slice(1)}`
  const given = { policy, open, obstacle, now }
  const isDeleted = policy.metadata.deletionTimestamp !== undefined
  const request = isDeleted ? undefined : requestOf(given)
  const confirmation = isDeleted ? undefined : confirmationOf(given)
  const mayStart = !fault && !stopping && !record && !seen.refusal
  const start = !mayStart ? undefined : open ? replacing(seen, open) : startOf(seen, due, [confirmation, request])
  const replaced = open && replacedOf(seen, open)
  return { open, fault, followed, due, record, replaced, stopping, request, confirmation, start }
}

/** Runs whose end this plan records. */
const endedNow = ({ record, replaced }: Pick<State, 'record' | 'replaced'>): RunRecord[] =>
  [record, replaced].filter((r) => r !== undefined)

const givenOf = ({ policy, now }: Seen) => ({
  status: policy.status,
  schedule: policy.spec.schedule,
  createdAt: policy.metadata.creationTimestamp ?? '',
  now,
})

function scheduleSays({ policy, now }: Seen, schedule: Schedule, { scheduledSince }: Followed): Due {
  const last = lastSlot(policy.status, now)
  return dueOf(schedule, policy.spec.window, last === undefined ? [scheduledSince] : [scheduledSince, last], now)
}

/** A person who asks goes before the schedule, at any hour: the window is of the schedule. */
function startOf(seen: Seen, due: Due, asked: (Asked | undefined)[]): RunStart | undefined {
  for (const one of asked) if (one && 'start' in one) return one.start
  if (!due.slot || awaitsConfirmation(seen)) return undefined
  const { slot, until } = due
  return { name: slotName(seen.policy, slot), slot, ...(until && { until }) }
}

/**
 * The run in the place of one whose pods cannot start, if the template has changed since: an administrator has probably fixed the
 * cause. If one of the pods starts meanwhile after all, it is stopped, and the other run does what is left.
 */
function replacing(seen: Seen, open: Job): RunStart | undefined {
  const { policy, template } = seen
  if (template === undefined || !isOutdated(open, template)) return undefined
  const why = hindrance(seen, open)
  return why && replacementOf(policy, open, `${why.reason}: ${why.message}`)
}

function replacedOf(seen: Seen, open: Job): RunRecord | undefined {
  const { replaces } = noteOf(open) ?? {}
  const job = replaces && seen.jobs.find(({ metadata }) => metadata.name === replaces.run)
  if (!job || isRecorded(seen, job)) return undefined
  const known = runNamed(seen, job.metadata.name)
  return replacedRecord(job, known, { by: open.metadata.name, why: replaces.why, now: seen.now })
}

/** After such a run nothing starts by itself until a person confirms it, asks for another run, or edits the policy. */
const awaitsConfirmation = ({ policy }: Pick<Seen, 'policy'>): boolean =>
  policy.status?.lastRun?.ended === 'ConfirmationRequired' &&
  policy.status.lastRun.generation === policy.metadata.generation

/** Why the policy is not carried out, the most important first. */
function faultOf({ policy, problem, rival, template }: Seen, schedule: string | undefined): State['fault'] {
  if (policy.metadata.deletionTimestamp !== undefined) return { reason: 'Deleted', message: 'The policy is deleted' }
  if (problem !== undefined) return { reason: 'InvalidSpec', message: problem }
  if (rival !== undefined) {
    const message = `Policy ${rival} is older and in force for the target ${policy.spec.target}`
    return { reason: 'TargetTaken', message }
  }
  if (policy.spec.suspend) return { reason: 'Suspended', message: 'The policy is suspended' }
  if (schedule !== undefined) return { reason: 'BadSchedule', message: `The schedule is invalid: ${schedule}` }
  if (template === undefined) {
    return { reason: 'NoTemplate', message: 'The operator has no template for the pods: set RETENTION_TEMPLATE_FILE' }
  }
  return undefined
}

const STOPS = ['Deleted', 'TargetTaken', 'Suspended']

/**
 * Whether a run has to end, and how far that is. A Job that is suspended is ended, also when a user suspended it: it must
 * not go on later with rules that have been edited because they were wrong.
 */
function stoppingOf(seen: Seen, open: Job): State['stopping'] {
  if (isJobFinished(open)) return undefined
  const fault = faultOf({ ...seen, template: '' }, undefined)
  if (!open.spec.suspend) return fault && STOPS.includes(fault.reason) ? 'suspend' : undefined
  // The Job controller says that it has seen the suspension: from then on it creates no pod.
  const isSeen = open.status?.conditions?.some((c) => c.type === 'Suspended' && c.status === 'True')
  return isSeen && seen.pods.every(isTerminalPod) ? 'over' : 'wait'
}

function recordOf(seen: Seen, open: Job | undefined, stopping: State['stopping']): RunRecord | undefined {
  const { policy, now, result } = seen
  if (open) {
    const isOver = isJobFinished(open) || stopping === 'over' || isLeftOver(seen, open)
    const known = runNamed(seen, open.metadata.name)
    return isOver ? finalRecord(open, known, result, { now, isStopped: stopping === 'over' }) : undefined
  }
  const { active } = policy.status ?? {}
  if (active === undefined || seen.jobs.some((j) => j.metadata.name === active)) return undefined
  return lostRecord(active, runNamed(seen, active), now)
}

/** A pod has said that nothing is left to do, and the Job waits for others, which have not started and cannot. */
const isLeftOver = (seen: Seen, open: Job): boolean =>
  (open.status?.succeeded ?? 0) > 0 && !open.spec.suspend && hindrance(seen, open) !== undefined

/** What is left to do for Jobs whose runs are recorded, by this plan or an earlier one. */
function settled(seen: Seen, state: State): Pick<Plan, 'expire' | 'remove'> {
  const now = endedNow(state)
  const ended = ({ metadata: { name } }: Job) => now.find((r) => r.name === name) ?? runNamed(seen, name)
  const done = seen.jobs.filter((job) => isRecorded(seen, job) || ended(job)?.finished !== undefined)
  return {
    expire: done
      .filter((job) => isJobFinished(job) && job.spec.ttlSecondsAfterFinished === undefined)
      .map((job) => ({ job, seconds: isBad(ended(job)) ? TTL_SECONDS.bad : TTL_SECONDS.good })),
    // One that is suspended or waits for a pod never finishes, so that its time to live never begins.
    remove: done.filter((job) => !isJobFinished(job)),
  }
}

function statusOf(seen: Seen, state: State): RetentionPolicyStatus {
  const { policy, now } = seen
  const old = policy.status ?? {}
  const { open, record, followed } = state
  const isRunning = open !== undefined && !record
  const runs = runsOf(seen, state)
  const slot = slotOf(seen, open)
  const errors = record ? seen.result?.errors : old.errors
  const ready = readyOf(seen, state)
  const observedGeneration = policy.metadata.generation ?? 0
  const condition = { type: 'Ready', ...ready, message: ready.message.slice(0, 1024), observedGeneration }
  const lastRun = endedNow(state)[0] ?? old.lastRun
  const lastFinished = lastFinishedOf(old, endedNow(state))
  const nextRun = nextOf(seen, state)
  return {
    observedGeneration,
    conditions: withCondition(old.conditions ?? [], condition, now),
    ...followed,
    ...(slot !== undefined && { lastScheduleTime: slot }),
    ...answered('lastRunRequest', state.request, old),
    ...answered('lastConfirmation', state.confirmation, old),
    ...(isRunning && { active: open.metadata.name }),
    ...(nextRun && { nextRun: timeOf(nextRun) }),
    ...(lastRun && { lastRun }),
    ...(lastFinished !== undefined && { lastFinished }),
    ...(runs.length > 0 && { runs }),
    ...(errors && errors.length > 0 && { errors }),
  }
}

const hasCarriedOut = ({ ended, dryRun }: RunRecord): boolean => ended === 'Finished' && !dryRun

/** Not only in `runs`, which ten others push it out of. A status of an earlier version has it there alone. */
function lastFinishedOf({ lastFinished, runs = [] }: RetentionPolicyStatus, ended: readonly RunRecord[]) {
  return ended.find(hasCarriedOut)?.finished ?? lastFinished ?? runs.find(hasCarriedOut)?.finished
}

/** The answer is written when it is known: that of a run that starts, with the run. */
function answered<K extends 'lastRunRequest' | 'lastConfirmation'>(
  field: K,
  asked: Asked | undefined,
  old: RetentionPolicyStatus,
) {
  if (asked && 'answer' in asked) return { [field]: { value: asked.value, answer: asked.answer.slice(0, 512) } }
  return old[field] ? { [field]: old[field] } : {}
}

/** The slot of the last run, also when the operator ended between its creation and the writing of status. */
function slotOf({ policy, now }: Seen, open: Job | undefined): string | undefined {
  const note = open && noteOf(open)
  const isScheduled = note && note.request === undefined && note.confirmation === undefined
  const times = [lastSlot(policy.status, now), isScheduled ? note.slot : undefined]
  return times
    .filter((time) => time !== undefined)
    .sort()
    .at(-1)
}

function runsOf(seen: Seen, { open, record, replaced }: State): RunRecord[] {
  const current = record ?? (open && runningRecord(open, runNamed(seen, open.metadata.name), seen.result))
  const fresh = [current, replaced].filter((r) => r !== undefined)
  const old = seen.policy.status?.runs ?? []
  return [...fresh, ...old.filter(({ name }) => !fresh.some((r) => r.name === name))].slice(0, MAX_RUNS)
}

function nextOf(seen: Seen, { fault, due, open, record }: State): Date | undefined {
  if (fault || (awaitsConfirmation(seen) && !open && !record)) return undefined
  if (record?.ended === 'ConfirmationRequired') return undefined
  // The slot and not the time of this look, which would be another one each time.
  return due.next ?? due.slot
}

type Ready = Pick<Condition, 'status' | 'reason' | 'message'>

function readyOf(seen: Seen, state: State): Ready {
  const { fault, open, record, stopping } = state
  const run = open?.metadata.name
  if (stopping === 'suspend' || stopping === 'wait') {
    const names = seen.pods.filter((p) => !isTerminalPod(p)).map((p) => p.metadata.name)
    const what = names.length > 0 ? `pods ${names.join(', ')}` : 'its pods'
    const why = fault ? `${fault.message}. ` : ''
    return {
      status: 'False',
      reason: 'Stopping',
      message: `${why}Run ${run} is being stopped: waiting for ${what} to end`,
    }
  }
  if (fault) return { status: 'False', ...fault }
  if (seen.refusal) return { status: 'False', ...seen.refusal }
  if (open && !record) return runningReady(seen, open)
  return idleReady(seen, record ?? seen.policy.status?.lastRun, state)
}

function runningReady(seen: Seen, open: Job): Ready {
  const { pods } = seen
  const { name } = open.metadata
  const waiting = hindrance(seen, open)
  if (waiting) return { status: 'False', reason: waiting.reason, message: `Run ${name} waits: ${waiting.message}` }
  const lost = pods.find((pod) => !isTerminalPod(pod) && unheardSince(pod) !== undefined)
  if (!lost) return { status: 'True', reason: 'Running', message: `Run ${name} is running` }
  // What it has leased is free after minutes, for the other pods. The Job replaces it when the node is back or is given up.
  const message = `Run ${name}: the node of the pod ${lost.metadata.name} has not reported since ${unheardSince(lost)}`
  return { status: 'False', reason: 'NodeUnreachable', message }
}

/** What a run waits for while none of its pods runs. */
function waitOf(open: Job, pods: readonly Pod[], now: Date): Waiting | undefined {
  const live = pods.filter((pod) => !isTerminalPod(pod))
  if (live.some(({ status }) => status?.phase !== undefined && status.phase !== 'Pending')) return undefined
  if (live.length > 0) return slowest(live.map((pod) => waitingOf(pod, now)))
  // The Job waits before it makes another pod for one that failed.
  const { failed = 0, succeeded = 0 } = open.status ?? {}
  return pods.length > 0 || failed + succeeded > 0 ? undefined : waitingWithoutPod(open, now)
}

/** One that may start soon speaks for all. */
function slowest(waits: readonly (Waiting | undefined)[]): Waiting | undefined {
  const known = waits.filter((w) => w !== undefined)
  if (known.length < waits.length) return undefined
  return known.find((w) => w.reason === QUEUED.reason) ?? known[0]
}

/** Why no pod of the run can start, once that is known. */
function hindrance({ pods, now }: Seen, open: Job): Waiting | undefined {
  if (isJobFinished(open)) return undefined
  const waiting = waitOf(open, pods, now)
  return waiting?.reason === QUEUED.reason ? undefined : waiting
}

function idleReady(seen: Seen, last: RunRecord | undefined, state: State): Ready {
  const { policy } = seen
  if (last && isBad(last) && last.generation === policy.metadata.generation) return badReady(policy, last)
  const next = nextOf(seen, state)
  return next
    ? { status: 'True', reason: 'Scheduled', message: `The next run starts at ${timeOf(next)}` }
    : { status: 'True', reason: 'Scheduled', message: 'The schedule has no further slot' }
}

function badReady({ metadata, spec }: RetentionPolicy, { name, ended, reason, due }: RunRecord): Ready {
  const said = reason ? `: ${reason}` : ''
  if (ended === 'ConfirmationRequired') {
    const command = `kubectl -n ${metadata.namespace} annotate --overwrite rp ${metadata.name} media.keepsake.dev/confirm-run=${name}`
    const what = `Run ${name} found ${due} due, and asks for a confirmation${said}.`
    return {
      status: 'False',
      reason: 'ConfirmationRequired',
      message: `${what} No run starts until "${command}" confirms it, or the policy of ${spec.target} is edited`,
    }
  }
  const why = ended === 'ClockSkew' || ended === 'StoreUnavailable' ? ended : 'RunFailed'
  return { status: 'False', reason: why, message: `Run ${name} ended as ${ended}${said}` }
}

function eventsOf(seen: Seen, state: State, status: RetentionPolicyStatus): PlannedEvent[] {
  const { request, confirmation } = state
  const refused = [request, confirmation].flatMap((asked) =>
    asked && 'answer' in asked && asked.answer.startsWith('Refused')
      ? [{ type: 'Warning' as const, reason: 'RunRefused', action: 'Run', note: `${asked.value}: ${asked.answer}` }]
      : [],
  )
  const ends = endedNow(state).map(endEvent)
  return [...(ends.length > 0 ? ends : troubleEvents(seen, status)), ...refused]
}

function endEvent(record: RunRecord): PlannedEvent {
  const { name, ended, moved, purged, bytes, failures, dryRun, reason } = record
  const figures = dryRun
    ? `would have moved ${moved} and purged ${purged}, ${bytes} bytes`
    : `${moved} moved, ${purged} purged, ${bytes} bytes, ${failures} failures`
  const what = dryRun ? `Dry run ${name}` : `Run ${name}`
  const note = `${what} ended as ${ended}: ${figures}${reason ? `. ${reason}` : ''}`
  return { type: isBad(record) || failures > 0 ? 'Warning' : 'Normal', reason: `Run${ended}`, action: 'Run', note }
}

/** One event per change of reason: repeating a plan repeats no event once its status has been written. */
function troubleEvents({ policy }: Seen, { conditions }: RetentionPolicyStatus): PlannedEvent[] {
  const ready = conditionOf(conditions, 'Ready')
  if (ready?.status !== 'False' || ready.reason === conditionOf(policy.status?.conditions, 'Ready')?.reason) return []
  const isWanted = STOPS.includes(ready.reason) || ready.reason === 'Stopping'
  return [{ type: isWanted ? 'Normal' : 'Warning', reason: ready.reason, action: 'Observe', note: ready.message }]
}

function requeue(seen: Seen, state: State, { nextRun }: RetentionPolicyStatus): Pick<Plan, 'requeueAfterMs'> {
  const { open, record, stopping, due } = state
  if (record) return { requeueAfterMs: AT_ONCE_MS } // what comes next is decided on the new status
  if (seen.refusal) return { requeueAfterMs: REJECTED_AGAIN_MS }
  if (stopping) return { requeueAfterMs: STOPPING_MS }
  if (open) return { requeueAfterMs: waitOf(open, seen.pods, seen.now)?.lookAgainMs ?? LOOK_AGAIN_MS }
  if (nextRun === undefined || !due.next) return {}
  return { requeueAfterMs: Math.min(LOOK_AGAIN_MS, Math.max(AT_ONCE_MS, due.next.getTime() - seen.now.getTime())) }
}
