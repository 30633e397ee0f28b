import t from 'tap'
import { type Repair, type RepairSeen, type ResourceSeen, repairOf } from '../../../../api/worker/runs/repair-plan.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { failed, running, succeeded } from '../../../support/conversion-world.ts'

const now = new Date('2026-05-01T12:00:00Z')
const spec = { attemptDeadlineSeconds: 600, maxAttempts: 3, suspend: false }
const resource = (change: Partial<ResourceSeen> = {}): ResourceSeen => ({
  creationTimestamp: '2026-05-01T08:00:00Z',
  spec,
  status: undefined,
  isForeign: false,
  ...change,
})
const seen = (change: Partial<RepairSeen>): RepairSeen => ({
  resource: undefined,
  isCommitted: false,
  marginSeconds: 3600,
  now,
  ...change,
})
const at = (time: string) => {
  const status = running(10)
  return { ...status, startTime: '2026-05-01T08:00:00Z', progress: { ...status.progress, updatedAt: time } }
}

const table: [string, RepairSeen, Repair][] = [
  ['nothing works on it', seen({}), 'create'],
  ['its resource was cleaned up after it had finished', seen({ isCommitted: true }), 'project'],
  ['the cluster is done', seen({ resource: resource({ status: succeeded(newUuid()) }) }), 'project'],
  ['the cluster has given up', seen({ resource: resource({ status: failed('CorruptInput') }) }), 'project'],
  // 3 × 600 s and an hour: 1.5 h.
  ['it is new and waits', seen({ resource: resource({ creationTimestamp: '2026-05-01T10:31:00Z' }) }), 'wait'],
  ['it has waited too long', seen({ resource: resource({ creationTimestamp: '2026-05-01T10:29:00Z' }) }), 'give-up'],
  ['it is old and shows signs of life', seen({ resource: resource({ status: at('2026-05-01T10:31:00Z') }) }), 'wait'],
  ['it is silent for too long', seen({ resource: resource({ status: at('2026-05-01T10:29:00Z') }) }), 'give-up'],
  ['another has its name', seen({ resource: resource({ isForeign: true, status: failed('Internal') }) }), 'replace'],
  ['somebody has suspended it', seen({ resource: resource({ spec: { ...spec, suspend: true } }) }), 'wait'],
  ['it was resumed 1.5 h ago', seen({ resource: resource(), secondsSinceSuspended: 5400 }), 'wait'],
  ['it was resumed longer ago', seen({ resource: resource(), secondsSinceSuspended: 5401 }), 'give-up'],
]
for (const [name, world, expected] of table) {
  t.test(`${name}: ${expected}`, async (t) => t.equal(repairOf(world), expected))
}

/** One at work at 11:00, when the one that waits has half an hour left. */
const other = (created: string, change: object = {}): Pick<ResourceSeen, 'creationTimestamp' | 'status'> => ({
  creationTimestamp: created,
  status: { phase: 'Running', startTime: '2026-05-01T11:00:00Z', ...change },
})
const queues: [string, ReturnType<typeof other>[], Repair][] = [
  ['one before it is being converted', [other('2026-05-01T07:00:00Z')], 'wait'],
  ['one of the same moment was converted', [other('2026-05-01T08:00:00Z', { phase: 'Succeeded' })], 'wait'],
  [
    'one before it has ended',
    [other('2026-05-01T07:00:00Z', { startTime: '', completionTime: '2026-05-01T11:30:00Z' })],
    'wait',
  ],
  ['only those behind it get a place', [other('2026-05-01T08:00:01Z')], 'give-up'],
  [
    'those before it have been silent as long',
    [other('2026-05-01T07:00:00Z', { startTime: '2026-05-01T10:29:00Z' })],
    'give-up',
  ],
  ['those before it wait as well', [other('2026-05-01T07:00:00Z', { phase: 'Pending', startTime: '' })], 'give-up'],
]
for (const [name, others, expected] of queues) {
  t.test(`it waits for a place, and ${name}: ${expected}`, async (t) => {
    const waiting = resource({ status: { phase: 'Pending' } })
    t.equal(repairOf({ ...seen({ resource: waiting }), others: () => others }), expected)
    const silent = resource({ status: { phase: 'Running' } })
    t.equal(repairOf({ ...seen({ resource: silent }), others: () => others }), 'give-up', 'not if it has its place')
  })
}
