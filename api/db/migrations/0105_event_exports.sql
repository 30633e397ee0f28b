-- Exports of everything of an event, made by the exporter of a person's own data.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

alter table data_exports
  -- Of an event: which one. No references, as the export outlives the event. Null: of the person's own data.
  add column event_id uuid,
  add column org_id uuid,
  -- As it was when the export was asked for, and who owned the event then: it is that person's text.
  add column event_title text,
  add column event_owner_id uuid,
  -- Why there is no export of the event, for the person who asked. Null where an attempt failed for a technical reason.
  add column failure text,
  drop constraint data_exports_state_check,
  -- Exports of events have states of their own while they are made: workers of the version before would take them for
  -- exports of a person's own data. Migration 0106 validates the constraints.
  add constraint data_exports_state_check check (
    state in ('planning', 'making', 'planning_event', 'making_event', 'completed', 'failed', 'removed')) not valid,
  add constraint data_exports_event_check check (
    (event_id is null) = (org_id is null)
    and (state not in ('planning', 'making') or event_id is null)
    and (state not in ('planning_event', 'making_event') or event_id is not null)) not valid,
  add constraint data_exports_failure_check check (
    failure is null or failure in ('not_permitted', 'event_gone', 'contents_erased')
      and event_id is not null and state in ('failed', 'removed')) not valid;

alter table data_export_entries
  -- A file of a film: of which highlight, and its key in the store. The first playlist has the highlight's id as media_id.
  add column highlight_id uuid,
  add column object_key text;

alter table downloads
  drop constraint downloads_kind_check,
  add constraint downloads_kind_check check (kind in ('data', 'audit', 'event')) not valid;

-- Whose data are in an export of an event, beside those of the person who asked: their erasure ends it.
create table data_export_people (
  export_id uuid not null references data_exports on delete cascade,
  user_id uuid not null references users on delete cascade,
  primary key (export_id, user_id)
);
create index data_export_people_of_user on data_export_people (user_id);
alter table data_export_people enable row level security;
alter table data_export_people force row level security;
create policy worker on data_export_people to keepsake_worker using (true) with check (true);
grant select, insert, update, delete on data_export_people to keepsake_worker;

-- What a worker reads of a person whose account is being closed gets into no archive behind the step that ends them.
select guard_people('data_export_people', 'array[added.user_id]');

-- The title belongs to who owned the event, and may still be in the event while that person's erasure goes on or waits.
create function omit_closed_owner() returns trigger language plpgsql as $$
begin
  -- Waits for a transaction that closes the account.
  perform from users where id = new.event_owner_id for key share;
  if exists (select from users where id = new.event_owner_id and closed_at is not null) then
    new.event_title := null;
    new.event_owner_id := null;
  end if;
  return new;
end $$;
create trigger omit_closed_owner before insert on data_exports for each row
  when (new.event_owner_id is not null) execute function omit_closed_owner();
