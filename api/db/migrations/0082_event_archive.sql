-- Archived events: which of them are in the cold tier, leases of what is due, and where originals are.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

alter table events
  -- As for media: see migration 0076.
  add column lease_at timestamptz not null default '-infinity',
  add column lease_token uuid,
  -- When every original that could be moved to the cold tier had been moved, for the first time.
  add column cold_at timestamptz,
  -- When to look again for originals that something else held before.
  add column cold_look_at timestamptz not null default '-infinity';
-- Leases change an index, and thus leave dead rows.
alter table events set (autovacuum_vacuum_scale_factor = 0.02);

-- Where the original is. both: everyone reads the cold one, and the other is about to be deleted. Migration 0094 validates the
-- constraint: with the column it would read the table while no one else may.
alter table media add column original_tier text not null default 'hot';
alter table media
  add constraint media_original_tier_check check (original_tier in ('hot', 'both', 'cold')) not valid;
