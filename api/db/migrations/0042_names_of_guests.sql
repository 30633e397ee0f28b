-- Timelines name guests of an event, too: participants who are no members. Otherwise as in 0029, with its policies and grants.
create or replace function timeline_facts(reader uuid, wanted uuid[]) returns table (
  id uuid, org_id uuid, type text, actor_id uuid, ref_type text, ref_id uuid, at timestamptz, change text, summary text,
  event_id uuid, album_id uuid, role text, actor_name text, event jsonb, album jsonb, about jsonb, total integer, media jsonb
) language plpgsql stable security definer set search_path = public, pg_temp set jit = off as $$
declare
  caller constant uuid := nullif(current_setting('app.user', true), '')::uuid;
  organization constant uuid := nullif(current_setting('app.org', true), '')::uuid;
begin
  return query
  select i.id, i.org_id, i.type, i.actor_id, i.ref_type, i.ref_id, i.at, i.change, i.summary, i.event_id, i.album_id,
    me.role,
    case when of_actor.user_id is not null then u.display_name else (select guest.display_name from event_participants p
      join users guest on guest.id = p.user_id
      where p.event_id = i.event_id and p.user_id = i.actor_id and p.status = 'accepted') end,
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
