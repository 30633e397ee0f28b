import t from 'tap'
import { type Repair, type RepairSeen, type ResourceSeen, repairOf } from '../../../api/worker/sweep-plan.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import { failed, running, succeeded } from '../../support/conversion-world.ts'

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
]
for (const [name, world, expected] of table) {
  t.test(`${name}: ${expected}`, async (t) => t.equal(repairOf(world), expected))
}
