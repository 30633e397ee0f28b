-- migrate: statement by statement
-- Constraints of migration 0105, without keeping writers out, and indexes. No program waits for them; an index that was interrupted
-- is invalid, and made anew.
set lock_timeout = 0;

alter table data_exports validate constraint data_exports_state_check;

alter table data_exports validate constraint data_exports_event_check;

alter table data_exports validate constraint data_exports_failure_check;

alter table downloads validate constraint downloads_kind_check;

drop index concurrently if exists data_exports_running_event;

create unique index concurrently data_exports_running_event on data_exports (user_id, event_id)
  where state in ('planning_event', 'making_event');

drop index concurrently if exists data_exports_under_way;

create index concurrently data_exports_under_way on data_exports (state, worked_at)
  where state in ('planning', 'making', 'planning_event', 'making_event');

drop index concurrently if exists data_exports_of_owner;

create index concurrently data_exports_of_owner on data_exports (event_owner_id) where event_owner_id is not null;
