-- migrate: statement by statement
-- A promise about the rows of audit_log, so that 0052 can attach it as a partition without reading it. The days of the
-- partition end in eight days: until then 0052 can be repeated, and inserts do not fail.

set lock_timeout = '2s';

alter table audit_log drop constraint if exists audit_log_bound;

do $$
declare bound timestamptz := (date_trunc('day', now() at time zone 'UTC') + interval '8 days') at time zone 'UTC';
begin
  execute format('alter table audit_log add constraint audit_log_bound check (occurred_at < %L) not valid', bound);
  execute format('comment on constraint audit_log_bound on audit_log is %L', extract(epoch from bound)::bigint);
end $$;

-- Reads the table; inserts go on.
alter table audit_log validate constraint audit_log_bound;
