import * as z from 'zod'
import {
  API_VERSION,
  type CelRule,
  Conditions,
  GROUP,
  immutable,
  type Kind,
  type Metadata,
  parseSpec,
  resourceOf,
} from './kind.ts'
import { celOfRules, faultOfRules, RetentionRule, RetentionTarget } from './retention-rules.ts'

/** Starts one run out of turn: an RFC 3339 time, once per value. */
export const RUN_REQUESTED = `${GROUP}/run-requested-at`
/** Confirms a run that asked for it: the name of that run, once per value. */
export const CONFIRM_RUN = `${GROUP}/confirm-run`

/** `HH:MM`, in UTC. */
const timeOfDay = () =>
  z
    .string()
    .max(5)
    .regex(/^([01][0-9]|2[0-3]):[0-5][0-9]$/)

const Window = z.object({
  from: timeOfDay().describe('First minute in which a run may start, as HH:MM in UTC'),
  to: timeOfDay().describe(
    'Minute from which runs take up nothing more, as HH:MM in UTC; before "from": on the next day',
  ),
})

const fieldsOf = (schedule: string) => schedule.split(' ')
const namesOneKindOfDay = (schedule: string) => fieldsOf(schedule)[2] === '*' || fieldsOf(schedule)[4] === '*'
const ONE_KIND_OF_DAY = 'the day of the month or the weekday must be *: programs differ about what both together mean'

const specRules: CelRule[] = [
  ...immutable(['target']),
  {
    rule: "self.schedule.split(' ')[2] == '*' || self.schedule.split(' ')[4] == '*'",
    message: ONE_KIND_OF_DAY,
    fieldPath: '.schedule',
  },
  {
    rule: '!has(self.window) || self.window.from != self.window.to',
    message: 'the window must have a length: omit it for all day',
    fieldPath: '.window',
  },
  ...celOfRules,
]

export const RetentionPolicySpec = z
  .object({
    target: RetentionTarget.describe(
      'What the policy is about. Of several policies for one target in a namespace, the oldest is in force',
    ),
    schedule: z
      .string()
      .max(100)
      .regex(/^[0-9*,/-]+( [0-9*,/-]+){4}$/)
      .describe('When runs start, in UTC: minute, hour, day of the month, month and weekday, as in cron'),
    rules: z
      .array(RetentionRule)
      .min(1)
      .max(8)
      .describe('What happens at which age, in the order of age')
      .meta({ 'x-kubernetes-list-type': 'atomic' }),
    batchSize: z.int().min(1).max(1000).default(100).describe('How many things a pod takes up at once'),
    parallelism: z.int().min(1).max(16).default(1).describe('Pods of a run at the same time'),
    bytesPerSecond: z
      .int()
      .min(1)
      .optional()
      .describe('Most bytes that a run copies per second, all its pods together; omitted: no limit'),
    window: Window.optional().describe('Hours of the day in which scheduled runs work; omitted: all day'),
    suspend: z
      .boolean()
      .default(false)
      .describe('true: no run starts, and one that runs is stopped. Slots that pass meanwhile are not made up for'),
    dryRun: z.boolean().default(false).describe('true: runs change nothing, and report what they would do'),
    maxDuePercent: z
      .int()
      .min(1)
      .max(100)
      .default(20)
      .describe('If a larger share of everything is due at once, the run does nothing and asks for a confirmation'),
  })
  .refine(({ schedule }) => namesOneKindOfDay(schedule), { path: ['schedule'], message: ONE_KIND_OF_DAY })
  .refine(({ window }) => window === undefined || window.from !== window.to, {
    path: ['window'],
    message: 'the window must have a length: omit it for all day',
  })
  .superRefine(({ target, rules }, context) => {
    const fault = faultOfRules(target, rules)
    if (fault) context.addIssue({ code: 'custom', path: ['rules'], message: fault })
  })
  .meta({
    description:
      'What is moved or purged when. Everything but target may be changed; a run that has started keeps its rules.',
    'x-kubernetes-validations': specRules,
  })
export type RetentionPolicySpec = z.infer<typeof RetentionPolicySpec>

const time = () => z.iso.datetime().max(64)
const count = () => z.int().min(0)

const RunErrorRecord = z.object({
  id: z.string().max(128).describe('Id of the thing, or key of the object'),
  code: z.string().max(64).describe('Machine-readable reason, e.g. Locked'),
  message: z.string().max(256).describe('Human-readable reason'),
})

/**
 * How a run ended. Beyond what the program says, `Failed`: its Job failed, or its pods could not start. `Lost`: nothing is known about
 * its end.
 */
export const RUN_ENDS = [
  'Finished',
  'WindowClosed',
  'Stopped',
  'ConfirmationRequired',
  'ClockSkew',
  'StoreUnavailable',
  'Failed',
  'Lost',
] as const

