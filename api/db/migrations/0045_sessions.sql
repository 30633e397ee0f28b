-- A row for every sign-in, its revocation, and the refresh tokens that this server has passed on. Programs of the version
-- before go on with the columns that they know: every new one is nullable or has a constant default, so nothing is
-- rewritten, and the indexes are built over rows that are not in them yet.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

alter table sessions
  -- `ses_…`. Null in rows from before until their next token.
  add column id uuid,
  -- The time of the sign-in by the identity provider's clock, in Unix seconds; null where tokens do not say.
  add column auth_time bigint,
  -- Whether this server itself saw the sign-in: `first_seen_at` is then its time by the database's clock.
  add column witnessed boolean not null default false,
  -- Whether only refresh tokens lead here, because access tokens name no sign-in.
  add column by_refresh boolean not null default false,
  -- The `sid` of a logout token that ends it.
  add column logout_sid text,
  add column device_id text,
  add column device_name text,
  add column ip_address text,
  -- Whether any of these three was ever set; unchanged by later uses, so that those touch no index.
  add column has_details boolean not null default false,
  -- To the minute. Not indexed for the same reason; `last_seen_at` stays one to the day.
  add column last_used_at timestamptz,
  -- The end of its refresh token, where this server passed it on.
  add column refresh_until timestamptz,
  -- A sign-in of the same name that is younger than both of these is a new one.
  add column ended_at timestamptz,
  add column ended_auth_time bigint,
  -- Signing out on all other devices: sign-outs up to this time do not concern this session.
  add column spared_until timestamptz;
alter table sessions alter column id set default gen_random_uuid();
alter table sessions set (fillfactor = 80);
create index sessions_by_logout_sid on sessions (logout_sid) where logout_sid is not null;
create index sessions_with_details on sessions (last_seen_at) where has_details;

-- Whose tokens have to be looked at again. Replicas read it every two seconds from where no transaction can have written
-- any more, so that a notification that is lost delays a revocation and does not lose it.
create table revocations (
  txid xid8 not null default pg_current_xact_id(),
  user_id uuid not null references users on delete cascade,
  at timestamptz not null default now(),
  primary key (txid, user_id)
);
create index revocations_by_time on revocations (at);
grant select, insert on revocations to keepsake_api;
grant select, insert, delete on revocations to keepsake_worker;

-- Every end of a sign-in comes through these two triggers, whichever program makes it.
create function session_ended() returns trigger language plpgsql as $$
begin
  insert into revocations (user_id) values (new.user_id) on conflict do nothing;
  -- Devices of earlier versions name the session as the identity provider does.
  delete from devices where user_id = new.user_id and session_id in (new.id::text, new.sid);
  perform pg_notify('access', new.user_id::text);
  return null;
end $$;
create trigger session_ended after update of ended_at on sessions for each row
  when (new.ended_at is not null and old.ended_at is distinct from new.ended_at) execute function session_ended();
create trigger session_ended_before_its_first_token after insert on sessions for each row
  when (new.ended_at is not null) execute function session_ended();

create or replace function sign_out_notify() returns trigger language plpgsql as $$
begin
  insert into revocations (user_id) values (new.id) on conflict do nothing;
  update sessions
    set ended_at = new.tokens_not_before, ended_auth_time = greatest(ended_auth_time, auth_time),
      device_id = null, device_name = null, ip_address = null, has_details = false
    where user_id = new.id and first_seen_at <= new.tokens_not_before
      and (ended_at is null or first_seen_at > ended_at)
      and (spared_until is null or spared_until < new.tokens_not_before);
  perform pg_notify('access', new.id::text);
  return null;
end $$;

create or replace function sign_out_devices() returns trigger language plpgsql as $$
begin
  delete from devices d where d.user_id = new.id and d.registered_at <= new.tokens_not_before
    and not exists (select from sessions s where s.user_id = new.id and s.spared_until >= new.tokens_not_before
      and d.session_id in (s.id::text, s.sid));
  return null;
end $$;

-- What is known of a refresh token, by its SHA-256.
create table refresh_tokens (
  hash bytea primary key,
  user_id uuid references users on delete cascade,
  session_id uuid,
  -- While one request asks the identity provider, others wait for its answer.
  refreshing_until timestamptz,
  -- Which request that is.
  holder uuid,
  used_at timestamptz,
  -- Encrypted under a key that only the token gives. Until the token is used: what the identity provider has answered and
  -- is not recorded yet. Then, for a minute: the answer, for a client that has lost it.
  reply bytea,
  expires_at timestamptz not null
);
create index refresh_tokens_of_user on refresh_tokens (user_id);
create index refresh_tokens_by_expiry on refresh_tokens (expires_at);
create index refresh_tokens_with_answer on refresh_tokens (used_at) where reply is not null;
grant select, insert, update, delete on refresh_tokens to keepsake_api;
grant select, update, delete on refresh_tokens to keepsake_worker;

-- What the identity provider has told, once each.
create table provider_events (
  id text primary key,
  received_at timestamptz not null default now()
);
create index provider_events_by_time on provider_events (received_at);
grant select, insert on provider_events to keepsake_api;
grant select, delete on provider_events to keepsake_worker;
