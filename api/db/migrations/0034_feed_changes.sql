-- Event streams end with the sign-in and with the membership: every replica hears at once whom that concerns. Both are
-- rare, so the lock that notifying transactions take at their commit delays nobody else.
create function access_notify() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    perform pg_notify('access', user_id::text) from (select distinct user_id from gone) changed;
  else
    perform pg_notify('access', user_id::text) from (select distinct user_id from added) changed;
  end if;
  return null;
end $$;
create trigger access_notify_added after insert on memberships referencing new table as added
  for each statement execute function access_notify();
create trigger access_notify_gone after delete on memberships referencing old table as gone
  for each statement execute function access_notify();

create function sign_out_notify() returns trigger language plpgsql as $$
begin
  perform pg_notify('access', new.id::text);
  return null;
end $$;
create trigger sign_out_notify after update of tokens_not_before on users for each row
  when (old.tokens_not_before is distinct from new.tokens_not_before) execute function sign_out_notify();

-- The versions of the feeds of these organizations, and nothing else of them: a replica that was notified reads them for
-- all its streams at once. It runs as the owner of the table, whom forced row-level security concerns too: hence the
-- policy.
do $$
declare
  place text := quote_ident(current_schema()) || '.feed_versions';
begin
  execute format('create policy lookup on feed_versions for select to %I using (true)', current_user);
  execute format($f$create function feed_numbers(orgs uuid[]) returns table (org_id uuid, n bigint)
    language sql stable security definer set search_path = pg_catalog, pg_temp as $q$
    select v.org_id, v.n from %s v where v.org_id = any(orgs)
  $q$ $f$, place);
end $$;
revoke execute on function feed_numbers(uuid[]) from public;
grant execute on function feed_numbers(uuid[]) to keepsake_api;
