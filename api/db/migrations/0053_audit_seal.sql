-- What the sealer of the audit log needs of the database (docs/adr/0053-audit-log.md).

-- A field of the canonical bytes: its length before it, -1 for null.
create function audit_field(bytea) returns bytea language sql immutable parallel safe as $$
  select case when $1 is null then '\xffffffff'::bytea else int4send(length($1)) || $1 end
$$;

-- The bytes of an entry that its link proves. Every field has a fixed length or its length before it, so two entries that
-- differ never have the same bytes. The first byte is the version of this form. Null for a row that is missing. Without
-- address_index, which other tiers leave out. The columns of versions before encryption are empty by then; they follow only
-- where they are not, so that nobody can fill them in a sealed entry.
create function audit_canonical(e audit_log) returns bytea language sql stable parallel safe as $$
  select '\x01'::bytea || uuid_send(e.id) || timestamptz_send(e.occurred_at) || xid8send(e.txid) || int8send(e.serial)
    || audit_field(uuid_send(e.org_id)) || audit_field(uuid_send(e.actor_id))
    || audit_field(textsend(e.action)) || audit_field(textsend(e.resource_type)) || audit_field(textsend(e.resource_id))
    || audit_field(textsend(e.result)) || audit_field(textsend(e.request_id)) || audit_field(textsend(e.client_request_id))
    || audit_field(jsonb_send(e.details)) || audit_field(e.personal) || audit_field(int4send(e.key_version))
    || case when e.ip_address is null and e.user_agent is null then ''::bytea
      else audit_field(textsend(e.ip_address)) || audit_field(textsend(e.user_agent)) end
$$;

-- Replaces what a version before encryption wrote in plain text. The sealer calls it before it seals the entries; it
-- changes no others. Null boxes are those of people whose keys were shredded.
create function audit_encrypt(ids uuid[], times timestamptz[], boxes bytea[], versions integer[], indexes bytea[])
returns void language sql security definer set search_path = pg_catalog, public, pg_temp as $$
  update public.audit_log e set personal = given.box, key_version = given.version, address_index = given.index,
    ip_address = null, user_agent = null
  from unnest(ids, times, boxes, versions, indexes) as given(id, at, box, version, index)
  where e.id = given.id and e.occurred_at = given.at and e.personal is null
    and (e.ip_address is not null or e.user_agent is not null)
$$;

-- Keeps inserts out until the end of the transaction, for the moment in which a restored log begins to count anew.
create function audit_lock() returns void
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
  lock table public.audit_log in share row exclusive mode;
end $$;

-- Age in seconds of the oldest transaction that writes, in any database of the cluster: the sealer waits for it. As the
-- owner, who needs pg_read_all_stats to see those of other users.
create function audit_oldest_writer_seconds() returns double precision
language sql security definer set search_path = pg_catalog, public, pg_temp as $$
  select coalesce(extract(epoch from clock_timestamp() - min(began)), 0)::double precision from (
    select xact_start as began from pg_stat_activity where backend_xid is not null
    union all select prepared from pg_prepared_xacts) writers
$$;

-- Before this time no entry can appear any more: every transaction that began before it has ended. A transaction that has
-- written nothing for longer than the programs let one be idle is a reader.
create function audit_settled_until() returns timestamptz
language sql security definer set search_path = pg_catalog, public, pg_temp as $$
  select least(now(), min(began)) from (
    select xact_start as began from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
        and (backend_xid is not null or xact_start > clock_timestamp() - interval '15 seconds')
    union all select prepared from pg_prepared_xacts where database = current_database()) running
$$;

revoke all on function audit_settled_until() from public;
grant execute on function audit_settled_until() to keepsake_api, keepsake_worker;
revoke all on function audit_encrypt(uuid[], timestamptz[], bytea[], integer[], bytea[]), audit_lock(),
  audit_oldest_writer_seconds() from public;
grant execute on function audit_encrypt(uuid[], timestamptz[], bytea[], integer[], bytea[]), audit_lock(),
  audit_oldest_writer_seconds() to keepsake_worker;
grant select on audit_since to keepsake_worker;
-- Where a restored log begins to count anew.
grant select on sequence audit_log_serial_seq to keepsake_worker;
