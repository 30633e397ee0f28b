-- migrate: statement by statement
-- Ended upload sessions whose rows are due to go, by the time since which nothing is stored of them. One that was interrupted is
-- invalid, and made anew.
set lock_timeout = 0;

drop index concurrently if exists uploads_to_forget;

create index concurrently uploads_to_forget on uploads (storage_released_at) where storage_released_at is not null;
