-- Timeline items: what members did, newest first, in the timeline of an organization, of a person, and in feeds.

create table timeline_items (
  -- Derived from the cause (timeline_item_id), so that a cause that arrives again has the same row.
  id uuid primary key,
  org_id uuid not null references organizations on delete cascade,
  type text not null check (type in ('event_created', 'event_activated', 'album_created', 'album_updated', 'media_uploaded',
    'member_joined', 'reaction_added', 'comment_posted')),
  actor_id uuid not null,
  ref_type text not null check (ref_type in ('event', 'album', 'media', 'user', 'comment', 'reaction')),
  ref_id uuid not null,
  -- The position, written once: a page that was read stays as it was. To the millisecond, as events have it.
  at timestamptz not null,
  -- What a member did many times within six hours is one item, a burst: the time at which its six hours begin.
  bucket timestamptz,
  -- Of album_updated: what was changed.
  change text check (change in ('media_added', 'details')),
  -- A reader who may not see these does not see the item.
  event_id uuid references events on delete cascade,
  album_id uuid references albums on delete cascade,
  -- Of items that a service inserted; others get theirs when they are read.
  summary text,
  hidden_at timestamptz,
  check ((type = 'album_updated') >= (change is not null))
);
create index timeline_items_of_org on timeline_items (org_id, at desc, id desc) where hidden_at is null;
create index timeline_items_of_actor on timeline_items (org_id, actor_id, at desc, id desc) where hidden_at is null;
-- For the cascades.
create index timeline_items_of_event on timeline_items (event_id) where event_id is not null;
create index timeline_items_of_album on timeline_items (album_id) where album_id is not null;

-- What a burst counts and shows, decided when it is read.
create index media_of_uploader on media (org_id, uploader_id, created_at desc, id desc) include (listed);
create index album_media_of_adder on album_media (album_id, added_by, added_at desc, media_id desc) include (listed);

select guard_tenant('timeline_items');
select make_organization_lookup('timeline_items');
grant select, insert, update on timeline_items to keepsake_api;
grant select, insert, update, delete on timeline_items to keepsake_worker;

-- A feed reads all organizations of app.user. The array is made once per query and not once per row.
create policy members on timeline_items for select to keepsake_api using (org_id = any (array(
  select m.org_id from memberships m where m.user_id = nullif(current_setting('app.user', true), '')::uuid)));
create policy members on feed_versions for select to keepsake_api using (org_id = any (array(
  select m.org_id from memberships m where m.user_id = nullif(current_setting('app.user', true), '')::uuid)));

-- A UUID of version 8 (RFC 9562): 122 bits of a hash of what caused the item.
create function timeline_item_id(variadic cause text[]) returns uuid language sql immutable strict parallel safe as $$
  select (left(h, 12) || '8' || substr(h, 14, 3) || '8' || substr(h, 18, 15))::uuid
  from encode(sha256(convert_to(array_to_string(array['keepsake.timeline.v1'] || cause, '|'), 'UTF8')), 'hex') h
$$;

create function timeline_bucket(at timestamptz) returns timestamptz language sql immutable strict parallel safe as $$
  select date_bin('6 hours', at, timestamptz '2000-01-01 00:00:00+00')
$$;

-- ---------------------------------------------------------------- what a reader may see

-- The facts about items on which the policies decide, and what a page shows of them, for the organizations of app.user and
-- app.org. Row-level security shows the other tables to keepsake_api one organization at a time, so this runs as the owner
-- of the tables, whom forced row-level security concerns too: hence the policies.
do $$
declare t text;
begin
  foreach t in array array['events', 'event_participants', 'albums', 'album_media', 'media', 'comments', 'reactions',
    'timeline_items', 'memberships'] loop
    execute format('create policy timeline on %I for select to current_user using (true)', t);
  end loop;
end $$;

create function timeline_facts(reader uuid, wanted uuid[]) returns table (
  id uuid, org_id uuid, type text, actor_id uuid, ref_type text, ref_id uuid, at timestamptz, change text, summary text,
  event_id uuid, album_id uuid, role text, actor_name text, event jsonb, album jsonb, about jsonb, total integer, media jsonb
) language plpgsql stable security definer set search_path = public, pg_temp set jit = off as $$
declare
  caller constant uuid := nullif(current_setting('app.user', true), '')::uuid;
  organization constant uuid := nullif(current_setting('app.org', true), '')::uuid;
