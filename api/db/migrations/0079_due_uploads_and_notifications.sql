-- migrate: statement by statement
-- What is due, by the fact and the lease. Nobody waits for these indexes; one that was interrupted is invalid, and made anew.
set lock_timeout = 0;

drop index concurrently if exists uploads_to_release;

create index concurrently uploads_to_release on uploads (lease_at)
  where state in ('completed', 'aborted', 'expired') and storage_released_at is null;

drop index concurrently if exists uploads_leased;

create index concurrently uploads_leased on uploads (lease_at) where lease_token is not null;

drop index concurrently if exists notifications_due;

create index concurrently notifications_due on notifications (created_at, lease_at);

drop index concurrently if exists notifications_leased;

create index concurrently notifications_leased on notifications (lease_at) where lease_token is not null;

drop index concurrently if exists notifications_by_age;