const RunRecord = z.object({
  name: z.string().max(63).describe('Name of the run and of its Job'),
  started: time().optional().describe('Time at which the run started'),
  finished: time().optional().describe('Time at which the run ended; absent while it runs'),
  moved: count().describe('Things that were moved to another tier'),
  purged: count().describe('Things that were purged'),
  bytes: count().describe('Bytes that were moved or purged'),
  failures: count().describe('Things that could not be moved or purged'),
  due: count().describe('Things that were due when the run began'),
  ended: z
    .enum(RUN_ENDS)
    .optional()
    .describe('How the run ended. Lost: nothing is known about its end, and the figures are the last that are known'),
  reason: z.string().max(512).optional().describe('Human-readable reason of the end'),
  dryRun: z.boolean().optional().describe('Whether the run only reported what it would do'),
  generation: z.int().min(0).optional().describe('Generation of the spec that the run followed'),
  report: z.string().max(512).optional().describe('Key of the report of a dry run in the object store'),
})
export type RunRecord = z.infer<typeof RunRecord>

const Answered = (what: string) =>
  z.object({
    value: z.string().max(256).describe(`Value of the annotation ${what} that was answered last`),
    answer: z.string().max(512).describe('What followed: the run that started, or why none did'),
  })
export type Answered = z.infer<ReturnType<typeof Answered>>

export const RetentionPolicyStatus = z.object({
  observedGeneration: z.int().min(0).optional().describe('Generation of the spec that the status is based on'),
  conditions: Conditions.optional().describe(
    'Condition Ready: whether the policy is carried out; reason and message say why not',
  ),
  schedule: z.string().max(100).optional().describe('Schedule that is followed; absent while none is'),
  scheduledSince: time().optional().describe('Time since which this schedule is followed'),
  lastScheduleTime: time().optional().describe('Slot of the last run that the schedule started'),
  lastRunRequest: Answered(RUN_REQUESTED).optional().describe('Last request of a run out of turn'),
  lastConfirmation: Answered(CONFIRM_RUN).optional().describe('Last confirmation of a run'),
  active: z.string().max(63).optional().describe('Name of the run that runs now'),
  nextRun: time().optional().describe('Time at which the next run starts'),
  lastRun: RunRecord.optional().describe('The last run that ended'),
  lastFinished: time().optional().describe('Time at which the last run that finished its work ended, without dry runs'),
  runs: z
    .array(RunRecord)
    .max(10)
    .optional()
    .describe('The last runs, newest first')
    .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] }),
  errors: z
    .array(RunErrorRecord)
    .max(10)
    .optional()
    .describe('Some of what could not be moved or purged in the last run')
    .meta({ 'x-kubernetes-list-type': 'atomic' }),
})
export type RetentionPolicyStatus = z.infer<typeof RetentionPolicyStatus>

export const retentionPolicyKind: Kind<typeof RetentionPolicySpec, typeof RetentionPolicyStatus, 'RetentionPolicy'> = {
  kind: 'RetentionPolicy',
  plural: 'retentionpolicies',
  shortNames: ['rp'],
  categories: ['keepsake'],
  description:
    'Moves what is old to a colder tier, and purges it for good later. Starts a Job at each slot of its schedule and reports what the last runs did in the status.',
  spec: RetentionPolicySpec,
  status: RetentionPolicyStatus.describe('State of the policy, written by the operator'),
  columns: [
    { name: 'Target', type: 'string', jsonPath: '.spec.target' },
    { name: 'Schedule', type: 'string', jsonPath: '.spec.schedule' },
    { name: 'Last', type: 'date', jsonPath: '.status.lastRun.finished' },
    { name: 'Ended', type: 'string', jsonPath: '.status.lastRun.ended' },
    // Figures of a dry run are no deeds.
    { name: 'Dry-Run', type: 'boolean', jsonPath: '.status.lastRun.dryRun' },
    { name: 'Moved', type: 'integer', jsonPath: '.status.lastRun.moved' },
    { name: 'Purged', type: 'integer', jsonPath: '.status.lastRun.purged' },
    { name: 'Failures', type: 'integer', jsonPath: '.status.lastRun.failures' },
    // A string: kubectl prints dates as an age, which a time in the future does not have.
    { name: 'Next', type: 'string', jsonPath: '.status.nextRun' },
    { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
    { name: 'Reason', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].reason' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    { name: 'Active', type: 'string', priority: 1, jsonPath: '.status.active' },
    { name: 'Message', type: 'string', priority: 1, jsonPath: '.status.conditions[?(@.type=="Ready")].message' },
  ],
}

export const RETENTION_POLICIES = resourceOf(retentionPolicyKind)

export interface RetentionPolicy {
  apiVersion: string
  kind: 'RetentionPolicy'
  metadata: Metadata
  spec: RetentionPolicySpec
  status?: RetentionPolicyStatus
}

/** See `parseSpec`. Returns the status unvalidated: only the operator writes it. */
export function parseRetentionPolicy(object: unknown): { resource: RetentionPolicy } | { problem: string } {
  const { status } = object as { status?: RetentionPolicyStatus }
  const parsed = parseSpec(retentionPolicyKind, object)
  if ('problem' in parsed) return parsed
  return { resource: { apiVersion: API_VERSION, kind: 'RetentionPolicy', ...parsed, ...(status && { status }) } }
}

/** Sorts the policies of one target in a namespace so that the one in force is the first. */
export const byAge = (
  a: { metadata: Pick<Metadata, 'name' | 'creationTimestamp'> },
  b: { metadata: Pick<Metadata, 'name' | 'creationTimestamp'> },
): number =>
  (a.metadata.creationTimestamp ?? '').localeCompare(b.metadata.creationTimestamp ?? '') ||
  (a.metadata.name < b.metadata.name ? -1 : 1)
