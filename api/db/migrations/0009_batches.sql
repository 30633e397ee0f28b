-- Images are converted as well, many in one TranscodeJob: a batch.

alter table media
  -- The batch of this generation; null while the image waits for one. Never changes to another batch: a batch that failed
  -- as a whole gives its members back, and a retry begins without one.
  add column conversion_batch uuid,
  -- Of the batch; null without one.
  add column conversion_priority text check (conversion_priority in ('interactive', 'backfill')),
  -- How many batches of this generation failed as a whole; the next one has fewer members.
  add column conversion_regrouped integer not null default 0;

-- Whose images wait, oldest first, per uploader and per organization.
create index media_image_waiting on media (org_id, created_at, id)
  where kind = 'image' and upload_status = 'processing' and deleted_at is null and conversion_batch is null;
create index media_image_waiting_of_uploader on media (org_id, uploader_id, created_at, id)
  where kind = 'image' and upload_status = 'processing' and deleted_at is null and conversion_batch is null;
-- The batches that an organization has running.
create index media_image_batched on media (org_id)
  where kind = 'image' and upload_status = 'processing' and deleted_at is null and conversion_batch is not null;
-- How much a person still has to wait for.
create index media_unfinished_of_uploader on media (uploader_id)
  where upload_status = 'processing' and deleted_at is null;
create index media_of_batch on media (conversion_batch, id) where conversion_batch is not null;

create function images_notify() returns trigger language plpgsql as $$
begin
  -- Delivered when the transaction commits; the worker's sweep is the backstop.
  perform pg_notify('images', new.org_id::text);
  return null;
end $$;
-- A batch may be over (an image of it is, or was deleted), or an image waits (again): a retry, a batch that failed.
create trigger images_notify after update of upload_status, deleted_at, conversion_batch on media for each row
  when (new.kind = 'image' and
    ((old.upload_status = 'processing' and old.deleted_at is null)
      <> (new.upload_status = 'processing' and new.deleted_at is null)
    or (old.conversion_batch is not null and new.conversion_batch is null)))
  execute function images_notify();
