-- migrate: statement by statement
-- The names of those who were members before migration 0107, five hundred at a time, while programs read and write.
set lock_timeout = '2s';

do $$
declare
  after_org uuid := '00000000-0000-0000-0000-000000000000';
  after_user uuid := after_org;
  upto_org uuid;
  upto_user uuid;
begin
  loop
    select org_id, user_id into upto_org, upto_user from (
      select org_id, user_id from memberships where (org_id, user_id) > (after_org, after_user)
        order by org_id, user_id limit 500) batch
      order by org_id desc, user_id desc limit 1;
    exit when upto_org is null;
    begin
      -- Locks the memberships before the accounts, as the programs do.
      insert into member_names (org_id, user_id, joined_at)
        select org_id, user_id, joined_at from memberships
          where (org_id, user_id) > (after_org, after_user) and (org_id, user_id) <= (upto_org, upto_user)
          order by org_id, user_id
        on conflict do nothing;
      -- Waits for transactions that change names. Those that come later wait for this one, and find the rows.
      perform from users where id in (
        select user_id from memberships
          where (org_id, user_id) > (after_org, after_user) and (org_id, user_id) <= (upto_org, upto_user))
        order by id for share;
      update member_names n set name = searchable(u.display_name) from memberships m join users u on u.id = m.user_id
        where (m.org_id, m.user_id) > (after_org, after_user) and (m.org_id, m.user_id) <= (upto_org, upto_user)
          and n.org_id = m.org_id and n.user_id = m.user_id and n.name is distinct from searchable(u.display_name);
      after_org := upto_org;
      after_user := upto_user;
    exception when foreign_key_violation then
      -- A member has left meanwhile: the same ones again.
      null;
    end;
    commit;
  end loop;
end $$;

vacuum analyze member_names;

set lock_timeout = 0;

-- No search of this version uses it. Earlier ones read the names of the organization instead.
drop index concurrently if exists users_by_name;
