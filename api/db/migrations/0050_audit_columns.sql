-- migrate: statement by statement
-- Prepares audit_log for its daily partitions while programs of the version before insert: new columns, which take no
-- rewrite, and every index that the partitioned table has. An index that were missing would be built during the switch
-- (0052), under a lock that stops all changes. Each statement may run again after an interruption.

set lock_timeout = '2s';

-- Entries of before have txid 0 and serial 0. The columns decide in which order entries are sealed.
alter table audit_log
  add column if not exists txid xid8 not null default '0',
  add column if not exists serial bigint not null default 0,
  add column if not exists personal bytea,
  add column if not exists key_version integer,
  add column if not exists address_index bytea;

-- An interrupted build leaves an index that is not valid.
drop index concurrently if exists audit_log_before_pkey;

create unique index concurrently audit_log_before_pkey on audit_log (occurred_at, id);

drop index concurrently if exists audit_log_before_by_actor;

create index concurrently audit_log_before_by_actor on audit_log (actor_id, occurred_at desc, id desc);

drop index concurrently if exists audit_log_before_by_org;

create index concurrently audit_log_before_by_org on audit_log (org_id, occurred_at desc, id desc);

drop index concurrently if exists audit_log_before_by_txid;

create index concurrently audit_log_before_by_txid on audit_log (txid, serial);
