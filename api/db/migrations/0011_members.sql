-- Lists of members, the search for names, and connections.

-- The order of the list: latest first.
create index memberships_listed on memberships (org_id, joined_at desc, user_id desc);
-- Locked by every change of a role and every end of a membership.
create index memberships_owners on memberships (org_id, user_id) where role = 'owner';

-- ---------------------------------------------------------------- names

-- What a search compares: composed, in lower case. The collation is fixed here, because the one of the database may know
-- no letters besides ASCII; the built-in one, since version 17, does not change with the operating system.
do $$
declare folding text := coalesce(
  (select quote_ident(collname) from pg_collation where collname in ('pg_c_utf8', 'und-x-icu')
    and collnamespace = 'pg_catalog'::regnamespace and collencoding in (-1, pg_char_to_encoding(getdatabaseencoding()))
    order by collname limit 1),
  '"default"');
begin
  execute format($f$create function searchable(name text) returns text language sql immutable strict parallel safe
    as 'select lower(normalize($1, NFC) collate pg_catalog.%s)'$f$, folding);
end $$;

-- An optimization that some servers do not offer, or not to the role that migrates.
do $$
declare place text;
begin
  begin
    create extension if not exists pg_trgm;
  exception when insufficient_privilege or undefined_file or feature_not_supported then
    raise notice 'pg_trgm is not available: names are searched without an index';
  end;
  select quote_ident(n.nspname) into place
    from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_trgm';
  if place is not null then
    execute format('create index users_by_name on users using gin (searchable(display_name) %s.gin_trgm_ops)', place);
  end if;
end $$;

-- For a search without the index above, which reads the names of an organization: without their rows it costs half.
create index users_names on users (id) include (display_name);

-- ---------------------------------------------------------------- connections

-- What keepsake_api learns of other members of the organizations of app.user, and nothing else. These functions run as
-- the owner of the table, whom forced row-level security concerns too: hence the policy.
do $$
declare
  place text := quote_ident(current_schema()) || '.memberships';
  -- As a subquery, it is evaluated once and not for each row.
  caller text := $c$(select nullif(current_setting('app.user', true), '')::uuid)$c$;
  own text := format('select org_id, joined_at from %s where user_id = %s', place, caller);
  definer text := 'language sql stable security definer set search_path = pg_catalog, pg_temp';
begin
  execute format('create policy lookup on memberships for select to %I using (true)', current_user);

  -- The organizations that the caller shares with this user, and when the caller joined them.
  execute format($f$create function shared_organizations(other uuid)
    returns table (org_id uuid, joined_at timestamptz) %1$s as $q$
    select own.org_id, own.joined_at from (%2$s) own
      join %3$s m on m.org_id = own.org_id and m.user_id = other
  $q$ $f$, definer, own, place);

  -- The next `wanted` users after this one, in order of id, each with all shared organizations. Reads at most `wanted`
  -- entries of the primary key for each organization of the caller, whatever their sizes.
  execute format($f$create function connected_members(after uuid, wanted integer)
    returns table (user_id uuid, org_id uuid, joined_at timestamptz) %1$s as $q$
    with own as materialized (%2$s),
    page as materialized (
      select distinct following.user_id from own cross join lateral (
        select m.user_id from %3$s m
          where m.org_id = own.org_id and m.user_id > after and m.user_id <> %4$s
          order by m.user_id limit wanted
      ) following order by following.user_id limit wanted
    )
    -- `offset 0` keeps the planner from reading all members of all these organizations instead.
    select page.user_id, own.org_id, own.joined_at from page
      cross join lateral (select m.org_id from %3$s m where m.user_id = page.user_id offset 0) of_user
      join own on own.org_id = of_user.org_id
  $q$ $f$, definer, own, place, caller);

  -- How many users the caller is connected with.
  execute format($f$create function count_connected_members() returns bigint %1$s as $q$
    select count(*) from (
      select distinct m.user_id from (%2$s) own join %3$s m on m.org_id = own.org_id and m.user_id <> %4$s
    ) connected
  $q$ $f$, definer, own, place, caller);
end $$;
revoke execute on function shared_organizations(uuid), connected_members(uuid, integer), count_connected_members()
  from public;
grant execute on function shared_organizations(uuid), connected_members(uuid, integer), count_connected_members()
  to keepsake_api;
