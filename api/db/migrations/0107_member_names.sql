-- The names of the members of each organization, as a search compares them, side by side in one index. Triggers keep them: every
-- version of the programs writes memberships and users, and none writes these rows. Migration 0108 adds those of the members
-- that there are.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

-- Not columns of the membership: a transaction that removes a member locks the membership and then the account, and one that
-- changes a name, which has the account locked, would wait for it.
create table member_names (
  org_id uuid not null,
  user_id uuid not null,
  -- Of the membership, which never changes it.
  joined_at timestamptz not null,
  -- searchable(users.display_name). Null without a name.
  name text,
  -- By user, for who changes a name; what lies in an organization is read in the order of lists.
  primary key (user_id, org_id),
  foreign key (org_id, user_id) references memberships on delete cascade
);
create index member_names_listed on member_names (org_id, joined_at desc, user_id desc) include (name);
select guard_tenant('member_names');
grant select on member_names to keepsake_api;

-- The triggers run as the owner of the tables: a sign-in, which brings the name, has no organization in its scope.
do $$
begin
  execute format('create policy names on member_names to %I using (true) with check (true)', current_user);
end $$;

create function add_member_name() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
declare
  known text;
begin
  -- Waits for a transaction that changes the name. One that comes later waits for this one, and finds the row.
  select display_name into known from users where id = new.user_id for share;
  insert into member_names (org_id, user_id, joined_at, name)
    values (new.org_id, new.user_id, new.joined_at, searchable(known));
  return null;
end $$;
revoke execute on function add_member_name() from public;
create trigger add_member_name after insert on memberships for each row execute function add_member_name();

create function change_member_names() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  update member_names set name = searchable(new.display_name) where user_id = new.id;
  return null;
end $$;
revoke execute on function change_member_names() from public;
create trigger change_member_names after update on users for each row
  when (old.display_name is distinct from new.display_name) execute function change_member_names();