begin
  return query
  select i.id, i.org_id, i.type, i.actor_id, i.ref_type, i.ref_id, i.at, i.change, i.summary, i.event_id, i.album_id,
    me.role, u.display_name,
    case when e.id is not null then
      jsonb_build_object('ownerId', e.owner_id, 'status', e.status, 'title', e.title) end,
    case when a.id is not null then
      jsonb_build_object('id', a.id, 'ownerId', a.owner_id, 'status', a.status, 'visibility', a.visibility, 'title', a.title,
        'isParticipant', exists (select from event_participants p
          where p.event_id = a.event_id and p.user_id = reader and p.status = 'accepted')) end,
    said.about, coalesce(burst.total, 0), burst.newest
  from unnest(wanted) w (id)
  join timeline_items i on i.id = w.id
  join memberships me on me.org_id = i.org_id and me.user_id = reader
  left join memberships of_actor on of_actor.org_id = i.org_id and of_actor.user_id = i.actor_id
  left join users u on u.id = of_actor.user_id
  left join events e on e.id = i.event_id
  left join lateral (
    select own.* from albums own where own.id = i.album_id
    union all select of_event.* from albums of_event where i.album_id is null and of_event.event_id = i.event_id
  ) a on true
  -- What the item is about, where that can end by itself; null when it has ended.
  left join lateral (
    select jsonb_build_object('audience', c.audience, 'on', c.target_type) as about from comments c
      where i.ref_type = 'comment' and c.id = i.ref_id and c.deleted_at is null
        and (c.media_id is null or exists (select from media m where m.id = c.media_id and m.deleted_at is null))
    union all
    select jsonb_build_object('audience', r.audience, 'on', r.target_type, 'emoji', r.emoji) from reactions r
      where i.ref_type = 'reaction' and r.id = i.ref_id and r.event_id = i.event_id
        and case r.target_type
          when 'media' then exists (select from media m where m.id = r.target_id and m.deleted_at is null)
          when 'comment' then exists (select from comments c where c.id = r.target_id and c.deleted_at is null
            and (c.media_id is null or exists (select from media m where m.id = c.media_id and m.deleted_at is null)))
          else true end
    union all
    select '{}'::jsonb where i.type = 'member_joined' and date_trunc('milliseconds', of_actor.joined_at) = i.at
  ) said on true
  left join lateral (
    select count(*)::integer as total, (select jsonb_agg(to_jsonb(shown) order by shown."createdAt" desc, shown.id desc) from (
        select m.id, m.org_id as "orgId", m.kind, m.created_at as "createdAt", m.output_prefix as "outputPrefix", m.hls_master as "hlsMaster",
          m.image_file as "imageFile", m.image_is_original as "imageIsOriginal", m.webp_file as "webpFile",
          m.thumb_file as "thumbFile", m.placeholder
        from media m where m.org_id = i.org_id and m.uploader_id = i.actor_id and m.created_at >= i.bucket
          and m.created_at < i.bucket + interval '6 hours' and m.listed
        order by m.created_at desc, m.id desc limit 4) shown) as newest
    from (select from media m where m.org_id = i.org_id and m.uploader_id = i.actor_id and m.created_at >= i.bucket
      and m.created_at < i.bucket + interval '6 hours' and m.listed limit 10001) counted
    where i.type = 'media_uploaded' and i.bucket is not null
    having i.type = 'media_uploaded' and i.bucket is not null
    union all
    select count(*)::integer, (select jsonb_agg(to_jsonb(shown) - 'addedAt' order by shown."addedAt" desc, shown.id desc) from (
        select m.id, m.org_id as "orgId", m.kind, m.created_at as "createdAt", m.output_prefix as "outputPrefix", m.hls_master as "hlsMaster",
          m.image_file as "imageFile", m.image_is_original as "imageIsOriginal", m.webp_file as "webpFile",
          m.thumb_file as "thumbFile", m.placeholder, am.added_at as "addedAt"
        from album_media am join media m on m.id = am.media_id
        where am.album_id = i.album_id and am.added_by = i.actor_id and am.added_at >= i.bucket
          and am.added_at < i.bucket + interval '6 hours' and am.listed
        order by am.added_at desc, am.media_id desc limit 4) shown)
    from (select from album_media am where am.album_id = i.album_id and am.added_by = i.actor_id and am.added_at >= i.bucket
      and am.added_at < i.bucket + interval '6 hours' and am.listed limit 10001) counted
    where i.change = 'media_added' having i.change = 'media_added'
    union all
    -- One media item that a service told of.
    select 1, jsonb_build_array(to_jsonb(shown)) from (
      select m.id, m.org_id as "orgId", m.kind, m.created_at as "createdAt", m.output_prefix as "outputPrefix", m.hls_master as "hlsMaster",
        m.image_file as "imageFile", m.image_is_original as "imageIsOriginal", m.webp_file as "webpFile",
        m.thumb_file as "thumbFile", m.placeholder
      from media m where i.ref_type = 'media' and i.bucket is null and m.id = i.ref_id and m.org_id = i.org_id and m.listed
    ) shown
  ) burst on true
  where (reader = caller or i.org_id = organization) and i.hidden_at is null;
end $$;
revoke execute on function timeline_facts(uuid, uuid[]) from public;
grant execute on function timeline_facts(uuid, uuid[]) to keepsake_api;

-- ---------------------------------------------------------------- changes that no event announces

-- Feeds show other items after it, or the same ones otherwise. Deferred to the commit, because bump_feed locks the row of
-- the organization until then.
create function feed_changed() returns trigger language plpgsql as $$
begin
  -- Unless the organization itself is being deleted.
  perform bump_feed(o.id) from organizations o where o.id = case tg_op when 'DELETE' then old.org_id else new.org_id end;
  return null;
end $$;
create constraint trigger feed_changed after delete on reactions deferrable initially deferred
  for each row execute function feed_changed();
create constraint trigger feed_changed after update on comments deferrable initially deferred
  for each row when (old.deleted_at is distinct from new.deleted_at) execute function feed_changed();
create constraint trigger feed_changed after update on events deferrable initially deferred
  for each row when (old.title is distinct from new.title or old.owner_id <> new.owner_id) execute function feed_changed();
create constraint trigger feed_restored after update on media deferrable initially deferred
  for each row when (old.deleted_at is not null and new.deleted_at is null) execute function feed_changed();
create constraint trigger feed_changed after update on event_participants deferrable initially deferred
  for each row when ((old.status = 'accepted') <> (new.status = 'accepted')) execute function feed_changed();
create constraint trigger feed_joined after insert on event_participants deferrable initially deferred
  for each row when (new.status = 'accepted') execute function feed_changed();
create constraint trigger feed_left after delete on event_participants deferrable initially deferred
  for each row when (old.status = 'accepted') execute function feed_changed();
