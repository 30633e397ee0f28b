-- migrate: statement by statement
-- What a search of names compares, the same for every version of Postgres: `lower` writes a final sigma, and the lower case of
-- the Turkish İ, in one way with the built-in collation and in another with that of ICU. Now every sigma is one letter, and
-- so is every i, with a dot or without.

-- No one waits behind this for longer; the migration is tried again.
set lock_timeout = '2s';

do $$
declare folding text := coalesce(
  (select quote_ident(collname) from pg_collation where collname in ('pg_c_utf8', 'und-x-icu')
    and collnamespace = 'pg_catalog'::regnamespace and collencoding in (-1, pg_char_to_encoding(getdatabaseencoding()))
    order by collname limit 1),
  '"default"');
begin
  -- Transactions that have written names in the old form end before. Those that come later use the new function.
  lock table member_names in share row exclusive mode;
  -- The collation as in 0011.
  execute format($f$create or replace function searchable(name text) returns text language sql immutable strict parallel safe
    as $q$select replace(translate(lower(normalize($1, NFC) collate pg_catalog.%s), U&'\03C2\0131', U&'\03C3i'),
      U&'i\0307', 'i')$q$ $f$, folding);
end $$;

-- The names of before, five hundred at a time, while programs read and write. Until its turn, a name with one of the letters
-- that are now compared in another way is not found.
do $$
declare
  after_user uuid := '00000000-0000-0000-0000-000000000000';
  after_org uuid := after_user;
  upto_user uuid;
  upto_org uuid;
begin
  loop
    select user_id, org_id into upto_user, upto_org from (
      select user_id, org_id from member_names where (user_id, org_id) > (after_user, after_org)
        order by user_id, org_id limit 500) batch
      order by user_id desc, org_id desc limit 1;
    exit when upto_user is null;
    -- In order: a transaction that changes a name has several rows, too.
    perform from member_names
      where (user_id, org_id) > (after_user, after_org) and (user_id, org_id) <= (upto_user, upto_org)
        and name is distinct from searchable(name)
      order by user_id, org_id for no key update;
    -- What is folded in the old way and then in the new one is the same as what is folded in the new way only.
    update member_names set name = searchable(name)
      where (user_id, org_id) > (after_user, after_org) and (user_id, org_id) <= (upto_user, upto_org)
        and name is distinct from searchable(name);
    after_user := upto_user;
    after_org := upto_org;
    commit;
  end loop;
end $$;

set lock_timeout = 0;
