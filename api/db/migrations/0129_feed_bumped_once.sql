-- A commit that changed many rows, as the purge of an event with all of its reactions, updated the version of one feed once for
-- each: every update walks over the dead versions of the row before it, while all other changes of the organization wait.
-- Readers see what the commit changed at once, so one update is enough. The setting ends with the transaction, and a
-- savepoint that is rolled back takes it back with the update.
create or replace function feed_changed() returns trigger language plpgsql as $$
declare
  org uuid := case tg_op when 'DELETE' then old.org_id else new.org_id end;
begin
  if current_setting('app.feed_bumped', true) is not distinct from org::text then return null; end if;
  -- Unless the organization itself is being deleted.
  perform bump_feed(o.id) from organizations o where o.id = org;
  if found then perform set_config('app.feed_bumped', org::text, true); end if;
  return null;
end $$;
