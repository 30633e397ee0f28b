-- The audit log in daily partitions (UTC), the keys of the personal data in it, and its seal
-- (docs/adr/0053-audit-log.md). Holds its lock on audit_log for milliseconds: everything slow is in 0050 and 0051.

set local lock_timeout = '2s';

-- ---------------------------------------------------------------- the switch

lock table audit_log in access exclusive mode;
alter table audit_log rename to audit_log_before;
alter table audit_log_before drop constraint audit_log_pkey;
drop index audit_log_by_time;
drop policy append on audit_log_before;
drop policy worker on audit_log_before;
revoke all on audit_log_before from keepsake_api, keepsake_worker;
alter table audit_log_before alter column txid drop default, alter column serial drop default;

-- ip_address and user_agent are written by the version before only. The sealer encrypts them before it seals an entry.
create table audit_log (
  id uuid not null,
  org_id uuid,
  actor_id uuid,
  action text not null,
  resource_type text not null,
  resource_id text,
  result text not null,
  ip_address text,
  user_agent text,
  request_id text,
  client_request_id text,
  details jsonb not null default '{}',
  occurred_at timestamptz not null default now(),
  -- Personal data, encrypted with the key (actor_id or nobody, key_version) of audit_keys.
  personal bytea,
  key_version integer,
  -- Finds the entries of an address within a month; not sealed, and not kept in other tiers.
  address_index bytea,
  -- The order of sealing. The programs have no right to name these two.
  txid xid8 not null default pg_current_xact_id(),
  serial bigint not null generated always as identity,
  constraint audit_log_result_check check (result in ('success', 'failure', 'denied')),
  primary key (occurred_at, id)
) partition by range (occurred_at);
create index audit_log_by_actor on audit_log (actor_id, occurred_at desc, id desc);
create index audit_log_by_org on audit_log (org_id, occurred_at desc, id desc);
create index audit_log_by_txid on audit_log (txid, serial);

-- ---------------------------------------------------------------- the seal

-- One link per sealed entry: `hash` = SHA-256 of the hash before it and the entry's canonical bytes. The chain of an
-- organization and a day (org_id: nil for entries without one) is numbered from 1 in the order of sealing.
create table audit_links (
  day date not null,
  org_id uuid not null,
  seq bigint not null check (seq > 0),
  occurred_at timestamptz not null,
  entry_id uuid not null,
  hash bytea not null,
  primary key (day, org_id, seq),
  -- One chain cannot hold an entry twice.
  unique (day, occurred_at, entry_id)
) partition by range (day);

-- The end of each chain.
create table audit_heads (
  day date not null,
  org_id uuid not null,
  count bigint not null,
  hash bytea not null,
  primary key (day, org_id)
);

-- Where the sealer is. Who seals locks the row.
create table audit_cursor (
  one boolean primary key default true check (one),
  -- The last sealed entry, in the order of (txid, serial).
  upto xid8 not null,
  serial bigint not null default 0,
  -- Entries up to this serial were written in another cluster, whose transaction ids mean nothing here; all are sealed.
  floor bigint not null default 0,
  system_identifier text not null,
  -- How far entries of before this migration are sealed, in the order of (occurred_at, id); null when all are.
  before_at timestamptz,
  before_id uuid,
  -- Chains of this day and earlier ones get no more links.
  closed_until date not null,
  -- All links that were ever made: a database with fewer than an anchor says is older than the anchor.
  sealed bigint not null default 0,
  -- Counts restores to an earlier time; each gets anchors of its own.
  timeline integer not null default 0,
  anchored_at timestamptz
);

-- Closed days, and whether the object store holds their anchor.
create table audit_days (
  day date primary key,
  closed_at timestamptz not null default now(),
  anchored_at timestamptz,
  anchor_sha256 text
);

-- Restores to an earlier time that the sealer noticed. What was restored belongs to `from_timeline` and ends with `sealed`
-- links; the object store has anchors that know more. `verify` believes a restore that an administrator accepted.
create table audit_restores (
  timeline integer primary key,
  from_timeline integer not null,
  noticed_at timestamptz not null default now(),
  sealed bigint not null,
  anchored_sealed bigint not null,
  anchored_at timestamptz not null,
  entry_id uuid not null
);

-- On which days a person did something, for readers of one person's actions.
create table audit_actor_days (
  actor_id uuid not null,
  day date not null,
  primary key (actor_id, day)
);

-- ---------------------------------------------------------------- keys of personal data

-- One key per person and version, wrapped by a master key from outside of the database. Shredding removes the keys of a
-- person and leaves version 0 without a key, so that none is made again. Two ids are of no person: the nil UUID stands
-- for actions without a signed-in user, the UUID of ones for the indexes of addresses.
create table audit_keys (
  person_id uuid not null,
  version integer not null,
  master_id text,
  wrapped bytea,
  created_at timestamptz not null default now(),
  primary key (person_id, version),
  check ((version = 0) = (wrapped is null)),
  check ((master_id is null) = (wrapped is null))
);
create index audit_keys_by_master on audit_keys (master_id);

