-- migrate: statement by statement
-- Constraints of migration 0087, without keeping writers out, and indexes. No one waits for them; an index that was interrupted
-- is invalid, and made anew.
set lock_timeout = 0;

alter table events validate constraint events_purge_notice_check;

alter table notifications validate constraint notifications_template_check;

alter table notifications validate constraint notifications_purge_check;

drop index concurrently if exists events_to_announce;

-- With a condition that only this query has, so that the planner takes it for no other.
create index concurrently events_to_announce on events (archived_at, purge_look_at) where status = 'archived';

drop index concurrently if exists events_to_purge;

create index concurrently events_to_purge on events (purge_notice_for, lease_at) where purge_notice = 2;

drop index concurrently if exists notifications_of_purge;

create unique index concurrently notifications_of_purge on notifications (event_id, user_id, purge_at, purge_notice)
  where purge_at is not null;
