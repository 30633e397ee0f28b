-- Last notices of before count only where they led to a notification: workers announced a time that was cut off to
-- milliseconds, by which the consumer found no event, so that no one was told. The others are taken back and given again at once.
-- Not marked alone: a worker and a run of the version before, which may go on for a while, would not see the mark, and purge. A
-- purge that has begun goes on.
-- Apart from the new columns, whose transaction locks the table until its commit.

-- An update waits for the locks of rows; the migration is tried again.
set local lock_timeout = '2s';

-- Row-level security hides all rows from the owner of the tables.
select set_config('role', 'keepsake_worker', true);
update events e set purge_notice = 0, purge_notice_for = null, purge_notice_to = null, purge_look_at = '-infinity'
  where e.purge_notice = 2 and e.purge_begun_at is null and not exists (select from notifications n
    where n.event_id = e.id and n.purge_notice = 2 and n.purge_at = e.purge_notice_for);
select set_config('role', 'none', true);
