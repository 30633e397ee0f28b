import * as z from 'zod'
import { bodyId, exampleId, optional, outputId, outputTime, text, timestamp } from '../../requests/schemas.ts'
import type { ErasureRow, ErasureStepRow } from './queries.ts'

export type StepDone = ErasureStepRow

export const NewErasureBody = z.object({
  user_id: optional(bodyId('user')).meta({
    description:
      'The caller unless given. Another user: for platform administrators (`ROLE_ADMIN`), who have to say whom they mean also for their own account',
  }),
  confirm: z.literal(true).meta({
    description: 'That the erasure is wanted: it cannot be undone. Only `true` is accepted',
    // As a constant, openapi-generator for Java makes a class of it that does not compile.
    override: ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) => {
      delete jsonSchema['const']
      delete jsonSchema['enum']
      jsonSchema['type'] = 'boolean'
    },
  }),
  reason: text(1, 500).nullish().meta({
    description: 'Of an administrator, for administrators; removed with the completion. Ignored for one’s own account',
  }),
})

const Status = z.enum(['processing', 'completed']).meta({ id: 'AnonymizationStatus' })

const head = {
  anonymization_id: outputId('anonymization'),
  user_id: outputId('user').meta({ description: 'From now on the id of an anonymous member' }),
  status: Status,
  requested_at: outputTime(),
}

/** What is stored under an Idempotency-Key: the token is made anew for each answer. */
export const StoredErasure = z.object({
  id: z.string(),
  user_id: z.string(),
  status: z.enum(['processing', 'completed']),
  requested_at: z.string(),
})
export const toStored = (row: ErasureRow): z.input<typeof StoredErasure> => ({
  id: row.id,
  user_id: row.userId,
  status: row.status,
  requested_at: timestamp(row.requestedAt),
})
export const StartedErasure = z
  .object({
    ...head,
    follow_token: z.string().meta({
      description:
        'Follows the erasure once the account is closed, in `X-Anonymization-Token`. Anyone who has it sees its state, and nothing of the person',
    }),
  })
  .meta({ id: 'AnonymizationStarted' })

const Counts = z
  .record(
    z.string(),
    z
      .int()
      .min(0)
      .max(2 ** 40),
  )
  .meta({ id: 'AnonymizationCounts', description: 'How many of what was erased' })

const Step = z
  .object({
    step: z.string(),
    status: z.enum(['pending', 'done']).meta({ id: 'AnonymizationStepStatus' }),
    attempts: z
      .int()
      .min(0)
      .max(2 ** 31 - 1),
    finished_at: outputTime().nullable(),
    counts: Counts,
    last_error: z.string().nullable().meta({ description: 'For platform administrators' }),
  })
  .meta({ id: 'AnonymizationStep' })

const Certificate = z
  .object({
    completed_at: outputTime(),
    erased: Counts.meta({ description: 'All steps together' }),
    provider_account: z.enum(['removed', 'not_touched']).meta({
      id: 'AnonymizationProviderAccount',
      description:
        '`not_touched`: this installation cannot remove the account at the identity provider, where it is to be removed separately',
    }),
    remains: z.array(z.string()).meta({ description: 'What stays, and how long' }),
  })
  .meta({ id: 'AnonymizationCertificate', description: 'Without personal data' })

export const Erasure = z
  .object({
    ...head,
    completed_at: outputTime().nullable(),
    held_since: outputTime().nullable().meta({
      description:
        'Since when a legal hold keeps it from going on: the account stays closed, and the rest is erased when the hold ends. Null while nothing does',
    }),
    asked_by: z.enum(['user', 'administrator', 'ledger']).meta({
      id: 'AnonymizationAskedBy',
      description: '`ledger`: the account was erased before, and came back with a backup of the database',
    }),
    reason: z.string().nullable().meta({ description: 'For platform administrators, until the completion' }),
    steps: z.array(Step),
    certificate: Certificate.nullable().meta({ description: 'Once it is completed' }),
  })
  .meta({ id: 'Anonymization' })

export const FollowToken = z.object({
  'X-Anonymization-Token': z.string().optional().meta({ description: '`follow_token` of the request' }),
})

const REMAINS = [
  'The id of the account, without a name: in the audit log for 7 years, and where others built on what the person did, such as empty deleted comments with replies',
  'Backups of the database, until they expire; a database that is restored from one erases the account again before it serves',
  'What others wrote about the person in their own words, and what others downloaded',
]

export function toErasure(
  row: ErasureRow,
  steps: readonly StepDone[],
  forAdministrator: boolean,
): z.input<typeof Erasure> {
  return {
    anonymization_id: row.id,
    user_id: row.userId,
    status: row.status,
    requested_at: timestamp(row.requestedAt),
    completed_at: timestamp(row.completedAt),
    held_since: timestamp(row.heldSince),
    asked_by: row.askedBy,
    reason: forAdministrator ? row.reason : null,
    steps: steps.map((one) => ({
      step: one.step,
      status: one.state,
      attempts: one.attempts,
      finished_at: timestamp(one.finishedAt),
      counts: one.counts,
      last_error: forAdministrator ? one.lastError : null,
    })),
    certificate: row.completedAt && {
      completed_at: timestamp(row.completedAt),
      erased: totalOf(steps),
      provider_account: steps.some(({ counts }) => (counts['provider_accounts'] ?? 0) > 0) ? 'removed' : 'not_touched',
      remains: REMAINS,
    },
  }
}

function totalOf(steps: readonly StepDone[]): Record<string, number> {
  const total: Record<string, number> = {}
  for (const { counts } of steps) {
    for (const [name, n] of Object.entries(counts)) total[name] = (total[name] ?? 0) + n
  }
  return total
}

const EXAMPLE = {
  anonymization_id: exampleId('anonymization'),
  user_id: exampleId('user'),
  requested_at: '2026-11-25T16:25:23.000Z',
}
export const startedExample = {
  ...EXAMPLE,
  status: 'processing' as const,
  follow_token: 'h6Yk3Qb0m1v7cX2sT9nR4wPzLdJfKaGeUiOyBxVqM8A',
}
export const erasureExample = {
  ...EXAMPLE,
  status: 'completed' as const,
  completed_at: '2026-11-25T16:25:41.000Z',
  held_since: null,
  asked_by: 'user' as const,
  reason: null,
  steps: [
    {
      step: 'media.files',
      status: 'done' as const,
      attempts: 1,
      finished_at: '2026-11-25T16:25:38.000Z',
      counts: { media_items: 214, objects: 9630 },
      last_error: null,
    },
  ],
  certificate: {
    completed_at: '2026-11-25T16:25:41.000Z',
    erased: { media_items: 214, objects: 9630 },
    provider_account: 'not_touched' as const,
    remains: REMAINS,
  },
}
