-- migrate: statement by statement
-- What is due, by the fact and the lease: `after` of a policy changes without rewriting a row. Nobody waits for these
-- indexes; one that was interrupted is invalid, and made anew.
set lock_timeout = 0;

drop index concurrently if exists media_due;

create index concurrently media_due on media (deleted_at, lease_at) where deleted_at is not null;

drop index concurrently if exists media_leased;

create index concurrently media_leased on media (lease_at) where lease_token is not null;

drop index concurrently if exists media_deleted;
