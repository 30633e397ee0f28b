import { formatId, type Id, type IdKind, PREFIXES, type PublicId, type Uuid } from '../../../lib/contract/ids.ts'
import type { AuditDetails } from '../../audit/queries.ts'
import type { AuditEntryShown } from './entry.ts'
import type { EntryFilter } from './filter.ts'
import type { ShownEntry } from './read.ts'

const isKind = (type: string): type is IdKind => Object.hasOwn(PREFIXES, type)
/** A membership is named by its user. */
const kindOf = (type: string) => (type === 'membership' ? 'user' : type)

/** With its prefix where the type says which, and otherwise as it is. */
function resourceIdOf(type: string, id: string | null): string | null {
  const kind = kindOf(type)
  return id !== null && isKind(kind) ? formatId(kind, id as Uuid) : id
}

export function presentEntry({ entry, sealed, opened }: ShownEntry): AuditEntryShown {
  const personal = opened.state === 'open' ? opened.personal : {}
  return {
    audit_id: entry.id as Id<'audit'>,
    actor_id: entry.actorId,
    action: entry.action,
    resource_type: entry.resourceType,
    resource_id: resourceIdOf(entry.resourceType, entry.resourceId),
    result: entry.result,
    ip_address: personal.ipAddress ?? null,
    user_agent: personal.userAgent ?? null,
    occurred_at: entry.occurredAt,
    org_id: entry.orgId,
    request_id: entry.requestId,
    client_request_id: personal.details?.['client_request_id'] ?? entry.clientRequestId,
    details: { ...entry.details },
    personal: personal.details ? { ...personal.details } : null,
    personal_data: opened.state === 'open' ? 'shown' : opened.state,
    sealed,
  }
}

/** The same with public ids, for files. */
export function lineOfEntry(shown: ShownEntry): Record<string, unknown> {
  const entry = presentEntry(shown)
  const named = <K extends IdKind>(kind: K, id: Id<K> | null): PublicId<K> | null => id && formatId(kind, id)
  return {
    ...entry,
    audit_id: named('audit', shown.entry.id),
    actor_id: named('user', shown.entry.actorId),
    org_id: named('organization', shown.entry.orgId),
  }
}

/** What the audit log keeps of a filter: ids and operations. An address is of a person, who may be erased. */
export const auditedFilter = (f: EntryFilter): AuditDetails => ({
  ...(f.actorId && { filter_actor_id: formatId('user', f.actorId) }),
  ...(f.orgId && { filter_org_id: formatId('organization', f.orgId) }),
  ...(f.actions && { filter_actions: f.actions.join(' ') }),
  ...(f.result && { filter_result: f.result }),
  ...(f.resourceType && { filter_resource_type: isWord(f.resourceType) ? f.resourceType : 'other' }),
  ...(f.resourceId && { filter_resource_id: String(f.resourceId) }),
  ...(f.ipAddress && { filter_ip_address: true }),
  ...(f.from && { filter_from: f.from }),
  ...(f.to && { filter_to: f.to }),
  ...(f.includeUnsealed && { include_unsealed: true }),
})

/** Free text of the request must not get into the log. */
const isWord = (text: string) => /^[a-z_]{1,30}$/i.test(text)
