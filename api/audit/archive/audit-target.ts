import { setTimeout as sleep } from 'node:timers/promises'
import type { Uuid } from '../../../lib/contract/ids.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import { moveToCold } from '../../../lib/runtime/object-store/move-to-cold.ts'
import type { Tx } from '../../db/db.ts'
import { isLockTimeout } from '../../db/errors.ts'
import type { Done, HandleDeps, Outcome, RetentionTarget } from '../../retention/target.ts'
import { insertAudit } from '../queries.ts'
import { findArchive } from './queries.ts'
import {
  claimDays,
  countDays,
  countDueDays,
  DAY_LEASES,
  type DueDay,
  detachDay,
  dropDay,
  endDay,
  holdsDay,
  isTableCopied,
  listDueDays,
  markCold,
  markPurged,
  markTidy,
} from './tier-queries.ts'
import { writeDay } from './write-day.ts'

/** Tries to take a lock for which others must not wait. */
const LOCK_TRIES = 20
const LOCK_PAUSE_MS = 500

/**
 * The audit log, day by day: out of the database into an object, that object to the cold tier, and its end. No legal hold
 * is about it: it is kept for its time, and nothing removes a part of it. Every step may run twice and be killed at any
 * line; `left_key` remembers the object that a step has replaced.
 */
export const auditDays: RetentionTarget<DueDay> = {
  name: 'AuditLog',
  leases: DAY_LEASES,
  few: 31,
  total: countDays,
  countDue: async (tx, due) => ({ due: await countDueDays(tx, due), held: 0 }),
  claim: async (tx, due, o) => ({ items: await claimDays(tx, due, o), held: 0 }),
  about: ({ id, day }) => ({ rows: [id], id: day }),
  handle: (deps, item, { token }) => STEPS[item.step](deps, item, token),
  async list(tx, due, o) {
    const days = await listDueDays(tx, due, o)
    return {
      lines: days.map(({ day, step, bytes }) => ({
        id: day,
        action: step === 'archive' || step === 'chill' ? 'moveToTier' : 'purge',
        bytes,
        since: `${day}T00:00:00Z`,
        held: false,
      })),
      last: days.at(-1)?.day ?? '',
    }
  },
}

type Step = (deps: HandleDeps, item: DueDay, token: Uuid) => Promise<Outcome>

const STEPS: Record<DueDay['step'], Step> = {
  async archive(deps, item, token) {
    const { db, signal, pace } = deps
    const { day } = item
    await writeDay(deps, {
      ...{ day, tier: 'warm', token, signal },
      holds: (tx) => holdsDay(tx, item, token),
    })
    failpoint('audit-tier.switched')
    const row = await db.read({}, (tx) => findArchive(tx, day))
    if (!row) return 'lost'
    if (await db.read({}, (tx) => isTableCopied(tx, day))) {
      await withLock(deps, (tx) => detachDay(tx, day))
      failpoint('audit-tier.detached')
      await withLock(deps, (tx) => dropDay(tx, day))
      failpoint('audit-tier.dropped')
    }
    await pace(row.bytes)
    return finish(deps, item, { token, done: { moved: 1, bytes: row.bytes } })
  },

  async chill(deps, item, token) {
    const { db, store, signal, pace } = deps
    const { day } = item
    const row = await db.read({}, (tx) => findArchive(tx, day))
    if (row?.tier !== 'warm') return 'lost'
    const { key } = await moveToCold(store, row.objectKey, {
      sha256: row.sha256,
      size: row.bytes,
      signal,
      onPart: pace,
    })
    failpoint('audit-tier.copied')
    const isMarked = await db.inTransaction({}, async (tx) => {
      if (!(await holdsDay(tx, item, token))) return false
      await markCold(tx, day, key)
      return true
    })
    if (!isMarked) return 'lost'
    failpoint('audit-tier.chilled')
    return tidy(deps, item, { token, done: { moved: 1, bytes: row.bytes } })
  },

  async purge(deps, item, token) {
    const { db } = deps
    const { day } = item
    const row = await db.read({}, (tx) => findArchive(tx, day))
    const isMarked = await db.inTransaction({}, async (tx) => {
      if (!(await holdsDay(tx, item, token))) return false
      const purged = await markPurged(tx, day)
      if (!purged) return false
      // Announced before it is gone, in the log that goes on.
      await insertAudit(tx, {
        orgId: null,
        actorId: null,
        action: 'ADMIN_ACTION',
        resourceType: 'audit_log',
        resourceId: null,
        result: 'success',
        context: null,
        details: { operation: 'purge audit day', day, entries: purged.entries, manifest_sha256: purged.manifest },
      })
      return true
    })
    if (!isMarked) return 'lost'
    failpoint('audit-tier.purged')
    return tidy(deps, item, { token, done: { purged: 1, bytes: row?.bytes ?? 0 } })
  },

  tidy: (deps, item, token) => tidy(deps, item, { token, done: {} }),
}

async function tidy(deps: HandleDeps, item: DueDay, o: { token: Uuid; done: Done }): Promise<Outcome> {
  const row = await deps.db.read({}, (tx) => findArchive(tx, item.day))
  if (row && row.leftKey !== null) {
    await deps.store.deleteForGood(row.leftKey)
    failpoint('audit-tier.tidied')
  }
  return finish(deps, item, { ...o, isTidy: true })
}

function finish(
  { db, count }: HandleDeps,
  item: DueDay,
  { token, done, isTidy = false }: { token: Uuid; done: Done; isTidy?: boolean },
): Promise<Outcome> {
  return db.inTransaction({}, async (tx): Promise<Outcome> => {
    if (!(await holdsDay(tx, item, token))) return 'lost'
    if (isTidy) await markTidy(tx, item.day)
    await count(tx, done)
    await endDay(tx, item)
    return 'done'
  })
}

/** In a transaction of its own, which gives up its lock soon: the next try begins anew. */
async function withLock({ db, signal }: HandleDeps, work: (tx: Tx) => Promise<unknown>): Promise<void> {
  for (let tried = 1; ; tried++) {
    try {
      return void (await db.inTransaction({}, work))
    } catch (error) {
      if (!isLockTimeout(error) || tried === LOCK_TRIES) throw error
      await sleep(LOCK_PAUSE_MS * (0.5 + Math.random()), undefined, { signal })
    }
  }
}
