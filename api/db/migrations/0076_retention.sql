-- Retention: policies of the cluster as the database knows them, their runs, legal holds, and leases of what is due.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

-- The time by which things are due, may be restored and are announced. Tests put another function in its place. Leases, the
-- outbox and sessions stay on now(): a shift would end every lease at once.
create function app_now() returns timestamptz language sql stable parallel safe as 'select now()';

-- The policies that are in force in the cluster, kept by the worker. A target without a row is left to the worker's sweep.
create table retention_policies (
  target text primary key
    check (target in ('MediaTrash', 'EventArchive', 'AuditLog', 'Uploads', 'PieceCache', 'Notifications')),
  name text not null,
  -- Of the object: one that was made again under the same name is another policy.
  uid text not null,
  rules jsonb not null,
  -- When the target is purged, as the rules say; null: never.
  purge_after interval,
  suspended boolean not null,
  dry_run boolean not null,
  observed_at timestamptz not null default now()
);

create table retention_runs (
  -- The name of the Job.
  run text primary key,
  policy text not null,
  policy_uid text not null,
  target text not null
    check (target in ('MediaTrash', 'EventArchive', 'AuditLog', 'Uploads', 'PieceCache', 'Notifications')),
  slot timestamptz not null,
  -- app_now() when its first process began: what is due is due by this time, however long it runs and whatever the clock
  -- does. Null as long as a guard refuses the run.
  clock_at timestamptz,
  dry_run boolean not null,
  -- What was due when it began, and what would have been without a legal hold.
  due bigint not null default 0,
  held bigint not null default 0,
  ended text
    check (ended in ('Finished', 'WindowClosed', 'Stopped', 'ConfirmationRequired', 'ClockSkew', 'StoreUnavailable')),
  reason text,
  errors jsonb not null default '[]',
  report text,
  -- One process makes the report of a dry run; another one takes over when this lies in the past.
  lease_at timestamptz not null default '-infinity',
  lease_token uuid,
  started_at timestamptz not null default now(),
  finished_at timestamptz
);
create index retention_runs_of_target on retention_runs (target, started_at desc);

-- What each process of a run has done, written in the transaction of the change. A row for each, so that they do not wait
-- for each other.
create table retention_counts (
  run text not null references retention_runs on delete cascade,
  process uuid not null,
  moved bigint not null default 0,
  purged bigint not null default 0,
  bytes bigint not null default 0,
  failures bigint not null default 0,
  primary key (run, process)
);

-- Whoever adds one takes an advisory lock alone that the last transaction of every purge shares: a purge sees the hold, or
-- has committed before it.
create table legal_holds (
  id uuid primary key,
  kind text not null check (kind in ('person', 'event', 'organization')),
  subject uuid not null,
  -- The reference of a case.
  reason text not null check (length(reason) between 1 and 200),
  -- Who asked for it.
  placed_by text not null check (length(placed_by) between 1 and 200),
  created_at timestamptz not null default now(),
  released_at timestamptz
);
create unique index legal_holds_in_force on legal_holds (kind, subject) where released_at is null;

grant select on retention_policies to keepsake_api;
grant select, insert, update, delete on retention_policies, retention_runs, retention_counts to keepsake_worker;
grant select, insert, update on legal_holds to keepsake_worker;

-- Until then one process works on the media item. '-infinity' instead of null, so that an index can say what is free. A
-- lease without a token only postpones: what failed, is locked in the store, or is under a hold. Workers of the version before use
-- purge_lease_until; two that purge one item at once purge it once.
alter table media
  add column lease_at timestamptz not null default '-infinity',
  add column lease_token uuid;
-- Leases change an index, and thus leave dead rows.
alter table media set (autovacuum_vacuum_scale_factor = 0.02);
