-- Feeds show the names of members: a name that changes, and a member who leaves, whose name is shown no more, change the
-- feeds of their organizations. No event announces either.

-- They run as the owner of the tables: a sign-in, which brings the name, has no organization in its scope.
do $$
begin
  execute format('create policy names on feed_versions to %I using (true) with check (true)', current_user);
  execute format('create policy names on organizations for select to %I using (true)', current_user);
end $$;

create function feeds_of_member_changed() returns trigger language plpgsql security definer
  set search_path = public, pg_temp as $$
begin
  if tg_op = 'DELETE' then
    -- Unless the organization itself is being deleted.
    perform bump_feed(o.id) from organizations o where o.id = old.org_id;
  else
    -- In order, as the consumer bumps them: transactions that lock several organizations would deadlock otherwise.
    perform bump_feed(own.org_id) from (
      select m.org_id from memberships m where m.user_id = new.id order by m.org_id offset 0) own;
  end if;
  return null;
end $$;
revoke execute on function feeds_of_member_changed() from public;

create constraint trigger feeds_renamed after update on users deferrable initially deferred
  for each row when (old.display_name is distinct from new.display_name) execute function feeds_of_member_changed();
create constraint trigger feeds_left after delete on memberships deferrable initially deferred
  for each row execute function feeds_of_member_changed();
