-- A purge waits until the consumer of notifications has handled the last notice before it, also once the outbox has published
-- its event and dropped it. Last notices of before count as handled only where they led to a notification: workers announced
-- a time that was cut off to milliseconds, by which the consumer found no event, so that no one was told. These are given again at
-- once if their time is over, and otherwise when it is. A purge that has begun goes on.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

alter table events
  -- The consumer of notifications has not handled the last notice yet.
  add column purge_notice_unhandled boolean not null default false,
  -- How many last notices in a row had to be given again because everyone to be told was refused for the time being.
  add column purge_notices_refused integer not null default 0;

-- Row-level security hides all rows from the owner of the tables.
select set_config('role', 'keepsake_worker', true);
update events e set purge_notice_unhandled = true, purge_look_at = '-infinity'
  where e.purge_notice = 2 and e.purge_begun_at is null and not exists (select from notifications n
    where n.event_id = e.id and n.purge_notice = 2 and n.purge_at = e.purge_notice_for);
select set_config('role', 'none', true);
