import * as z from 'zod'
import { optional, outputArray, outputId, outputTime, withDefault } from '../../requests/schemas.ts'
import { AuditFilter, isRange, RANGE_ISSUE } from './filter.ts'

export const LIMIT = { default: 50, max: 200 } as const
/** More entries, and bytes of them, than there can be. */
const MOST = 2 ** 50

export const QueryAudit = AuditFilter.extend({
  limit: withDefault(z.int().min(1).max(LIMIT.max), LIMIT.default).meta({ description: 'Maximum number of entries' }),
  cursor: optional(z.string().max(2048)).meta({
    description: '`next_cursor` of the previous page; valid for 24 hours and for the same filter only',
  }),
}).refine(isRange, RANGE_ISSUE)
export type QueryAudit = z.output<typeof QueryAudit>

export const AuditEntryShown = z
  .object({
    audit_id: outputId('audit'),
    actor_id: outputId('user').nullable().meta({ description: 'Null without a signed-in user' }),
    action: z.string(),
    resource_type: z.string(),
    resource_id: z.string().nullable(),
    result: z.string(),
    ip_address: z.string().nullable(),
    user_agent: z.string().nullable(),
    occurred_at: z.string().meta({ description: 'With microseconds', example: '2026-11-21T09:30:00.123456Z' }),
    org_id: outputId('organization').nullable(),
    request_id: z.string().nullable(),
    client_request_id: z.string().nullable(),
    details: z.record(z.string(), z.unknown()),
    personal: z
      .record(z.string(), z.string())
      .nullable()
      .meta({ description: 'Names and the like about the actor, such as `device_name`' }),
    personal_data: z.enum(['shown', 'none', 'erased', 'damaged']).meta({
      id: 'AuditPersonalData',
      description:
        'Whether address, user agent and `personal` are shown. erased: the person was erased. damaged: they are not what was written.',
    }),
    sealed: z.boolean().meta({ description: 'Whether the entry has its place in the chain of hashes' }),
  })
  .meta({ id: 'AuditEntry' })
export type AuditEntryShown = z.input<typeof AuditEntryShown>

export const AuditPage = z
  .object({
    logs: outputArray(AuditEntryShown, LIMIT.max).meta({ description: 'The latest first' }),
    next_cursor: z.string().nullable().meta({ description: 'Null on the last page' }),
    has_more: z.boolean().meta({
      description: 'A page may have fewer entries than `limit`, or none, and yet not be the last',
    }),
    total: z.int().min(0).max(MOST).nullable().meta({
      description:
        'Of the first page: exact without a filter; for a person or an organization those in the database, of which at most 10,000 are counted. Otherwise, and on later pages, null.',
    }),
    total_is_estimate: z
      .boolean()
      .meta({ description: 'There are more than `total`: it was cut, or leaves archived days out' }),
    tiers_searched: outputArray(z.enum(['hot', 'warm', 'cold']).meta({ id: 'AuditTier' }), 3),
    sealed_until: outputTime().meta({ description: 'All entries before this time are sealed' }),
  })
  .meta({ id: 'AuditPage' })
export type AuditPage = z.input<typeof AuditPage>

export const FORMATS = ['csv', 'jsonl'] as const

export const RequestAuditExport = AuditFilter.extend({
  // Interface decisions name it json: the same lines.
  format: z
    .enum(['csv', 'jsonl', 'json'])
    .transform((format) => (format === 'json' ? 'jsonl' : format))
    .meta({
      id: 'RequestedAuditExportFormat',
      description: 'jsonl, also named json: JSON Lines, exactly the entries. csv: for spreadsheets.',
    }),
}).refine(isRange, RANGE_ISSUE)
export type RequestAuditExport = z.output<typeof RequestAuditExport>

export const AuditExport = z
  .object({
    export_id: outputId('export'),
    status: z.enum(['processing', 'completed', 'failed', 'expired']).meta({ id: 'AuditExportStatus' }),
    format: z.enum(FORMATS).meta({ id: 'AuditExportFormat' }),
    created_at: outputTime(),
    completed_at: outputTime().nullable(),
    progress: z
      .object({
        entries: z.int().min(0).max(MOST),
        bytes: z.int().min(0).max(MOST),
        reached: z
          .string()
          .nullable()
          .meta({ description: 'Entries after this time are in the file: it is made from the latest to the earliest' }),
      })
      .meta({ id: 'AuditExportProgress' }),
    download_url: z.string().nullable().meta({ description: 'Null unless `completed`; a new link each time' }),
    expires_in: z
      .int()
      .min(0)
      .max(86_400)
      .nullable()
      .meta({ description: 'How many seconds the link works: at most a day' }),
    expires_at: outputTime().nullable().meta({ description: 'Until then the file can be downloaded' }),
  })
  .meta({ id: 'AuditExport' })
export type AuditExport = z.input<typeof AuditExport>
