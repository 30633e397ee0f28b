-- What keeps the worker's sweep off what a policy governs, and what it compares the clock with where there is none.

-- How the worker sees the policies of the cluster: one row.
create table retention_mirror (
  one boolean primary key default true check (one),
  -- Each look at the cluster begins with reading this, and is written only if no other one was written meanwhile.
  version bigint not null default 0,
  -- Since when, and when last, the cluster has said that it does not know the kind; null: it does. By now().
  not_served_since timestamptz,
  not_served_at timestamptz
);
insert into retention_mirror default values;

-- The sweep of each target that has no policy.
create table retention_sweeps (
  target text primary key
    check (target in ('MediaTrash', 'EventArchive', 'AuditLog', 'Uploads', 'PieceCache', 'Notifications')),
  -- app_now() when the last one began; null: none has.
  clock_at timestamptz,
  -- Why a guard holds it back; null: none does.
  refused text check (refused in ('ConfirmationRequired', 'ClockSkew')),
  reason text,
  refused_since timestamptz,
  -- app_now() and what was due when the guard was last asked.
  asked_at timestamptz,
  due bigint,
  -- What a person has confirmed, and the time at which the guard had asked; used up by the next sweep.
  confirmed_due bigint,
  confirmed_at timestamptz
);
-- Until now the version before has swept them, while it ran: as long as it published events; in a new database it does now. Not
-- within the last hour, so that the guards are asked at the first sweep.
insert into retention_sweeps (target, clock_at)
  select target, least(app_now() - interval '2 hours', coalesce(alive.at, app_now()))
  from unnest(array['MediaTrash', 'Uploads', 'PieceCache', 'Notifications']) target,
    (select max(published_at) as at from outbox where published_at is not null) as alive
  where target not in (select p.target from retention_policies p);

grant select, insert, update on retention_mirror, retention_sweeps to keepsake_worker;
