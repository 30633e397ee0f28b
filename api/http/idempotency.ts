import { createHash } from 'node:crypto'
import { newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { invalid, Problem } from '../../lib/contract/problem.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { Database, Tx } from '../db/db.ts'
import {
  claimKey,
  deleteKey,
  extendKey,
  findKey,
  finishKey,
  type KeyRow,
  type KeyScope,
} from './idempotency-queries.ts'

const EXTEND_EVERY_MS = 20_000
const VISIBLE_ASCII = /^[\x21-\x7e]{1,255}$/

/** The stored response of a success. Refusals are not stored: a repeat runs again. */
export interface Stored {
  bodyHash: string | null
  status: number
  data: unknown
}

/** One run of an operation under a key. */
export interface Attempt {
  /** Stores the response in the transaction of its effect. Throws if another attempt took over, so nothing commits. */
  remember(tx: Tx, status: number, data: unknown): Promise<void>
  /** Called when the handler has returned; stores the response unless `remember` has stored it. */
  succeeded(status: number, data: unknown): Promise<void>
  /** Called when the handler has thrown; deletes the attempt. */
  failed(): Promise<void>
}

/** The header's value; undefined without one. */
export function idempotencyKeyOf(header: string | undefined): string | undefined {
  if (header === undefined || VISIBLE_ASCII.test(header)) return header
  throw invalid([{ field: 'header.Idempotency-Key', issue: 'must be 1 to 255 visible ASCII characters' }])
}

/**
 * Begins an attempt, or finds the stored response of an earlier one. `digest` is also called when the attempt ends: the
 * hash of a streamed body is known only then. Throws Problem IDEMPOTENCY_IN_PROGRESS or IDEMPOTENCY_KEY_REUSED.
 */
export async function beginAttempt(
  db: Database,
  log: Log,
  scope: KeyScope,
  digest: () => string | undefined,
): Promise<Attempt | Stored> {
  const holder = newUuid()
  const bodyHash = digest() ?? null
  const row = await db.inTransaction({}, async (tx) =>
    (await claimKey(tx, scope, holder, bodyHash)) ? undefined : ((await findKey(tx, scope)) ?? 'gone'),
  )
  if (row === 'gone') throw inProgress(1)
  if (!row) {
    failpoint('idempotency.claimed')
    return attempt(db, log, scope, holder, digest)
  }
  requireSameBody(row.bodyHash, bodyHash)
  if (row.state === 'running') throw inProgress(row.lockedSeconds)
  return storedOf(row)
}

const storedOf = (row: KeyRow): Stored => ({
  bodyHash: row.bodyHash,
  status: row.status ?? 500,
  data: (row.response as { data?: unknown } | null)?.data,
})

/** Throws when both are known and differ. */
export function requireSameBody(before: string | null | undefined, now: string | null | undefined): void {
  if (!before || !now || before === now) return
  throw new Problem('IDEMPOTENCY_KEY_REUSED', 'This Idempotency-Key was used for another request')
}

const inProgress = (lockedSeconds: number) =>
  new Problem('IDEMPOTENCY_IN_PROGRESS', 'A request with this Idempotency-Key is still running', {
    // Most attempts end long before their lock expires.
    retryAfter: Math.min(Math.max(lockedSeconds, 1), 5),
  })

function attempt(db: Database, log: Log, scope: KeyScope, holder: Uuid, digest: () => string | undefined): Attempt {
  const extend = () =>
    db
      .inTransaction({}, (tx) => extendKey(tx, scope, holder))
      .catch((error) => log.warn({ err: error }, 'could not extend an idempotency key'))
  const timer = setInterval(() => void extend(), EXTEND_EVERY_MS).unref()

  async function finish(tx: Tx, status: number, data: unknown): Promise<void> {
    if (await finishKey(tx, scope, holder, { bodyHash: digest() ?? null, status, response: { data } })) return
    throw inProgress(1)
  }
  async function end(work: (tx: Tx) => Promise<void>): Promise<void> {
    clearInterval(timer)
    try {
      await db.inTransaction({}, work)
    } catch (error) {
      // The effect is committed and the caller gets the response; a repeat would run again after the lock expires.
      log.warn({ err: error }, 'could not store the response of an idempotent request')
    }
  }

  let remembered = false
  return {
    async remember(tx, status, data) {
      await finish(tx, status, data)
      remembered = true
    },
    async succeeded(status, data) {
      failpoint('idempotency.handled')
      if (remembered) clearInterval(timer)
      else await end((tx) => finish(tx, status, data))
    },
    failed: () => end((tx) => deleteKey(tx, scope, holder)),
  }
}

/** Hash of the parameters and of the JSON body; independent of the order of its keys. */
export function hashOf(params: unknown, query: unknown, body: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify([canonical(params), canonical(query), canonical(body)]))
    .digest('hex')
}

const DEEPEST = 64

function canonical(value: unknown, depth = 0): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (depth > DEEPEST) throw invalid([{ field: 'body', issue: 'is nested too deeply' }])
  if (Array.isArray(value)) return value.map((item) => canonical(item, depth + 1))
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return entries.map(([name, item]) => [name, canonical(item, depth + 1)])
}
