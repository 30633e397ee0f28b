-- Deletion of media items: the trash, and the purge 30 days later.

alter table media
  -- Set by the purge. From then on there is no restore.
  add column purging_at timestamptz,
  -- Until then one worker purges the media item; after it another one may take over.
  add column purge_lease_until timestamptz,
  add constraint media_purging_is_deleted check (purging_at is null or deleted_at is not null);

-- The trash of an organization and of one person, latest deletion first; a Live Photo is one item.
create index media_trash on media (org_id, deleted_at desc, id desc)
  where deleted_at is not null and not (kind = 'video' and paired_media_id is not null);
create index media_trash_of_uploader on media (org_id, uploader_id, deleted_at desc, id desc)
  where deleted_at is not null and not (kind = 'video' and paired_media_id is not null);
create index media_trash_of_deleter on media (org_id, deleted_by, deleted_at desc, id desc)
  where deleted_at is not null and not (kind = 'video' and paired_media_id is not null);
-- What the purge looks for, in all organizations.
create index media_deleted on media (deleted_at, id) where deleted_at is not null;

-- Media items that are gone. A pod on a lost node may write long after its TranscodeJob was deleted: housekeeping looks
-- at the prefix again a few times, and then removes the entry.
create table purged_media (
  media_id uuid primary key,
  org_id uuid not null references organizations on delete cascade,
  purged_at timestamptz not null default now(),
  -- How often the prefix has been found empty.
  looks integer not null default 0,
  next_look_at timestamptz not null
);
create index purged_media_by_look on purged_media (next_look_at);
select guard_tenant('purged_media');
grant select, insert, update, delete on purged_media to keepsake_worker;
