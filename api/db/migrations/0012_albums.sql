-- Albums, and the media items in them.

create table albums (
  id uuid primary key,
  org_id uuid not null references organizations,
  owner_id uuid not null references users,
  -- Never changes, so that a transaction can lock the event before the album.
  event_id uuid unique references events on delete cascade,
  title text not null,
  description text,
  visibility text not null default 'organization' check (visibility in ('organization', 'participants', 'private')),
  status text not null default 'DRAFT' check (status in ('DRAFT', 'PUBLIC', 'ARCHIVE')),
  -- The position of the media item that is added next.
  next_position bigint not null default 0,
  -- Bumped by every change: aggregate_version.
  version integer not null default 1,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  check (visibility <> 'participants' or event_id is not null)
);
-- A page merges one page of each kind of album that the caller sees, so that it reads no album of others in vain.
create index albums_of_org on albums (org_id, created_at desc, id desc);
create index albums_of_owner on albums (org_id, owner_id, created_at desc, id desc)
  where not (status = 'PUBLIC' and visibility = 'organization');
create index albums_for_members on albums (org_id, created_at desc, id desc)
  where status = 'PUBLIC' and visibility = 'organization';

-- A Live Photo is one row, its image.
create table album_media (
  album_id uuid not null references albums on delete cascade,
  media_id uuid not null references media on delete cascade,
  org_id uuid not null references organizations,
  -- The order of the album; far apart, so that what is moved fits in between (api/albums/plan.ts).
  position bigint not null,
  caption text,
  is_cover boolean not null default false,
  -- Whether the media item is not deleted. A trigger on media keeps it, so that a count reads one index.
  listed boolean not null,
  added_by uuid not null references users,
  added_at timestamptz not null default now(),
  primary key (album_id, media_id)
);
-- For pages and counts. With the organization, which row-level security asks for: so a count reads the index alone.
create index album_media_places on album_media (album_id, org_id, listed, position);
create index album_media_of_media on album_media (media_id, album_id);
create unique index album_media_cover on album_media (album_id) where is_cover;

select guard_tenant('albums');
select guard_tenant('album_media');
select make_organization_lookup('albums');
grant select, insert, update on albums to keepsake_api;
grant select, insert, update, delete on album_media to keepsake_api;
grant select, insert, update, delete on albums, album_media to keepsake_worker;

-- ---------------------------------------------------------------- changes of media
--
-- Whatever changes a media item holds its row, and then changes its rows here. Every transaction locks several rows of
-- album_media in order of media_id, then album_id, and locks nothing else after them.

-- A deleted media item keeps its places in albums, hidden, and has them again when it is restored.
create function hide_in_albums() returns trigger language plpgsql as $$
begin
  -- A restored half may be paired in the same transaction: the rows of its counterpart, which may have the lower id, are
  -- locked with its own.
  perform from album_media where media_id in (
    select new.id
    union select m.id from media m where new.deleted_at is null and m.deleted_at is null and m.org_id = old.org_id
      and m.uploader_id = old.uploader_id and m.live_photo_pair_id = old.live_photo_pair_id
    union select m.id from media m where new.deleted_at is null and m.deleted_at is null and m.org_id = old.org_id
      and m.uploader_id = old.uploader_id and m.asset_identifier = old.asset_identifier and m.paired_media_id is null
  ) order by media_id, album_id for update;
  update album_media set listed = new.deleted_at is null where media_id = new.id;
  return null;
end $$;
create trigger hide_in_albums after update on media for each row
  when ((old.deleted_at is null) <> (new.deleted_at is null)) execute function hide_in_albums();

-- The cascade of the purge would lock them in any order.
create function remove_from_albums() returns trigger language plpgsql as $$
begin
  perform from album_media where media_id = old.id order by album_id for update;
  return old;
end $$;
create trigger remove_from_albums before delete on media for each row execute function remove_from_albums();

-- When a Live Photo is paired, its image takes the places that its video had. Where an album has both halves, the place
-- of the image stays.
create function pair_in_albums() returns trigger language plpgsql as $$
declare image constant uuid := new.paired_media_id;
begin
  perform from album_media where media_id in (new.id, image) order by media_id, album_id for update;
  with removed as (
    delete from album_media v using album_media i
      where v.media_id = new.id and i.media_id = image and i.album_id = v.album_id
      returning v.album_id, v.caption, v.is_cover
  )
  update album_media i set caption = coalesce(i.caption, removed.caption), is_cover = i.is_cover or removed.is_cover
    from removed where i.album_id = removed.album_id and i.media_id = image;
  update album_media set media_id = image where media_id = new.id;
  return null;
end $$;
create trigger pair_in_albums after update on media for each row
  when (new.kind = 'video' and old.paired_media_id is null and new.paired_media_id is not null)
  execute function pair_in_albums();
