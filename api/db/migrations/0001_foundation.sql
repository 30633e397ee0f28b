-- People, organizations, media, uploads, and what makes changes reliable: outbox, audit log, idempotency keys.
-- Times are decided by the database. Tenant tables carry org_id and are guarded by row-level security (end of file).

create table users (
  id uuid primary key,
  issuer text not null,
  subject text not null,
  email text,
  display_name text,
  -- Access tokens of sign-ins before this moment are refused: "sign out all devices".
  tokens_not_before timestamptz not null default '-infinity',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (issuer, subject)
);

create table organizations (
  id uuid primary key,
  name text not null,
  created_at timestamptz not null default now()
);

create table memberships (
  org_id uuid not null references organizations on delete cascade,
  user_id uuid not null references users on delete cascade,
  role text not null check (role in ('owner', 'admin', 'member')),
  joined_at timestamptz not null default now(),
  primary key (org_id, user_id)
);
create index memberships_by_user on memberships (user_id);

create table media (
  id uuid primary key,
  org_id uuid not null references organizations,
  uploader_id uuid not null references users,
  original_filename text not null,
  mime_type text not null,
  kind text not null check (kind in ('image', 'video')),
  file_size_bytes bigint not null check (file_size_bytes >= 0),
  sha256 text,
  upload_status text not null default 'processing' check (upload_status in ('processing', 'completed', 'failed')),
  -- Bumped by every change: ETag and aggregate_version.
  version integer not null default 1,
  live_photo_pair_id uuid,
  asset_identifier text,
  -- Prefix of the generation whose outputs are served; null until something is playable.
  output_prefix text,
  hls_master text,
  -- What the manifest said of the source and the renditions (camelCase, lib/contract/manifest.ts).
  manifest jsonb,
  -- The conversion as clients see it. A generation is one deliberate encode; attempts count pods of it.
  generation integer not null default 1,
  conversion_state text not null default 'queued' check (conversion_state in ('queued', 'running', 'succeeded', 'failed')),
  conversion_attempts integer not null default 0,
  conversion_started_at timestamptz,
  conversion_finished_at timestamptz,
  conversion_error jsonb,
  conversion_progress jsonb,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz,
  deleted_by uuid references users
);
create index media_of_org on media (org_id, created_at desc, id desc) where deleted_at is null;
-- What the sweep looks at: few rows, whatever the size of the table.
create index media_unfinished on media (updated_at) where upload_status = 'processing';
-- A Live Photo is one image and one video; a third file with the same pair id has no place in it.
create unique index media_pair on media (org_id, uploader_id, live_photo_pair_id, kind)
  where live_photo_pair_id is not null and deleted_at is null;

-- Objects that are being written before the row they belong to exists. Who finishes removes the entry together with
-- making the row; what a killed process leaves is found here and deleted.
create table object_intents (
  media_id uuid primary key,
  org_id uuid not null references organizations on delete cascade,
  created_at timestamptz not null default now(),
  -- From then on no row may be made for the object any more: it is being deleted.
  abandoned_at timestamptz
);
create index object_intents_by_age on object_intents (created_at);

create table uploads (
  id uuid primary key,
  org_id uuid not null references organizations,
  uploader_id uuid not null references users,
  -- Decided at the start, so that a merge that runs twice makes the same media.
  media_id uuid not null unique,
  state text not null default 'open' check (state in ('open', 'merging', 'completed', 'aborted', 'expired')),
  -- multipart: every chunk is a part of the final object. staged: chunks are too small for that and wait as objects.
  layout text not null check (layout in ('multipart', 'staged')),
  multipart_id text,
  filename text not null,
  mime_type text not null,
  file_size_bytes bigint not null,
  chunk_size_bytes bigint not null,
  total_chunks integer not null,
  checksum_sha256 text,
  live_photo_pair_id uuid,
  asset_identifier text,
  -- Whoever merges holds this; when it lies in the past the merge is taken over.
  merge_lease_until timestamptz,
  merge_lease_holder uuid,
  version integer not null default 1,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  absolute_expires_at timestamptz not null,
  -- When everything it kept in the object store besides the media was removed; null while something may be left.
  storage_released_at timestamptz
);
create index uploads_open on uploads (expires_at) where state in ('open', 'merging');
create index uploads_unreleased on uploads (id)
  where state in ('completed', 'aborted', 'expired') and storage_released_at is null;

