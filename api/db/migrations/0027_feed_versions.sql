-- Grows with every change of what the feed of an organization shows, once per transaction: what a poll compares, and the
-- position from which a stream of changes goes on.
create table feed_versions (
  org_id uuid primary key references organizations on delete cascade,
  n bigint not null default 1
);
select guard_tenant('feed_versions');
grant select, insert, update on feed_versions to keepsake_api;
grant select, insert, update, delete on feed_versions to keepsake_worker;

-- Call it last in the transaction: it locks the row of the organization until the commit. Postgres delivers the
-- notification at the commit, and notifications of the same text in one transaction once.
create function bump_feed(org uuid) returns void language sql as $$
  insert into feed_versions (org_id) values (org) on conflict (org_id) do update set n = feed_versions.n + 1;
  select pg_notify('feed', org::text);
$$;
