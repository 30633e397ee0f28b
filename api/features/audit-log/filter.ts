import * as z from 'zod'
import { type Id, type IdKind, PREFIXES, parseId, type Uuid } from '../../../lib/contract/ids.ts'
import { AUDIT_ACTIONS, type AuditAction } from '../../audit/queries.ts'
import { bodyId, ipAddress, optional, text, timeBound } from '../../requests/schemas.ts'

const RESULTS = ['success', 'failure', 'denied'] as const
const ACTIONS = Object.keys(AUDIT_ACTIONS) as [AuditAction, ...AuditAction[]]
const KINDS = Object.keys(PREFIXES) as IdKind[]

/** The UUID of an id of any kind. */
export function uuidOf(given: string): Uuid | undefined {
  for (const kind of KINDS) {
    const uuid = parseId(kind, given)
    if (uuid) return uuid
  }
  return undefined
}

/** Only entries that match all of these. */
export const AuditFilter = z.object({
  actor_id: optional(bodyId('user')),
  org_id: optional(bodyId('organization')),
  action: optional(
    z
      .array(z.enum(ACTIONS).meta({ id: 'AuditAction' }))
      .min(1)
      .max(ACTIONS.length),
  ).meta({ description: 'Any of these' }),
  result: optional(z.enum(RESULTS).meta({ id: 'AuditResult' })),
  resource_type: optional(text(1, 50)).meta({ example: 'media' }),
  resource_id: optional(
    text(1, 100).transform((given, ctx): Uuid => {
      const uuid = uuidOf(given)
      if (uuid) return uuid
      ctx.addIssue({ code: 'custom', message: 'is not an id' })
      return z.NEVER
    }),
  ).meta({ description: 'An id of any kind, with its prefix or as a bare UUID' }),
  ip_address: optional(ipAddress).meta({
    description: 'Of the client. An IPv6 address finds all entries of its /64.',
    example: '203.0.113.7',
  }),
  from: optional(timeBound()).meta({ description: 'The earliest time' }),
  to: optional(timeBound()).meta({ description: 'Entries before this time' }),
  include_unsealed: optional(z.boolean()).meta({
    description: 'Also entries that are not yet sealed: those after `sealed_until`, for the most part',
  }),
})

export const isRange = ({ from, to }: { from?: Date | undefined; to?: Date | undefined }) =>
  from === undefined || to === undefined || from < to
export const RANGE_ISSUE = { message: 'must be after `from`', path: ['to'] }

/** A filter as the readers of the log take it; times as the database prints them. */
export interface EntryFilter {
  actorId?: Uuid | undefined
  orgId?: Uuid | undefined
  actions?: readonly string[] | undefined
  result?: string | undefined
  resourceType?: string | undefined
  resourceId?: Uuid | undefined
  ipAddress?: string | undefined
  from?: string | undefined
  to?: string | undefined
  includeUnsealed: boolean
}

const micros = (time: Date) => time.toISOString().replace('Z', '000Z')

export const entryFilterOf = (given: z.output<typeof AuditFilter>): EntryFilter => ({
  actorId: given.actor_id,
  orgId: given.org_id,
  actions: given.action,
  result: given.result,
  resourceType: given.resource_type,
  resourceId: given.resource_id,
  ipAddress: given.ip_address,
  from: given.from && micros(given.from),
  to: given.to && micros(given.to),
  includeUnsealed: given.include_unsealed ?? false,
})

/** Whether an entry of an archived day matches, but for its address, which is encrypted. */
export const matches = (
  f: EntryFilter,
  e: {
    actorId: Id<'user'> | null
    orgId: Uuid | null
    action: string
    result: string
    resourceType: string
    resourceId: string | null
    occurredAt: string
  },
): boolean =>
  (f.actorId === undefined || e.actorId === f.actorId) &&
  (f.orgId === undefined || e.orgId === f.orgId) &&
  (f.actions === undefined || f.actions.includes(e.action)) &&
  (f.result === undefined || e.result === f.result) &&
  (f.resourceType === undefined || e.resourceType === f.resourceType) &&
  (f.resourceId === undefined || e.resourceId === f.resourceId) &&
  (f.from === undefined || e.occurredAt >= f.from) &&
  (f.to === undefined || e.occurredAt < f.to)

/** What else than the person, the organization and the time: columns without an index. */
export const isNarrow = (f: EntryFilter): boolean =>
  [f.actions, f.result, f.resourceType, f.resourceId, f.ipAddress].some((one) => one !== undefined)
