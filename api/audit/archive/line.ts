import type { Uuid } from '../../../lib/contract/ids.ts'

/** An entry as it is kept, in the database or in an object: its personal data encrypted. */
export interface StoredEntry {
  id: Uuid
  orgId: Uuid | null
  actorId: Uuid | null
  action: string
  resourceType: string
  resourceId: string | null
  result: 'success' | 'failure' | 'denied'
  requestId: string | null
  clientRequestId: string | null
  details: Readonly<Record<string, unknown>>
  /** With all six digits: `2026-11-21T09:30:00.123456Z`, which sorts as the time does. */
  occurredAt: string
  personal: Buffer | null
  keyVersion: number | null
  txid: string
  serial: string
  /** Its place in the chain of its organization; null before it is sealed. */
  chain: { day: string; seq: number } | null
}

/** A place in the log, latest first: the entries behind it have a lower key. */
export interface Place {
  at: string
  id: Uuid
}

export const placeOf = ({ occurredAt, id }: Pick<StoredEntry, 'occurredAt' | 'id'>): Place => ({ at: occurredAt, id })

export const isBehind = (a: Place, b: Place): boolean => a.at < b.at || (a.at === b.at && a.id < b.id)

/** For `sort`: the latest first. */
export const latestFirst = (a: StoredEntry, b: StoredEntry): number => (isBehind(placeOf(a), placeOf(b)) ? 1 : -1)

/** One line of JSON without the line feed. Short names: a day has millions of lines. */
export const lineOf = (entry: StoredEntry): string =>
  JSON.stringify({
    id: entry.id,
    at: entry.occurredAt,
    org: entry.orgId,
    actor: entry.actorId,
    action: entry.action,
    type: entry.resourceType,
    res: entry.resourceId,
    result: entry.result,
    req: entry.requestId,
    creq: entry.clientRequestId,
    details: entry.details,
    personal: entry.personal?.toString('base64') ?? null,
    key: entry.keyVersion,
    txid: entry.txid,
    serial: entry.serial,
    chain: entry.chain && [entry.chain.day, entry.chain.seq],
  })

export function entryOf(line: string): StoredEntry {
  const read = JSON.parse(line)
  return {
    id: read.id,
    occurredAt: read.at,
    orgId: read.org,
    actorId: read.actor,
    action: read.action,
    resourceType: read.type,
    resourceId: read.res,
    result: read.result,
    requestId: read.req,
    clientRequestId: read.creq,
    details: read.details,
    personal: read.personal === null ? null : Buffer.from(read.personal, 'base64'),
    keyVersion: read.key,
    txid: read.txid,
    serial: read.serial,
    chain: read.chain && { day: read.chain[0], seq: read.chain[1] },
  }
}
