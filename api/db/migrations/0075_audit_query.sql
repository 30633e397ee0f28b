-- Reading the audit log (docs/adr/0054-reading-the-audit-log.md): where each day lies, and who may read.

-- Days that are read from an object. Its row switches a day: from its commit on, readers ask the object store, and the
-- partition may be detached. `members`: the first entry of each gzip member, as [actor, time, offset].
-- manifest_sha256 covers day, entries, bytes, sha256 and the hash of the day archived before.
create table audit_archives (
  day date primary key,
  tier text not null check (tier in ('warm', 'cold')),
  object_key text not null,
  entries integer not null check (entries >= 0),
  late integer not null check (late >= 0),
  bytes bigint not null check (bytes > 0),
  sha256 text not null,
  members jsonb not null,
  previous_sha256 text not null,
  manifest_sha256 text not null,
  archived_at timestamptz not null default now()
);

-- The API reads the log only in transactions that say so: those of operations for platform administrators.
do $$
declare t text;
begin
  foreach t in array array['audit_log', 'audit_links', 'audit_heads'] loop
    execute format($p$create policy auditor on %I for select to keepsake_api
      using (current_setting('app.audit', true) = 'on')$p$, t);
  end loop;
  foreach t in array array['audit_archives', 'audit_actor_days'] loop
    execute format('alter table %I enable row level security', t);
    execute format('alter table %I force row level security', t);
    execute format($p$create policy auditor on %I for select to keepsake_api
      using (current_setting('app.audit', true) = 'on')$p$, t);
    execute format('create policy worker on %I to keepsake_worker using (true) with check (true)', t);
    execute format('create policy owner on %I to %I using (true) with check (true)', t, current_user);
  end loop;
end $$;
grant select on audit_log, audit_links, audit_heads, audit_actor_days, audit_archives, audit_cursor, audit_since
  to keepsake_api;
grant select, insert, update on audit_archives to keepsake_worker;
grant select on audit_since to keepsake_worker;

-- Files of entries for one administrator, made by the worker.
create table audit_exports (
  id uuid primary key,
  user_id uuid not null references users on delete cascade,
  format text not null check (format in ('csv', 'jsonl')),
  filters jsonb not null,
  -- Entries up to this time, so that a file has an end while entries arrive.
  until timestamptz not null,
  state text not null default 'processing' check (state in ('processing', 'completed', 'failed')),
  -- How far it is made: entries behind this place are missing. It moves with the parts of the upload.
  position_at text,
  position_id uuid,
  entries bigint not null default 0,
  bytes bigint not null default 0,
  object_key text,
  upload_id text,
  etags text[] not null default '{}',
  -- Uploads begun; each has a folder of its own, so that a worker that is too late overwrites nothing.
  attempts integer not null default 0,
  -- In a row; a stored part resets them.
  failures integer not null default 0,
  holder uuid,
  lease_until timestamptz,
  next_attempt_at timestamptz not null default now(),
  -- A code or class, never text of a person.
  error text,
  created_at timestamptz not null default now(),
  completed_at timestamptz,
  expires_at timestamptz
);
create index audit_exports_of_user on audit_exports (user_id, created_at desc);
create index audit_exports_processing on audit_exports (next_attempt_at) where state = 'processing';
select guard_person('audit_exports');
grant select, insert on audit_exports to keepsake_api;
grant select, insert, update, delete on audit_exports to keepsake_worker;

create function audit_exports_notify() returns trigger language plpgsql as $$
begin
  perform pg_notify('audit_exports', '');
  return null;
end $$;
create trigger audit_exports_notify after insert on audit_exports
  for each statement execute function audit_exports_notify();

-- A request that was admitted before the account was closed makes no copy behind the step that ends copies.
select guard_people('audit_exports', 'array[added.user_id]');
