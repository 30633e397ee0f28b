-- What one person can download for a few days: exports, made in the background.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

create table downloads (
  -- That of the export. Its files lie below downloads/{user_id}/{id}/.
  id uuid primary key,
  -- Who asked for it, and alone may have it.
  user_id uuid not null references users on delete cascade,
  kind text not null check (kind in ('data', 'audit')),
  files integer not null check (files > 0),
  bytes bigint not null check (bytes >= 0),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index downloads_of_user on downloads (user_id);
create index downloads_by_expiry on downloads (expires_at);

-- Prefixes to empty: of downloads that have ended, and of exports that were given up. Looked at again a few times, because
-- a worker that is late may still write there.
create table removed_downloads (
  id uuid primary key,
  user_id uuid not null,
  -- How often the prefix has been found empty in a row.
  looks integer not null default 0,
  next_look_at timestamptz not null default now()
);
create index removed_downloads_due on removed_downloads (next_look_at);

-- Row-level security of a table with a column user_id: keepsake_api sees the rows of app.user, keepsake_worker all.
create function guard_person(target regclass) returns void language plpgsql as $$
begin
  execute format('alter table %s enable row level security', target);
  execute format('alter table %s force row level security', target);
  execute format($p$create policy own on %s to keepsake_api
    using (user_id = nullif(current_setting('app.user', true), '')::uuid)
    with check (user_id = nullif(current_setting('app.user', true), '')::uuid)$p$, target);
  execute format('create policy worker on %s to keepsake_worker using (true) with check (true)', target);
end $$;
revoke execute on function guard_person(regclass) from public;

select guard_person('downloads');
select guard_person('removed_downloads');
grant select, delete on downloads to keepsake_api;
grant select, insert, update on removed_downloads to keepsake_api;
grant select, insert, update, delete on downloads, removed_downloads to keepsake_worker;

-- DownloadReady.v1 tells a person of a download, and is about no organization and no event. It has the id of the download,
-- so that there is one of each. Not a foreign key: a download that has ended is found missing when the message is sent.
alter table notifications
  alter column org_id drop not null,
  alter column event_id drop not null,
  add column download_id uuid,
  drop constraint notifications_template_check,
  -- Migration 0071 validates them: not under the lock that this file holds.
  add constraint notifications_template_check
    check (template in ('EventInvitation.v1', 'Mention.v1', 'DownloadReady.v1')) not valid,
  add constraint notifications_of_one_cause check (
    case when template = 'DownloadReady.v1' then download_id = id and user_id is not null
      else download_id is null and org_id is not null and event_id is not null end) not valid;
alter table notification_deliveries alter column org_id drop not null;