create table upload_chunks (
  org_id uuid not null,
  upload_id uuid not null references uploads on delete cascade,
  chunk_index integer not null check (chunk_index >= 0),
  size_bytes bigint not null,
  sha256 text not null,
  etag text not null,
  received_at timestamptz not null default now(),
  primary key (upload_id, chunk_index)
);

-- Written in the transaction of the change it announces; drained by the relay (FOR UPDATE SKIP LOCKED).
create table outbox (
  id uuid primary key,
  org_id uuid not null,
  area text not null,
  aggregate_id uuid not null,
  aggregate_version integer not null,
  type text not null,
  payload jsonb not null,
  traceparent text,
  created_at timestamptz not null default now(),
  published_at timestamptz,
  attempts integer not null default 0,
  next_attempt_at timestamptz not null default now(),
  last_error text
);
create index outbox_unpublished on outbox (next_attempt_at, id) where published_at is null;
-- Whether an older event of the same aggregate is still waiting.
create index outbox_unpublished_of_aggregate on outbox (aggregate_id, aggregate_version, id) where published_at is null;
create index outbox_published on outbox (published_at) where published_at is not null;

create function outbox_notify() returns trigger language plpgsql as $$
begin
  -- Delivered when the transaction commits, once per transaction; the poll is the backstop.
  perform pg_notify('outbox', '');
  return null;
end $$;
create trigger outbox_notify after insert on outbox for each statement execute function outbox_notify();

create table audit_log (
  id uuid primary key,
  org_id uuid,
  actor_id uuid,
  action text not null,
  resource_type text not null,
  resource_id text,
  result text not null check (result in ('success', 'failure', 'denied')),
  ip_address text,
  user_agent text,
  request_id text,
  details jsonb not null default '{}',
  occurred_at timestamptz not null default now()
);
create index audit_log_by_time on audit_log (occurred_at desc, id desc);

create table idempotency_keys (
  user_id uuid not null,
  method text not null,
  route text not null,
  key text not null,
  -- Null while a streamed body is still being hashed.
  body_hash text,
  state text not null check (state in ('running', 'done')),
  locked_until timestamptz not null,
  -- Which attempt holds the lock: a slow first attempt must not overwrite the answer of the one that took over.
  holder uuid not null,
  status integer,
  response jsonb,
  created_at timestamptz not null default now(),
  primary key (user_id, method, route, key)
);
create index idempotency_keys_by_age on idempotency_keys (created_at);

-- The last good key set of the identity provider, for a cold start while it is away.
create table jwks_cache (
  issuer text primary key,
  jwks jsonb not null,
  fetched_at timestamptz not null
);

-- Row-level security. keepsake_api sees one organization at a time (app.org) or what belongs to one user (app.user);
-- keepsake_worker serves all of them. Neither owns anything, so neither can switch this off.
do $$
declare t text;
begin
  foreach t in array array['memberships', 'media', 'object_intents', 'uploads', 'upload_chunks', 'outbox'] loop
    execute format('alter table %I enable row level security', t);
    execute format('alter table %I force row level security', t);
    execute format($p$create policy tenant on %I to keepsake_api
      using (org_id = nullif(current_setting('app.org', true), '')::uuid)
      with check (org_id = nullif(current_setting('app.org', true), '')::uuid)$p$, t);
    execute format('create policy worker on %I to keepsake_worker using (true) with check (true)', t);
  end loop;
end $$;
create policy own_memberships on memberships for select to keepsake_api
  using (user_id = nullif(current_setting('app.user', true), '')::uuid);

alter table organizations enable row level security;
alter table organizations force row level security;
create policy tenant on organizations for select to keepsake_api
  using (id = nullif(current_setting('app.org', true), '')::uuid);
create policy worker on organizations to keepsake_worker using (true) with check (true);

alter table audit_log enable row level security;
alter table audit_log force row level security;
-- The API may add entries and never read or change them here; reading is a matter of the audit feature.
create policy append on audit_log for insert to keepsake_api with check (true);
create policy worker on audit_log to keepsake_worker using (true) with check (true);

grant select on organizations, memberships to keepsake_api;
grant select, insert, update on users, media, uploads, idempotency_keys, jwks_cache to keepsake_api;
grant select, insert, update, delete on upload_chunks, object_intents to keepsake_api;
grant insert on audit_log, outbox to keepsake_api;
grant select, insert, update, delete on users, organizations, memberships, media, object_intents, uploads, upload_chunks,
  outbox, audit_log, idempotency_keys, jwks_cache to keepsake_worker;
