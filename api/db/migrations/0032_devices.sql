-- Where push messages go: installations of the app, and browsers.
create table devices (
  -- Chosen by the app, once for each installation and account.
  id uuid primary key,
  user_id uuid not null references users on delete cascade,
  kind text not null check (kind in ('webpush', 'fcm')),
  -- webpush: the endpoint. fcm: the token. Either is a credential: who has it can be sent messages to.
  address text not null check (length(address) <= 4096),
  -- Of the browser, for the encryption of RFC 8291.
  p256dh text,
  auth text,
  -- Of the sign-in that registered it, as the identity provider names it.
  session_id text,
  created_at timestamptz not null default now(),
  registered_at timestamptz not null default now(),
  check ((kind = 'webpush') = (p256dh is not null and auth is not null))
);
-- One owner: on a phone that two people use, the one who signed in last gets the messages. Addresses are longer than what
-- a btree index takes, and hash indexes are unique only as an exclusion.
alter table devices add constraint devices_of_address exclude using hash (address with =);
create index devices_of_user on devices (user_id, registered_at);

grant select, insert, update, delete on devices to keepsake_api, keepsake_worker;

-- A sign-out ends the messages to all devices, whichever program it comes through.
create function sign_out_devices() returns trigger language plpgsql as $$
begin
  delete from devices where user_id = new.id and registered_at <= new.tokens_not_before;
  return null;
end $$;
create trigger sign_out_devices after update of tokens_not_before on users for each row
  when (old.tokens_not_before is distinct from new.tokens_not_before) execute function sign_out_devices();
