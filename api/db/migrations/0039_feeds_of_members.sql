-- Feeds show the names of members: a name that changes, and a member who leaves, whose name is shown no more, change the
-- feeds of their organizations. No event announces either.

-- They run as the owner of the tables: a sign-in, which brings the name, has no organization in its scope.
do $$
begin
  execute format('create policy names on feed_versions to %I using (true) with check (true)', current_user);
end $$;

-- As bump_feed for a feed that has a version; one without has no items. No row is inserted: its reference would lock the
-- organization, after the membership, and so would deadlock with those who lock both in their order.
create function bump_known_feed(org uuid) returns void language sql as $$
  update feed_versions set n = n + 1 where org_id = org;
  select pg_notify('feed', org::text);
$$;

create function feeds_of_member_changed() returns trigger language plpgsql security definer
  set search_path = public, pg_temp as $$
begin
  if tg_op = 'DELETE' then
    perform bump_known_feed(old.org_id);
  else
    -- In order, as the consumer bumps them: transactions that lock several organizations would deadlock otherwise.
    perform bump_known_feed(own.org_id) from (
      select m.org_id from memberships m where m.user_id = new.id order by m.org_id offset 0) own;
  end if;
  return null;
end $$;
revoke execute on function feeds_of_member_changed() from public;

create constraint trigger feeds_renamed after update on users deferrable initially deferred
  for each row when (old.display_name is distinct from new.display_name) execute function feeds_of_member_changed();
create constraint trigger feeds_left after delete on memberships deferrable initially deferred
  for each row execute function feeds_of_member_changed();
