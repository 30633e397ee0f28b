-- Holds are asked by requests that would delete what one keeps, and erasures say that they wait for one.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

-- Not why there is a hold, nor who asked for it.
grant select (kind, subject, released_at) on legal_holds to keepsake_api;

-- Null while no hold keeps the erasure from going on.
alter table erasures add column held_since timestamptz;
