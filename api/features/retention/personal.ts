import type { PersonalPart } from '../../personal/part.ts'

const NAME = { harmless: 'a name of the cluster' }

export const retentionPart: PersonalPart = {
  personal: {
    retention_policies: {
      holds: 'the policies of retention that are in force',
      kept: 'as long as the policy',
      columns: { name: NAME, uid: NAME, rules: { harmless: 'periods' } },
    },
    retention_runs: {
      holds: 'runs of policies',
      kept: '90 days; the last one of each target always',
      columns: {
        run: NAME,
        policy: NAME,
        policy_uid: NAME,
        reason: { harmless: 'why it did not begin, without values' },
        errors: { harmless: 'ids, and what failed, without values' },
        report: { harmless: 'a key of ids' },
        lease_token: { harmless: 'random' },
      },
    },
    retention_counts: {
      holds: 'what runs have done, in numbers',
      kept: 'as long as the run',
      columns: { process: { harmless: 'random' } },
    },
    retention_mirror: {
      holds: 'how the worker sees the policies of the cluster',
      kept: 'always, one row',
      columns: {},
    },
    retention_sweeps: {
      holds: 'when the worker last purged what no policy governs, and what keeps it from that',
      kept: 'always, a row for each target',
      columns: { reason: { harmless: 'why it does not begin, in numbers' } },
    },
    legal_holds: {
      holds: 'what must not be purged, by order of administrators',
      kept: 'always, as proof',
      columns: {
        subject: { harmless: 'the id of a user, an event or an organization' },
        reason: { harmless: 'the reference of a case, which administrators write' },
        placed_by: { harmless: 'the office that asked for it, which administrators write' },
      },
    },
  },
  erase: [],
}