-- ---------------------------------------------------------------- partitions

-- From which days on there are daily partitions; what is older lies in audit_log_before.
create table audit_since (
  one boolean primary key default true check (one),
  log date not null,
  links date not null
);

-- Makes the partitions of today and of the `ahead` days after it, and returns how many of those days have theirs. A day
-- is made aside and attached, which holds up no insert; `create table … partition of` would.
create function audit_make_days(ahead integer) returns integer
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  today date := (now() at time zone 'UTC')::date;
  since record;
  d date;
  name text;
begin
  if ahead is null or ahead not between 0 and 60 then raise exception 'ahead must be 0 to 60 days'; end if;
  perform pg_advisory_xact_lock(7305811241);
  select * into strict since from public.audit_since;
  for d in select today + n from generate_series(0, ahead) n loop
    name := 'audit_log_' || to_char(d, 'YYYYMMDD');
    if d >= since.log and to_regclass('public.' || name) is null then
      execute format('create table public.%I (like public.audit_log including defaults including constraints)', name);
      execute format('alter table public.%I enable row level security, force row level security', name);
      execute format('alter table public.audit_log attach partition public.%I for values from (%L) to (%L)', name,
        d::timestamp at time zone 'UTC', (d + 1)::timestamp at time zone 'UTC');
    end if;
    name := 'audit_links_' || to_char(d, 'YYYYMMDD');
    if d >= since.links and to_regclass('public.' || name) is null then
      execute format('create table public.%I (like public.audit_links including defaults including constraints)', name);
      execute format('alter table public.%I enable row level security, force row level security', name);
      execute format('alter table public.audit_links attach partition public.%I for values from (%L) to (%L)', name, d, d + 1);
    end if;
  end loop;
  return public.audit_days_ahead();
end $$;

-- How many days after today can take entries and links, without a gap. -1: today cannot.
create function audit_days_ahead() returns integer
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $$
  select coalesce(min(n) filter (where not (has_log and has_links)), 61)::integer - 1
  from public.audit_since since,
    generate_series(0, 60) n,
    lateral (select (now() at time zone 'UTC')::date + n as d) day,
    lateral (select
      d < since.log or exists (select from pg_inherits where inhparent = 'public.audit_log'::regclass
        and inhrelid = to_regclass('public.audit_log_' || to_char(d, 'YYYYMMDD'))) as has_log,
      d < since.links or exists (select from pg_inherits where inhparent = 'public.audit_links'::regclass
        and inhrelid = to_regclass('public.audit_links_' || to_char(d, 'YYYYMMDD'))) as has_links) known
$$;

-- The table of a day's entries: one for all days before audit_since.log. Null for a day that the log has to keep, whatever
-- the settings of who asks: 90 days.
create function audit_old_table(of_day date) returns text
language sql stable set search_path = pg_catalog, public, pg_temp as $$
  select case
    when of_day < since.log then case when since.log <= today - 90 then 'audit_log_before' end
    when of_day <= today - 90 then 'audit_log_' || to_char(of_day, 'YYYYMMDD')
  end
  from public.audit_since since, lateral (select (now() at time zone 'UTC')::date as today) clock
$$;

-- Takes the table of a day out of the log; readers find its entries elsewhere from then on. False if it is out already.
-- Gives up after a moment rather than let inserts wait behind it.
create function audit_detach_day(of_day date) returns boolean
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set lock_timeout = '200ms' as $$
declare name text := public.audit_old_table(of_day);
begin
  if name is null then raise exception 'the audit log keeps its entries for 90 days'; end if;
  if not exists (select from pg_inherits where inhparent = 'public.audit_log'::regclass
    and inhrelid = to_regclass('public.' || name)) then return false; end if;
  execute format('alter table public.audit_log detach partition public.%I', name);
  return true;
end $$;

-- Drops the detached table of a day, with its links: the only way in which the programs remove entries. False if it is
-- gone already. Refuses a day that has no row in audit_archives (0075): nothing else says that its entries were copied.
create function audit_drop_day(of_day date) returns boolean
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set lock_timeout = '200ms' as $$
declare
  name text := public.audit_old_table(of_day);
  since record;
  d date;
