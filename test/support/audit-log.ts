import type pg from 'pg'
import { newUuid, type Uuid } from '../../lib/contract/ids.ts'

export interface Given {
  actorId?: Uuid | null
  orgId?: Uuid | null
  /** An ISO time with up to six digits of the second. */
  at: string
  action?: string
  resourceType?: string
  resourceId?: Uuid | null
  result?: string
  details?: object
  personal?: Buffer | null
  keyVersion?: number | null
  id?: Uuid
}

/** Makes the partitions of the last so many days, which only time makes. */
export async function makePastDays(admin: pg.Pool, days: number): Promise<void> {
  await admin.query(`do $$
    declare d date; name text; today date := (now() at time zone 'UTC')::date;
    begin
      for d in select today - n from generate_series(1, ${days}) n loop
        name := to_char(d, 'YYYYMMDD');
        if to_regclass('audit_log_' || name) is null then
          execute format('create table audit_log_%s partition of audit_log for values from (%L) to (%L)', name,
            d::timestamp at time zone 'UTC', (d + 1)::timestamp at time zone 'UTC');
          execute format('create table audit_links_%s partition of audit_links for values from (%L) to (%L)', name, d, d + 1);
        end if;
      end loop;
      update audit_since set log = today - ${days}, links = today - ${days};
    end $$`)
}

/** Entries of any time, in this order. They are not sealed. */
export async function addEntries(admin: pg.Pool, given: readonly Given[]): Promise<Uuid[]> {
  const ids = given.map(({ id }) => id ?? newUuid())
  for (const [n, e] of given.entries()) {
    await admin.query(
      `insert into audit_log (id, org_id, actor_id, action, resource_type, resource_id, result, details, occurred_at,
        personal, key_version) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
      [
        ids[n],
        e.orgId ?? null,
        e.actorId ?? null,
        e.action ?? 'LOGIN',
        e.resourceType ?? 'session',
        e.resourceId ?? null,
        e.result ?? 'success',
        e.details ?? {},
        e.at,
        e.personal ?? null,
        e.keyVersion ?? null,
      ],
    )
  }
  return ids
}

/** Seals all that is there, as far as readers look at the seal: the hashes are not those of a chain. */
export async function sealAll(admin: pg.Pool): Promise<void> {
  await admin.query(`
    with fresh as (
      select e.*, (e.occurred_at at time zone 'UTC')::date as day, coalesce(e.org_id, '00000000-0000-0000-0000-000000000000') as org
      from audit_log e, audit_cursor c where (e.txid, e.serial) > (c.upto, c.serial)),
    placed as (
      select f.*, coalesce(h.count, 0) + row_number() over (partition by f.day, f.org order by f.txid, f.serial) as seq
      from fresh f left join audit_heads h on h.day = f.day and h.org_id = f.org),
    linked as (
      insert into audit_links (day, org_id, seq, occurred_at, entry_id, hash)
      select day, org, seq, occurred_at, id, '' from placed),
    days as (
      insert into audit_actor_days (actor_id, day) select distinct actor_id, day from placed where actor_id is not null
      on conflict do nothing),
    heads as (
      insert into audit_heads (day, org_id, count, hash) select day, org, max(seq), '' from placed group by day, org
      on conflict (day, org_id) do update set count = excluded.count)
    update audit_cursor set upto = last.txid, serial = last.serial
    from (select txid, serial from placed order by txid desc, serial desc limit 1) last`)
}

/** Days are counted from here, also once midnight has passed. */
const started = Date.now()

/** `2026-11-21T09:30:00Z` so many days ago. */
export const daysAgo = (days: number, time = '09:30:00.000000'): string =>
  `${new Date(started - days * 86_400_000).toISOString().slice(0, 10)}T${time}Z`
