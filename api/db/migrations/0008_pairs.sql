-- Live Photos: where the other half of a new file is found. Failed conversions. Months of a gallery and how many media
-- items each has.

-- ---------------------------------------------------------------- Live Photos

-- Halves that wait for their counterpart, by what the phone calls them.
create index media_unpaired_asset on media (org_id, uploader_id, asset_identifier, kind, created_at, id)
  where asset_identifier is not null and paired_media_id is null and deleted_at is null;
-- No file is half of two Live Photos. It also serves the foreign key: without it each purge would read the whole table.
create unique index media_paired on media (paired_media_id) where paired_media_id is not null;

-- ---------------------------------------------------------------- failed conversions

-- What an administrator retries together: few rows, whatever the size of the table.
create index media_failed on media (id) where upload_status = 'failed' and deleted_at is null;

-- ---------------------------------------------------------------- months

-- The owner of the tables is subject to their policies as well, and would read and update nothing below.
alter table media no force row level security;

-- Videos that an earlier version converted. The offset is taken off by hand: files may say up to 23:59, and a cast to
-- timestamptz fails from 16:00.
update media set captured_at = moment
  from (
    select id, (rtrim(regexp_replace(said, '[+-]\d\d:\d\d$', ''), 'Z')::timestamp
      - coalesce(substring(said from '[+-]\d\d:\d\d$'), '0')::interval) at time zone 'UTC' as moment
    from (select id, manifest -> 'source' ->> 'capturedAt' as said from media where captured_at is null) taken
    where said is not null
  ) moments
  where media.id = moments.id and extract(year from moment at time zone 'UTC') between 1 and 9999;

-- The number of listed media items of an organization in a month (UTC) is the sum over both tables. Counting the index
-- instead takes time in proportion to the organization.
create table media_months (
  org_id uuid not null references organizations on delete cascade,
  month date not null,
  media_count bigint not null,
  primary key (org_id, month)
) with (fillfactor = 50);

-- Changes that are not in media_months yet. They are only ever inserted, so no upload waits for another one: a counter
-- would be locked until the commit of each upload, for all members of the organization.
create table media_month_changes (
  org_id uuid not null references organizations on delete cascade,
  month date not null,
  change bigint not null
);
create index media_month_changes_of_org on media_month_changes (org_id);

create function media_month(at timestamptz) returns date language sql immutable
  return date_trunc('month', at at time zone 'UTC')::date;

-- Moves what has been committed to media_months. Only the holder of the lock writes there, and nobody waits for it.
create function fold_media_months(folded uuid) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if not pg_try_advisory_xact_lock(hashtextextended('media_months ' || folded, 0)) then return; end if;
  with gone as (delete from media_month_changes where org_id = folded returning month, change)
  insert into media_months as m (org_id, month, media_count)
    select folded, month, sum(change) from gone group by month
    on conflict (org_id, month) do update set media_count = m.media_count + excluded.media_count;
end $$;
revoke all on function fold_media_months from public;

create function media_months_changed() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  -- About fifty changes wait in an organization at any time.
  fold constant boolean := random() < 0.02;
begin
  if tg_op = 'INSERT' then
    insert into media_month_changes
      select org_id, media_month(taken_at), count(*) from added where listed group by 1, 2;
    if fold then perform fold_media_months(org_id) from (select distinct org_id from added) changed; end if;
  elsif tg_op = 'DELETE' then
    insert into media_month_changes
      select org_id, media_month(taken_at), -count(*) from removed where listed group by 1, 2;
    if fold then perform fold_media_months(org_id) from (select distinct org_id from removed) changed; end if;
  else
    if old.listed then
      insert into media_month_changes values (old.org_id, media_month(old.taken_at), -1);
    end if;
    if new.listed then
      insert into media_month_changes values (new.org_id, media_month(new.taken_at), 1);
    end if;
    if fold then perform fold_media_months(new.org_id); end if;
  end if;
  return null;
end $$;
create trigger media_months_added after insert on media referencing new table as added
  for each statement execute function media_months_changed();
create trigger media_months_removed after delete on media referencing old table as removed
  for each statement execute function media_months_changed();
create trigger media_months_moved after update on media for each row
  when ((old.org_id, old.listed, media_month(old.taken_at)) is distinct from
    (new.org_id, new.listed, media_month(new.taken_at)))
  execute function media_months_changed();

insert into media_months
  select org_id, media_month(taken_at), count(*) from media where listed group by 1, 2;

alter table media force row level security;

-- Nobody but the triggers changes them, which act as the owner of the tables.
alter table media_months enable row level security;
alter table media_months force row level security;
alter table media_month_changes enable row level security;
alter table media_month_changes force row level security;
create policy counting on media_months to current_user using (true) with check (true);
create policy counting on media_month_changes to current_user using (true) with check (true);
create policy tenant on media_months for select to keepsake_api
  using (org_id = nullif(current_setting('app.org', true), '')::uuid);
create policy tenant on media_month_changes for select to keepsake_api
  using (org_id = nullif(current_setting('app.org', true), '')::uuid);
create policy worker on media_months for select to keepsake_worker using (true);
create policy worker on media_month_changes for select to keepsake_worker using (true);
grant select on media_months, media_month_changes to keepsake_api, keepsake_worker;
