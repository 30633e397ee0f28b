-- What every feature's migration uses for a table of its own, and what requests need besides.

-- Row-level security of a table with a column org_id: keepsake_api sees the rows of app.org, keepsake_worker all.
create function guard_tenant(target regclass) returns void language plpgsql as $$
begin
  execute format('alter table %s enable row level security', target);
  execute format('alter table %s force row level security', target);
  execute format($p$create policy tenant on %s to keepsake_api
    using (org_id = nullif(current_setting('app.org', true), '')::uuid)
    with check (org_id = nullif(current_setting('app.org', true), '')::uuid)$p$, target);
  execute format('create policy worker on %s to keepsake_worker using (true) with check (true)', target);
end $$;
revoke execute on function guard_tenant(regclass) from public;

-- Makes `organization_of_<table>(id)`, which tells keepsake_api the organization of a row and nothing else. It runs as
-- the owner of the table, whom forced row-level security concerns too: hence the policy.
create function make_organization_lookup(target regclass) returns void language plpgsql as $$
declare
  place text := (select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.oid = target);
  lookup text := (select format('%I.%I', n.nspname, 'organization_of_' || c.relname)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = target);
begin
  execute format('create policy lookup on %s for select to %I using (true)', place, current_user);
  execute format($f$create function %s(id uuid) returns uuid language sql stable security definer
    set search_path = pg_catalog, pg_temp as 'select org_id from %s where id = $1'$f$, lookup, place);
  execute format('revoke execute on function %s(uuid) from public', lookup);
  execute format('grant execute on function %s(uuid) to keepsake_api', lookup);
end $$;
revoke execute on function make_organization_lookup(regclass) from public;

select make_organization_lookup('media');

-- Nothing is kept under an Idempotency-Key for a refusal: its row goes, and so do the refusals kept so far.
grant delete on idempotency_keys to keepsake_api;
delete from idempotency_keys where response ? 'problem';
