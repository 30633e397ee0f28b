-- The events that a user takes part in, whether as a member or as a guest, latest first.

create index event_participants_joined on event_participants (user_id, joined_at desc, event_id desc)
  where status = 'accepted';

-- A guest has no membership by which row-level security would show anything, so this runs as the owner of the tables, whom
-- forced row-level security concerns too: hence the policy. The others have one since 0002, 0011 and 0029.
do $$
begin
  execute format('create policy names on organizations for select to %I using (true)', current_user);
end $$;

-- A page of the events of app.user, with the role there, which is null for a guest. Drafts are for those who manage them.
-- The look-ups have limits, which keep the planner from reading whole tables where it takes the page for a large one.
create function events_of_participant(wanted_status text, as_guest boolean, after_at timestamptz, after_id uuid,
  wanted integer)
returns table (event events, joined_at timestamptz, role text, org_name text, host_name text, participant_count integer,
  invitation_id uuid, reaction_counts jsonb, my_reaction jsonb, album jsonb)
language plpgsql stable security definer set search_path = public, pg_temp set jit = off as $$
declare
  caller constant uuid := nullif(current_setting('app.user', true), '')::uuid;
begin
  return query
  with page as materialized (
    select p.event_id, p.joined_at, own.role from event_participants p
      cross join lateral (select e.owner_id, e.status from events e where e.id = p.event_id limit 1) about
      left join lateral (select m.role from memberships m where m.org_id = p.org_id and m.user_id = caller limit 1) own on true
    where p.user_id = caller and p.status = 'accepted'
      and (p.joined_at, p.event_id)
        < (coalesce(after_at, 'infinity'), coalesce(after_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
      and (wanted_status is null or about.status = wanted_status)
      and (as_guest is null or (own.role is null) = as_guest)
      and (about.status <> 'draft' or own.role in ('owner', 'admin') or (own.role is not null and about.owner_id = caller))
    order by p.joined_at desc, p.event_id desc limit wanted
  )
  select e::events, page.joined_at, page.role,
    (select o.name from organizations o where o.id = e.org_id),
    (select u.display_name from memberships m join users u on u.id = m.user_id
      where m.org_id = e.org_id and m.user_id = e.owner_id),
    (select count(*)::integer from event_participants p where p.event_id = e.id and p.status = 'accepted'),
    (select i.id from invitations i where i.event_id = e.id and i.user_id = caller and i.status = 'pending'
      and e.status = 'active'),
    (select jsonb_object_agg(c.emoji, c.n) from (select r.emoji, count(*)::integer as n from reactions r
      where r.event_id = e.id and r.target_type = 'meta' and r.target_id = e.id group by r.emoji) c),
    (select jsonb_build_object('id', r.id, 'emoji', r.emoji) from reactions r
      where r.event_id = e.id and r.target_type = 'meta' and r.target_id = e.id and r.user_id = caller),
    (select jsonb_build_object('id', a.id, 'ownerId', a.owner_id, 'status', a.status, 'visibility', a.visibility)
      from albums a where a.event_id = e.id)
  from page cross join lateral (select * from events of_page where of_page.id = page.event_id limit 1) e
  order by page.joined_at desc, page.event_id desc;
end $$;
revoke execute on function events_of_participant(text, boolean, timestamptz, uuid, integer) from public;
grant execute on function events_of_participant(text, boolean, timestamptz, uuid, integer) to keepsake_api;
