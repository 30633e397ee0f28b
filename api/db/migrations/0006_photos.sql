-- Derivatives of images, Live Photos, and the order of a gallery.

alter table media
  -- Names below output_prefix. image_file is null for a video, and where the original is shown as it is.
  add column image_file text,
  add column image_is_original boolean not null default false,
  add column webp_file text,
  add column thumb_file text,
  -- Base64 of a thumbhash.
  add column placeholder text,
  -- As the file says; null where it does not.
  add column captured_at timestamptz,
  -- Order of a gallery.
  add column taken_at timestamptz not null generated always as (coalesce(captured_at, created_at)) stored,
  -- The other half of a Live Photo; both rows have it or neither.
  add column paired_media_id uuid references media,
  -- Lists show a Live Photo once, as its image.
  add column listed boolean not null generated always as
    (deleted_at is null and not (kind = 'video' and paired_media_id is not null)) stored;

drop index media_of_org;
drop index media_of_type;
drop index media_of_kind;
create index media_of_org on media (org_id, created_at desc, id desc) where listed;
create index media_of_type on media (org_id, mime_type, created_at desc, id desc) where listed;
create index media_of_kind on media (org_id, kind, created_at desc, id desc) where listed;
create index media_taken on media (org_id, taken_at desc, id desc) where listed;
create index media_taken_of_type on media (org_id, mime_type, taken_at desc, id desc) where listed;
create index media_taken_of_kind on media (org_id, kind, taken_at desc, id desc) where listed;
