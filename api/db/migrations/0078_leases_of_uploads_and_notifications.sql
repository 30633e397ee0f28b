-- Leases of what policies of retention remove besides media items: see migration 0076.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

alter table uploads
  add column lease_at timestamptz not null default '-infinity',
  add column lease_token uuid;

alter table notifications
  add column lease_at timestamptz not null default '-infinity',
  add column lease_token uuid;
alter table notifications set (autovacuum_vacuum_scale_factor = 0.02);
