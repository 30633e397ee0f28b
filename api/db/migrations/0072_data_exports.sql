-- Copies of all that a person has here, made by the worker: archives of originals and of what features export.

create table data_exports (
  id uuid primary key,
  user_id uuid not null references users on delete cascade,
  -- planning: its parts are written down. making: they are made, part 1 last. removed: before it expired, or given up.
  state text not null check (state in ('planning', 'making', 'completed', 'failed', 'removed')),
  -- Of the plan; its parts have their own.
  attempts integer not null default 0,
  holder uuid,
  lease_until timestamptz,
  next_attempt_at timestamptz not null default now(),
  -- What stopped it, for administrators: never a name or a text of a person.
  error text,
  -- The part that the plan fills. Files that are too large for a part have parts of their own.
  open_part integer not null default 1,
  planned boolean not null default false,
  -- When a part of it was taken up last: exports take turns.
  worked_at timestamptz not null default now(),
  created_at timestamptz not null default now(),
  completed_at timestamptz,
  expires_at timestamptz
);
create unique index data_exports_running on data_exports (user_id) where state in ('planning', 'making');
create index data_exports_of_user on data_exports (user_id, created_at desc, id desc);
create index data_exports_unfinished on data_exports (state, worked_at) where state in ('planning', 'making');
create index data_exports_by_age on data_exports (created_at);

create table data_export_parts (
  export_id uuid not null references data_exports on delete cascade,
  number integer not null check (number > 0),
  user_id uuid not null,
  state text not null default 'waiting' check (state in ('waiting', 'made')),
  -- Of originals in it.
  files integer not null default 0,
  -- Of originals in it as planned; of the archive once it is made.
  bytes bigint not null default 0,
  done_bytes bigint not null default 0,
  -- Of the archive.
  key text,
  -- Names the folder of the archive, so that a worker that was too late overwrites nothing.
  attempts integer not null default 0,
  -- Attempts that ended in a failure or a death, up to the one that gives up; the one under way counts.
  failures integer not null default 0,
  -- The worker that makes it. Another worker takes it over when the lease has ended.
  holder uuid,
  lease_until timestamptz,
  next_attempt_at timestamptz not null default now(),
  error text,
  made_at timestamptz,
  primary key (export_id, number),
  check ((state = 'made') = (key is not null))
);

-- The files in the parts, until the export is completed.
create table data_export_entries (
  export_id uuid not null references data_exports on delete cascade,
  media_id uuid not null,
  org_id uuid not null,
  part integer not null,
  -- In the archive, as a person sees it.
  path text not null,
  -- Hashes of the path as the plan wanted it and as it is, without regard to case; the number that tells doubles apart.
  wanted_key text not null,
  path_key text not null,
  nth integer not null,
  bytes bigint not null,
  taken_at timestamptz not null,
  mime_type text not null,
  primary key (export_id, media_id),
  unique (export_id, path_key)
);
create index data_export_entries_of_part on data_export_entries (export_id, part, path);
create index data_export_entries_wanted on data_export_entries (export_id, wanted_key, nth);

select guard_person('data_exports');
select guard_person('data_export_parts');
alter table data_export_entries enable row level security;
alter table data_export_entries force row level security;
create policy worker on data_export_entries to keepsake_worker using (true) with check (true);
grant select, insert, update on data_exports to keepsake_api;
grant select on data_export_parts to keepsake_api;
grant select, insert, update, delete on data_exports, data_export_parts, data_export_entries to keepsake_worker;

create function data_exports_notify() returns trigger language plpgsql as $$
begin
  perform pg_notify('data_exports', '');
  return null;
end $$;
create trigger data_exports_notify after insert on data_exports for each statement execute function data_exports_notify();

-- A request that was admitted before the account was closed makes no copy behind the step that ends copies.
select guard_people('data_exports', 'array[added.user_id]');