begin
  if name is null then raise exception 'the audit log keeps its entries for 90 days'; end if;
  if to_regclass('public.' || name) is null then return false; end if;
  if exists (select from pg_inherits where inhrelid = to_regclass('public.' || name)) then
    raise exception 'table % is still a part of the audit log', name;
  end if;
  if name <> 'audit_log_before' then
    if not exists (select from public.audit_archives where day = of_day) then
      raise exception 'day % is not archived', of_day;
    end if;
    execute format('drop table public.%I', name);
    execute format('drop table if exists public.%I', 'audit_links_' || to_char(of_day, 'YYYYMMDD'));
    delete from public.audit_heads where day = of_day;
    return true;
  end if;
  select * into strict since from public.audit_since;
  -- Not from the table: forced row-level security, without a policy since it was detached, hides its entries here.
  select min(day) into d from public.audit_heads h
    where h.day < since.log and not exists (select from public.audit_archives a where a.day = h.day);
  if d is not null then raise exception 'day % is not archived', d; end if;
  execute format('drop table public.%I', name);
  drop table if exists public.audit_links_before;
  for d in select since.links + n from generate_series(0, since.log - since.links - 1) n loop
    execute format('drop table if exists public.%I', 'audit_links_' || to_char(d, 'YYYYMMDD'));
  end loop;
  delete from public.audit_heads where day < since.log;
  return true;
end $$;

-- ---------------------------------------------------------------- what the programs may do

alter table audit_log enable row level security;
alter table audit_log force row level security;
alter table audit_links enable row level security;
alter table audit_links force row level security;
alter table audit_heads enable row level security;
alter table audit_heads force row level security;

-- The version before names occurred_at as `default`; nobody can give it another value.
create policy append on audit_log for insert to keepsake_api, keepsake_worker with check (occurred_at = now());
create policy worker_reads on audit_log for select to keepsake_worker using (true);
create policy worker_reads on audit_links for select to keepsake_worker using (true);
create policy worker_seals on audit_links for insert to keepsake_worker with check (true);
create policy worker on audit_heads to keepsake_worker using (true) with check (true);

-- The functions run as the owner, whom forced row-level security binds, too.
do $$
declare t text;
begin
  foreach t in array array['audit_log', 'audit_links', 'audit_heads'] loop
    execute format('create policy owner on %I to %I using (true) with check (true)', t, current_user);
  end loop;
end $$;

-- By column: nobody names txid and serial.
grant insert (id, org_id, actor_id, action, resource_type, resource_id, result, ip_address, user_agent, request_id,
  client_request_id, details, occurred_at, personal, key_version, address_index) on audit_log to keepsake_api, keepsake_worker;
grant select on audit_log, audit_links, audit_heads, audit_cursor, audit_days, audit_restores, audit_actor_days
  to keepsake_worker;
grant insert on audit_links, audit_heads, audit_days, audit_restores, audit_actor_days to keepsake_worker;
grant update on audit_heads, audit_cursor, audit_days to keepsake_worker;
-- Erasure and the rotation of master keys are the worker's.
grant select, insert on audit_keys to keepsake_api, keepsake_worker;
grant update, delete on audit_keys to keepsake_worker;

revoke all on function audit_make_days(integer), audit_days_ahead(), audit_old_table(date), audit_detach_day(date),
  audit_drop_day(date) from public;
grant execute on function audit_make_days(integer), audit_days_ahead() to keepsake_api, keepsake_worker;
grant execute on function audit_detach_day(date), audit_drop_day(date) to keepsake_worker;

-- ---------------------------------------------------------------- the part before

do $$
declare
  today date := (now() at time zone 'UTC')::date;
  oldest date;
  bound timestamptz;
begin
  -- Row-level security, which binds the owner as well, would hide the entries.
  alter table audit_log_before no force row level security;
  select (min(occurred_at) at time zone 'UTC')::date into oldest from audit_log_before;
  if oldest is null then
    drop table audit_log_before;
    insert into audit_since (log, links) values (today, today);
    perform audit_make_days(14);
  else
    select to_timestamp(obj_description(oid, 'pg_constraint')::bigint) into strict bound from pg_constraint
      where conrelid = 'audit_log_before'::regclass and conname = 'audit_log_bound';
    alter table audit_log_before add constraint audit_log_before_pkey primary key using index audit_log_before_pkey;
    execute format('alter table audit_log attach partition audit_log_before for values from (minvalue) to (%L)', bound);
    alter table audit_log_before force row level security;
    alter table audit_log_before drop constraint audit_log_bound;
    -- Entries of earlier days are sealed in chains of their own days.
    execute format('create table audit_links_before partition of audit_links for values from (minvalue) to (%L)', today);
    alter table audit_links_before enable row level security, force row level security;
    insert into audit_since (log, links) values ((bound at time zone 'UTC')::date, today);
  end if;
  insert into audit_cursor (upto, system_identifier, before_at, closed_until)
    select pg_snapshot_xmin(pg_current_snapshot()), system_identifier::text, oldest::timestamp at time zone 'UTC',
      coalesce(oldest, today) - 1
    from pg_control_system();
  -- Otherwise days are made by migration 0094, without this lock: entries of the next week go into the part before.
end $$;
