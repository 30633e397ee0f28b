-- Pieces of highlights, which are kept for later ones: how large they are, and who used them last. Highlights and pieces count
-- in what a user stores.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

-- Charges one user; like charge_user of migration 0004.
create function charge_films(charged uuid, more_highlight bigint, more_piece bigint)
returns void language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if charged is null or (more_highlight = 0 and more_piece = 0) then return; end if;
  insert into user_storage (user_id) values (charged) on conflict do nothing;
  update user_storage set highlight_bytes = highlight_bytes + more_highlight, piece_bytes = piece_bytes + more_piece
    where user_id = charged;
end $$;
revoke all on function charge_films from public;

-- What a film takes in the store, as its manifest says; nothing once it is deleted or withdrawn.
create function film_bytes(manifest jsonb, deleted_at timestamptz) returns bigint language sql immutable as $$
  select case when manifest is null or deleted_at is not null then 0 else
    coalesce((select sum((rendition ->> 'bytes')::bigint) from jsonb_array_elements(manifest #> '{hls,renditions}') rendition), 0)
    + coalesce((manifest #>> '{images,webp,bytes}')::bigint, 0) + coalesce((manifest #>> '{images,thumb,bytes}')::bigint, 0) end
$$;

-- What there is already, while writers of highlights go on.
create temporary table films on commit drop as
  select id, ctid as place, xmin::text as writer, film_bytes(manifest, deleted_at) as bytes from highlights
    where manifest is not null;
analyze films;

create function highlights_storage() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if tg_op <> 'INSERT' then
    perform charge_films(old.created_by, -film_bytes(old.manifest, old.deleted_at), 0);
  end if;
  if tg_op <> 'DELETE' then
    perform charge_films(new.created_by, film_bytes(new.manifest, new.deleted_at), 0);
  end if;
  return null;
end $$;
create trigger highlights_storage_changed after update of manifest, deleted_at, created_by on highlights for each row
  when ((old.manifest, old.deleted_at is null, old.created_by) is distinct from (new.manifest, new.deleted_at is null, new.created_by))
  execute function highlights_storage();
create trigger highlights_storage_removed after delete on highlights for each row execute function highlights_storage();
create trigger highlights_storage_added after insert on highlights for each row when (new.manifest is not null)
  execute function highlights_storage();

-- From the triggers on, writers of highlights wait: what was written meanwhile is computed again, the rest is added up.
create temporary table film_sums on commit drop as
  select h.created_by as user_id, sum(coalesce(f.bytes, film_bytes(h.manifest, h.deleted_at))) as bytes
    from highlights h left join films f on f.id = h.id and f.place = h.ctid and f.writer = h.xmin::text
    where h.manifest is not null group by h.created_by;

-- Behind it, since the tables that others write to are changed from here on.
alter table user_storage
  -- Of the films of the user's highlights.
  add column highlight_bytes bigint not null default 0 check (highlight_bytes >= 0),
  -- Of the pieces that the user's highlights used last.
  add column piece_bytes bigint not null default 0 check (piece_bytes >= 0);

insert into user_storage (user_id, highlight_bytes) select user_id, bytes from film_sums
  on conflict (user_id) do update set highlight_bytes = excluded.highlight_bytes;

-- One row per source whose pieces a highlight has used. They lie below the prefix of the media item, and go with it.
create table media_pieces (
  media_id uuid primary key references media on delete cascade,
  org_id uuid not null references organizations on delete cascade,
  -- Who made the highlight that used them last; null after an erasure.
  used_by uuid references users,
  used_at timestamptz not null,
  bytes bigint not null default 0 check (bytes >= 0),
  -- Null: a highlight has begun or ended since, and they have another size.
  measured_at timestamptz,
  lease_at timestamptz not null default '-infinity',
  lease_token uuid
);
create index media_pieces_due on media_pieces (used_at, lease_at);
create index media_pieces_leased on media_pieces (lease_at) where lease_token is not null;
create index media_pieces_unmeasured on media_pieces (lease_at) where measured_at is null;
create index media_pieces_of_user on media_pieces (used_by) where used_by is not null;
-- For the sums that have a bound.
create index media_pieces_of_organization on media_pieces (org_id, used_at) include (bytes);
select guard_tenant('media_pieces');
grant select, insert, update, delete on media_pieces to keepsake_worker;

create function pieces_storage() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  -- In the order of ids: two pieces may change hands in opposite directions.
  if tg_op = 'UPDATE' and new.used_by < old.used_by then
    perform charge_films(new.used_by, 0, new.bytes);
    perform charge_films(old.used_by, 0, -old.bytes);
    return null;
  end if;
  if tg_op <> 'INSERT' then perform charge_films(old.used_by, 0, -old.bytes); end if;
  if tg_op <> 'DELETE' then perform charge_films(new.used_by, 0, new.bytes); end if;
  return null;
end $$;
create trigger pieces_storage_changed after update of used_by, bytes on media_pieces for each row
  when ((old.used_by, old.bytes) is distinct from (new.used_by, new.bytes)) execute function pieces_storage();
create trigger pieces_storage_removed after delete on media_pieces for each row execute function pieces_storage();
create trigger pieces_storage_added after insert on media_pieces for each row execute function pieces_storage();

-- A render has begun or ended: it may have used and made pieces of all that it shows. In the order of ids, like other
-- highlights of the same sources.
create function note_pieces() returns trigger language plpgsql as $$
begin
  insert into media_pieces (media_id, org_id, used_by, used_at)
    select distinct m.id, m.org_id, new.created_by, app_now()
      from highlight_items i join media m on m.id = i.source_id
      where i.highlight_id = new.id and i.skipped is null order by m.id
    on conflict (media_id) do update set used_by = excluded.used_by, used_at = excluded.used_at, measured_at = null;
  return null;
end $$;
create trigger note_pieces after update of render_admitted_at, status on highlights for each row
  when (new.render_admitted_at is not null
    and (old.render_admitted_at is null or (old.status = 'processing' and new.status <> 'processing')))
  execute function note_pieces();
