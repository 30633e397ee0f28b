-- What the columns of 0115 would say of the notices and the purges of before. A purge that has begun goes on, although it is
-- not known whom its notice went to. All other notices are given again at once, and not when their event would be looked at
-- next: so that purges wait for one week, and not for two.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

-- Row-level security hides all rows from the owner of the tables.
select set_config('role', 'keepsake_worker', true);
with begun as materialized (select distinct leaving_with as id from media where leaving_with is not null)
  update events e set purge_begun_at = now() from begun where e.id = begun.id and e.purge_notice = 2 and e.purge_begun_at is null;
update events set purge_look_at = '-infinity' where purge_notice > 0 and purge_notice_to is null and purge_begun_at is null;
select set_config('role', 'none', true);
