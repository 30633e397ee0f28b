-- Highlights: films made of media items that a user chose; and the music tracks that an administrator offers for them.

-- Of no organization: every user may use every track.
create table music_tracks (
  id uuid primary key,
  title text not null,
  licence text not null,
  attribution text not null,
  duration_sec double precision not null check (duration_sec > 0),
  mime_type text not null,
  file_size_bytes bigint not null check (file_size_bytes > 0),
  created_at timestamptz not null default now(),
  -- From then on no new highlight can use it. The file stays for those that do.
  retired_at timestamptz
);
grant select on music_tracks to keepsake_api;
grant select, insert, update on music_tracks to keepsake_worker;

create table highlights (
  id uuid primary key,
  org_id uuid not null references organizations,
  created_by uuid not null references users,
  album_id uuid references albums on delete set null,
  title text not null,
  transition text not null check (transition in ('cut', 'crossfade', 'fade')),
  music_track_id uuid references music_tracks,
  orientation text not null check (orientation in ('auto', 'landscape', 'portrait', 'square')),
  fill text not null check (fill in ('blur', 'black')),
  ken_burns boolean not null,
  show_title boolean not null,
  captions text not null check (captions in ('none', 'caption', 'date')),
  skip_broken boolean not null,
  estimated_duration_sec double precision not null,
  status text not null default 'processing' check (status in ('processing', 'completed', 'failed')),
  -- Bumped by every change: aggregate_version.
  version integer not null default 1,
  -- A generation is one deliberate render; attempts count its pods.
  generation integer not null default 1,
  render_state text not null default 'queued' check (render_state in ('queued', 'running', 'succeeded', 'failed')),
  render_attempts integer not null default 0,
  render_started_at timestamptz,
  render_progress jsonb,
  -- Prefix of the generation whose film is served; null until something is playable, and once the film is withdrawn.
  output_prefix text,
  hls_master text,
  webp_file text,
  thumb_file text,
  placeholder text,
  duration_sec double precision,
  -- Where each item is in the film (camelCase, lib/contract/highlight-manifest.ts).
  manifest jsonb,
  error jsonb,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  finished_at timestamptz,
  deleted_at timestamptz,
  deleted_by uuid references users,
  -- When the worker next deletes what is below its prefix: a pod on a lost node may write long after its resource was
  -- deleted. Null when the film stays, and after the last look at a film that was withdrawn; after the last look at a
  -- deleted highlight the row is deleted.
  purge_at timestamptz,
  -- Until then no other worker purges it.
  purge_lease_until timestamptz,
  -- How often the prefix has been found empty.
  purge_looks integer not null default 0
);
create index highlights_of_org on highlights (org_id, created_at desc, id desc) where deleted_at is null;
create index highlights_of_creator on highlights (org_id, created_by, created_at desc, id desc) where deleted_at is null;
create index highlights_in_album on highlights (album_id, created_at desc, id desc) where deleted_at is null;
-- For the foreign key: the deletion of an album looks at the deleted ones as well.
create index highlights_of_album on highlights (album_id) where album_id is not null;
-- What the sweep and the purge look at: few rows, whatever the size of the table.
create index highlights_unfinished on highlights (updated_at) where status = 'processing' and deleted_at is null;
create index highlights_to_purge on highlights (purge_at) where purge_at is not null;

-- What the film is made of, as it was chosen. Media items are named without a foreign key: the film outlives the purge of
-- its sources, and says what they were.
create table highlight_items (
  highlight_id uuid not null references highlights on delete cascade,
  position integer not null check (position >= 0),
  org_id uuid not null references organizations,
  media_id uuid not null,
  -- The media item whose original is used: of a Live Photo, its video.
  source_id uuid not null,
  uploader_id uuid not null references users,
  type text not null check (type in ('image', 'video', 'motion')),
  seconds double precision not null check (seconds > 0),
  caption text not null,
  primary key (highlight_id, position),
  unique (highlight_id, media_id)
);
create index highlight_items_of_media on highlight_items (media_id);
create index highlight_items_of_source on highlight_items (source_id);
create index highlight_items_of_uploader on highlight_items (uploader_id);

select guard_tenant('highlights');
select guard_tenant('highlight_items');
grant select, insert, update on highlights to keepsake_api;
grant select, insert on highlight_items to keepsake_api;
grant select, insert, update, delete on highlights, highlight_items to keepsake_worker;
