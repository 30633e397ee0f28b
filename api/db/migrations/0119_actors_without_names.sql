-- Whether the actor of an item is a member, or a guest who takes part in its event, for actors of whom a timeline has no name.
-- For items that timeline_facts (0042) shows, and by the same organizations: of app.user and app.org.
create function is_present(organization uuid, event uuid, actor uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  caller constant uuid := nullif(current_setting('app.user', true), '')::uuid;
begin
  return (organization = nullif(current_setting('app.org', true), '')::uuid
      or exists (select from memberships m where m.org_id = organization and m.user_id = caller))
    and (exists (select from memberships m where m.org_id = organization and m.user_id = actor)
      or exists (select from event_participants p
        where p.event_id = event and p.org_id = organization and p.user_id = actor and p.status = 'accepted'));
end $$;
revoke execute on function is_present(uuid, uuid, uuid) from public;
grant execute on function is_present(uuid, uuid, uuid) to keepsake_api;
