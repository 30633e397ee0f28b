-- The tiers of the audit log: which days are due, who works on one, and what has left the object store.

set local lock_timeout = '2s';

-- `purged`: the object is gone and readers find nothing; the row stays, because the next manifest names it.
-- `left_key`: the object that the day had before, until it is deleted.
alter table audit_archives
  drop constraint audit_archives_tier_check,
  add constraint audit_archives_tier_check check (tier in ('warm', 'cold', 'purged')),
  add column left_key text;

-- One row per day that was due. '-infinity' instead of null, as for media.
create table audit_day_leases (
  id uuid primary key default gen_random_uuid(),
  day date not null unique,
  lease_at timestamptz not null default '-infinity',
  lease_token uuid
);
grant select, insert, update on audit_day_leases to keepsake_worker;

-- Forgets who did something on a purged day; the programs delete nothing from the log themselves.
create function audit_forget_day(of_day date) returns void
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
  if not exists (select from public.audit_archives where day = of_day and tier = 'purged') then
    raise exception 'day % is not purged', of_day;
  end if;
  delete from public.audit_actor_days where day = of_day;
end $$;
revoke all on function audit_forget_day(date) from public;
grant execute on function audit_forget_day(date) to keepsake_worker;

-- As in 0052, by the clock of retention.
create or replace function audit_old_table(of_day date) returns text
language sql stable set search_path = pg_catalog, public, pg_temp as $$
  select case
    when of_day < since.log then case when since.log <= today - 90 then 'audit_log_before' end
    when of_day <= today - 90 then 'audit_log_' || to_char(of_day, 'YYYYMMDD')
  end
  from public.audit_since since, lateral (select (public.app_now() at time zone 'UTC')::date as today) clock
$$;
