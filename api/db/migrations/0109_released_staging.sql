-- Upload sessions whose staged chunks were removed. A chunk may have been under way, and its process may have died before it
-- could remove it: housekeeping looks at the prefix again a few times, as after a purge, and then removes the entry.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

create table released_staging (
  -- No reference: an erasure deletes the session at once.
  upload_id uuid primary key,
  org_id uuid not null references organizations on delete cascade,
  -- How often the prefix has been found empty.
  looks integer not null default 0,
  next_look_at timestamptz not null
);
create index released_staging_by_look on released_staging (next_look_at);
select guard_tenant('released_staging');
grant insert on released_staging to keepsake_api;
grant select, insert, update, delete on released_staging to keepsake_worker;
