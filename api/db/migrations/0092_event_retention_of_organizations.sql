-- How long an organization keeps archived events, where it is longer than the policy.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

alter table organizations
  add column event_retention_years integer check (event_retention_years between 1 and 30);

create policy tenant_settings on organizations for update to keepsake_api
  using (id = nullif(current_setting('app.org', true), '')::uuid)
  with check (id = nullif(current_setting('app.org', true), '')::uuid);
grant update (event_retention_years) on organizations to keepsake_api;

-- The same for those who are no members, such as guests of an event. Runs as the owner of the table.
create function event_retention_of(organization uuid) returns interval language sql stable security definer
  set search_path = public, pg_temp as
  'select make_interval(years => o.event_retention_years) from organizations o where o.id = organization';
revoke execute on function event_retention_of(uuid) from public;
grant execute on function event_retention_of(uuid) to keepsake_api, keepsake_worker;
