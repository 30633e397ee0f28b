-- Quotas: places for conversions per organization, storage and open uploads per user; and what a user may see of their
-- own organizations.

-- ---------------------------------------------------------------- places for conversions

-- When the conversion of this generation got one of its organization's places. A video that is processing and has one
-- may have a TranscodeJob; one without waits and has none.
alter table media add column conversion_admitted_at timestamptz;

-- The owner of the tables is subject to their policies as well, and would update and count nothing below.
alter table media no force row level security;
alter table uploads no force row level security;
-- The workers before this one made a TranscodeJob for each.
update media set conversion_admitted_at = now()
  where kind = 'video' and upload_status = 'processing' and deleted_at is null;

create index media_admitted on media (org_id)
  where kind = 'video' and upload_status = 'processing' and deleted_at is null and conversion_admitted_at is not null;
create index media_waiting on media (org_id, created_at, id)
  where kind = 'video' and upload_status = 'processing' and deleted_at is null and conversion_admitted_at is null;

create function conversions_notify() returns trigger language plpgsql as $$
begin
  -- Delivered when the transaction commits; the worker's sweep is the backstop.
  perform pg_notify('conversions', new.org_id::text);
  return null;
end $$;
-- A place became free (the conversion ended, or its media item was deleted) or a conversion waits again (a retry).
create trigger conversions_notify after update of upload_status, deleted_at on media for each row
  when (new.kind = 'video' and (old.upload_status = 'processing' and old.deleted_at is null)
    <> (new.upload_status = 'processing' and new.deleted_at is null))
  execute function conversions_notify();

-- ---------------------------------------------------------------- storage of a user, in all organizations

-- Kept by triggers alone, in the transaction of the change, so it equals the sums over media and uploads at any time.
-- A transaction that changes what a user stores locks the row of the user until its commit: a check after the change is exact.
create table user_storage (
  user_id uuid primary key references users on delete cascade,
  -- Originals, those in the trash included.
  media_bytes bigint not null default 0 check (media_bytes >= 0),
  -- What open uploads have announced, whether or not it has arrived.
  upload_bytes bigint not null default 0 check (upload_bytes >= 0),
  open_uploads integer not null default 0 check (open_uploads >= 0)
) with (fillfactor = 50);

create function charge_user(charged uuid, more_media bigint, more_upload bigint, more_open integer)
returns void language plpgsql security definer set search_path = public, pg_temp as $$
begin
  -- A bare insert … on conflict would check what is taken off against the constraints, before it comes to the update.
  insert into user_storage (user_id) values (charged) on conflict do nothing;
  update user_storage set media_bytes = media_bytes + more_media, upload_bytes = upload_bytes + more_upload,
    open_uploads = open_uploads + more_open where user_id = charged;
end $$;
revoke all on function charge_user from public;

create function media_storage() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  -- Once per statement and user: a row that is updated a million times in one transaction takes hours.
  if tg_op = 'INSERT' then
    perform charge_user(uploader_id, sum(file_size_bytes)::bigint, 0, 0)
      from added group by uploader_id order by uploader_id;
  elsif tg_op = 'DELETE' then
    perform charge_user(uploader_id, -sum(file_size_bytes)::bigint, 0, 0)
      from removed group by uploader_id order by uploader_id;
  else
    perform charge_user(old.uploader_id, -old.file_size_bytes, 0, 0);
    perform charge_user(new.uploader_id, new.file_size_bytes, 0, 0);
  end if;
  return null;
end $$;
create trigger media_storage_added after insert on media referencing new table as added
  for each statement execute function media_storage();
create trigger media_storage_removed after delete on media referencing old table as removed
  for each statement execute function media_storage();
create trigger media_storage_changed after update of uploader_id, file_size_bytes on media for each row
  when ((old.uploader_id, old.file_size_bytes) is distinct from (new.uploader_id, new.file_size_bytes))
  execute function media_storage();

create function uploads_storage() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if tg_op = 'INSERT' then
    perform charge_user(uploader_id, 0, sum(file_size_bytes)::bigint, count(*)::integer)
      from added where state in ('open', 'merging') group by uploader_id order by uploader_id;
  elsif tg_op = 'DELETE' then
    perform charge_user(uploader_id, 0, -sum(file_size_bytes)::bigint, -count(*)::integer)
      from removed where state in ('open', 'merging') group by uploader_id order by uploader_id;
  else
    if old.state in ('open', 'merging') then perform charge_user(old.uploader_id, 0, -old.file_size_bytes, -1); end if;
    if new.state in ('open', 'merging') then perform charge_user(new.uploader_id, 0, new.file_size_bytes, 1); end if;
  end if;
  return null;
end $$;
create trigger uploads_storage_added after insert on uploads referencing new table as added
  for each statement execute function uploads_storage();
create trigger uploads_storage_removed after delete on uploads referencing old table as removed
  for each statement execute function uploads_storage();
create trigger uploads_storage_changed after update of state, uploader_id, file_size_bytes on uploads for each row
  when ((old.state in ('open', 'merging'), old.uploader_id, old.file_size_bytes)
    is distinct from (new.state in ('open', 'merging'), new.uploader_id, new.file_size_bytes))
  execute function uploads_storage();

insert into user_storage
  select user_id, sum(media_bytes), sum(upload_bytes), sum(open_uploads) from (
    select uploader_id as user_id, file_size_bytes as media_bytes, 0 as upload_bytes, 0 as open_uploads from media
    union all
    select uploader_id, 0, file_size_bytes, 1 from uploads where state in ('open', 'merging')
  ) stored group by user_id;

alter table media force row level security;
alter table uploads force row level security;

-- Like users, no tenant's. Nobody but the triggers changes it.
grant select on user_storage to keepsake_api, keepsake_worker;

-- ---------------------------------------------------------------- a user's own organizations

create policy own on organizations for select to keepsake_api
  using (id in (select org_id from memberships where user_id = nullif(current_setting('app.user', true), '')::uuid));
