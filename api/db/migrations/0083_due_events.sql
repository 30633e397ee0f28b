-- migrate: statement by statement
-- What is due, by the fact and the lease: `after` of a policy changes without rewriting a row. Nobody waits for these
-- indexes; one that was interrupted is invalid, and made anew.
set lock_timeout = 0;

drop index concurrently if exists events_due;

create index concurrently events_due on events (archived_at, lease_at) where archived_at is not null;

drop index concurrently if exists events_to_cool;

create index concurrently events_to_cool on events (archived_at, cold_look_at) where archived_at is not null;

drop index concurrently if exists events_leased;

create index concurrently events_leased on events (lease_at) where lease_token is not null;
