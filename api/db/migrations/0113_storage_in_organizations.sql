-- What a user stores counts only in organizations of which the user is a member: after the membership the user can delete
-- nothing of it. Counters per user and organization, which are read together with the memberships.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

-- No writer counts with the functions of before and commits after this.
lock table uploads, media, media_pieces, highlights in share row exclusive mode;

-- Whether storage_in_organizations has all of this user. Those of before get there by migration 0114.
alter table user_storage add column is_split boolean not null default false;
alter table user_storage alter column is_split set default true;

-- Kept by triggers alone, under the lock of the user's row of user_storage. A row that counts nothing is deleted.
create table storage_in_organizations (
  user_id uuid not null references users on delete cascade,
  -- No reference: it would lock the organization behind the user's row.
  org_id uuid not null,
  -- Of originals, open uploads, films and pieces together.
  bytes bigint not null default 0 check (bytes >= 0),
  open_uploads integer not null default 0 check (open_uploads >= 0),
  primary key (user_id, org_id)
) with (fillfactor = 50);
select guard_tenant('storage_in_organizations');
-- The functions below run as the owner of the table, whom forced row-level security concerns too.
do $$
begin
  execute format('create policy counters on storage_in_organizations to %I using (true) with check (true)', current_user);
end $$;

-- Call after charge_user or charge_films, which lock the row of the user.
create function charge_in(charged uuid, org uuid, more_bytes bigint, more_open integer)
returns void language plpgsql security definer set search_path = public, pg_temp as $$
declare
  is_empty boolean;
begin
  if charged is null or (more_bytes = 0 and more_open = 0) then return; end if;
  perform from user_storage where user_id = charged and is_split;
  if not found then return; end if;
  update storage_in_organizations set bytes = bytes + more_bytes, open_uploads = open_uploads + more_open
    where user_id = charged and org_id = org returning bytes = 0 and open_uploads = 0 into is_empty;
  if is_empty is null then
    insert into storage_in_organizations (user_id, org_id, bytes, open_uploads) values (charged, org, more_bytes, more_open);
  elsif is_empty then
    delete from storage_in_organizations where user_id = charged and org_id = org;
  end if;
end $$;
revoke all on function charge_in from public;

-- What counts against the quotas of a user. The caller may not see the memberships that decide on it.
create function storage_of(whose uuid) returns table (stored_bytes bigint, open_uploads integer)
language sql stable security definer set search_path = public, pg_temp as $$
  select
      case when s.is_split then coalesce(c.bytes, 0)
        else s.media_bytes + s.upload_bytes + s.highlight_bytes + s.piece_bytes end,
      case when s.is_split then coalesce(c.open_uploads, 0) else s.open_uploads end
    from user_storage s left join lateral (
      select sum(o.bytes)::bigint as bytes, sum(o.open_uploads)::integer as open_uploads
        from storage_in_organizations o join memberships m on m.org_id = o.org_id and m.user_id = o.user_id
        where o.user_id = s.user_id) c on true
    where s.user_id = whose
$$;
revoke all on function storage_of from public;
grant execute on function storage_of to keepsake_api, keepsake_worker;

create or replace function media_storage() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  -- Once per statement and user: a row that is updated a million times in one transaction takes hours.
  if tg_op = 'INSERT' then
    perform charge_user(uploader_id, sum(file_size_bytes)::bigint, 0, 0)
      from added group by uploader_id order by uploader_id;
    perform charge_in(uploader_id, org_id, sum(file_size_bytes)::bigint, 0) from added group by uploader_id, org_id;
  elsif tg_op = 'DELETE' then
    perform charge_user(uploader_id, -sum(file_size_bytes)::bigint, 0, 0)
      from removed group by uploader_id order by uploader_id;
    perform charge_in(uploader_id, org_id, -sum(file_size_bytes)::bigint, 0) from removed group by uploader_id, org_id;
  else
    perform charge_user(old.uploader_id, -old.file_size_bytes, 0, 0);
    perform charge_in(old.uploader_id, old.org_id, -old.file_size_bytes, 0);
    perform charge_user(new.uploader_id, new.file_size_bytes, 0, 0);
    perform charge_in(new.uploader_id, new.org_id, new.file_size_bytes, 0);
  end if;
  return null;
end $$;

create or replace function uploads_storage() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if tg_op = 'INSERT' then
    perform charge_user(uploader_id, 0, sum(file_size_bytes)::bigint, count(*)::integer)
      from added where state in ('open', 'merging') group by uploader_id order by uploader_id;
    perform charge_in(uploader_id, org_id, sum(file_size_bytes)::bigint, count(*)::integer)
      from added where state in ('open', 'merging') group by uploader_id, org_id;
  elsif tg_op = 'DELETE' then
    perform charge_user(uploader_id, 0, -sum(file_size_bytes)::bigint, -count(*)::integer)
      from removed where state in ('open', 'merging') group by uploader_id order by uploader_id;
    perform charge_in(uploader_id, org_id, -sum(file_size_bytes)::bigint, -count(*)::integer)
      from removed where state in ('open', 'merging') group by uploader_id, org_id;
  else
    if old.state in ('open', 'merging') then
      perform charge_user(old.uploader_id, 0, -old.file_size_bytes, -1);
      perform charge_in(old.uploader_id, old.org_id, -old.file_size_bytes, -1);
    end if;
    if new.state in ('open', 'merging') then
      perform charge_user(new.uploader_id, 0, new.file_size_bytes, 1);
      perform charge_in(new.uploader_id, new.org_id, new.file_size_bytes, 1);
    end if;
  end if;
  return null;
end $$;

create or replace function highlights_storage() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if tg_op <> 'INSERT' then
    perform charge_films(old.created_by, -film_bytes(old.manifest, old.deleted_at), 0);
    perform charge_in(old.created_by, old.org_id, -film_bytes(old.manifest, old.deleted_at), 0);
  end if;
  if tg_op <> 'DELETE' then
    perform charge_films(new.created_by, film_bytes(new.manifest, new.deleted_at), 0);
    perform charge_in(new.created_by, new.org_id, film_bytes(new.manifest, new.deleted_at), 0);
  end if;
  return null;
end $$;

create or replace function pieces_storage() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  -- In the order of ids: two pieces may change hands in opposite directions.
  if tg_op = 'UPDATE' and new.used_by < old.used_by then
    perform charge_films(new.used_by, 0, new.bytes);
    perform charge_in(new.used_by, new.org_id, new.bytes, 0);
    perform charge_films(old.used_by, 0, -old.bytes);
    perform charge_in(old.used_by, old.org_id, -old.bytes, 0);
    return null;
  end if;
  if tg_op <> 'INSERT' then
    perform charge_films(old.used_by, 0, -old.bytes);
    perform charge_in(old.used_by, old.org_id, -old.bytes, 0);
  end if;
  if tg_op <> 'DELETE' then
    perform charge_films(new.used_by, 0, new.bytes);
    perform charge_in(new.used_by, new.org_id, new.bytes, 0);
  end if;
  return null;
end $$;
