import { anchor } from '../../api/audit/anchors.ts'
import { findArchive } from '../../api/audit/archive/queries.ts'
import { type WriteDayDeps, writeDay } from '../../api/audit/archive/write-day.ts'
import { acceptRestore, noticeRestore } from '../../api/audit/restores.ts'
import { sealOnce } from '../../api/audit/seal.ts'
import { dayAfter } from '../../api/audit/seal-plan.ts'
import { closeDays, lockCursor } from '../../api/audit/seal-queries.ts'
import { verify } from '../../api/audit/verify.ts'
import { newUuid, type Uuid } from '../../lib/contract/ids.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { TestDatabase } from './database.ts'
import { eventually } from './eventually.ts'
import { testPersonalData } from './personal-data.ts'

/** Writes a day into the object store as a process that has leased it does. Returns the key of its object. */
export async function archiveDay(deps: WriteDayDeps, day: string): Promise<string | undefined> {
  const isWritten = await writeDay(deps, { day, tier: 'warm', token: newUuid(), holds: async () => true })
  return isWritten ? (await deps.db.read({}, (tx) => findArchive(tx, day)))?.objectKey : undefined
}

/** The audit log of a database, sealed when the test says so. */
export function auditWorld({ worker, admin }: Pick<TestDatabase, 'worker' | 'admin'>, store: ObjectStore) {
  const deps = { db: worker, store, personalData: testPersonalData(worker) }
  const sql = async (text: string, values: unknown[] = []) => (await admin.query(text, values)).rows

  /**
   * As many passes as there is something to do, also while a transaction of a test keeps entries back. Closes yesterday in
   * the first minutes of a day, too, when the sealer does not close it yet.
   */
  async function sealNow(limit?: number): Promise<void> {
    while ((await sealOnce(deps, limit)) === 'more');
    await worker.inTransaction({}, async (tx) => {
      const { closedUntil, now } = await lockCursor(tx)
      const yesterday = dayAfter(now.slice(0, 10), -1)
      if (closedUntil < yesterday) await closeDays(tx, yesterday)
    })
  }

  /** Transactions of other test files, in their databases, keep entries back for a while. */
  async function untilSealable(): Promise<void> {
    const [{ now }] = await sql('select pg_current_xact_id()::text as now')
    await eventually('the transactions before to end', async () => {
      const [{ over }] = await sql('select pg_snapshot_xmin(pg_current_snapshot()) > $1::xid8 as over', [now])
      return over
    })
  }

  /** Seals all that was committed. */
  async function seal(limit?: number): Promise<void> {
    await untilSealable()
    await sealNow(limit)
  }

  /** Entries of an organization, some seconds apart, `days` ago. */
  async function entries(n: number, { org = null as Uuid | null, days = 0 } = {}): Promise<Uuid[]> {
    const ids = Array.from({ length: n }, () => newUuid())
    await sql(
      `insert into audit_log (id, org_id, actor_id, action, resource_type, result, occurred_at, details)
        select id, $2, $3, 'EVENT_CREATE', 'event', 'success', now() - make_interval(days => $4),
          jsonb_build_object('n', n) from unnest($1::uuid[]) with ordinality as given(id, n) order by n`,
      [ids, org, newUuid(), days],
    )
    return ids
  }

  /** Lets the log begin so many days ago, as if it had run since then. */
  async function beganDaysAgo(days: number): Promise<void> {
    for (let ago = days; ago > 0; ago--) {
      const [{ day, next, name }] = await sql(
        `select (today - $1::int)::text as day, (today - $1::int + 1)::text as next, to_char(today - $1::int, 'YYYYMMDD') as name
          from (select (now() at time zone 'UTC')::date as today) clock`,
        [ago],
      )
      await sql(
        `create table audit_log_${name} partition of audit_log for values from ('${day} 00:00Z') to ('${next} 00:00Z')`,
      )
      await sql(`create table audit_links_${name} partition of audit_links for values from ('${day}') to ('${next}')`)
    }
    await sql(`update audit_since set log = log - $1::int, links = links - $1::int`, [days])
    await sql(`update audit_cursor set closed_until = closed_until - $1::int`, [days])
  }

  return {
    ...deps,
    sql,
    seal,
    sealNow,
    untilSealable,
    entries,
    beganDaysAgo,
    anchor: () => anchor(deps),
    /** Also of days that were anchored in this hour. */
    anchorAgain: async () => {
      await sql('update audit_cursor set anchored_at = null')
      await anchor(deps)
    },
    notice: () => noticeRestore(deps),
    accept: (entryId: Uuid) => acceptRestore(deps, entryId),
    verify: (range = {}) => verify(deps, range),
    /** What is wrong, without the places that only the ids of a test know. */
    findings: async (range = {}) => (await verify(deps, range)).findings,
    unsealed: async () =>
      (
        await sql(`select count(*)::int as n from audit_log e
        where not exists (select from audit_links l where l.occurred_at = e.occurred_at and l.entry_id = e.id)`)
      )[0].n,
  }
}
export type AuditWorld = ReturnType<typeof auditWorld>
