-- Events, those who take part in them, and invitations.

create table events (
  id uuid primary key,
  org_id uuid not null references organizations,
  owner_id uuid not null references users,
  title text not null,
  description text,
  start_at timestamptz not null,
  end_at timestamptz,
  location_name text,
  latitude double precision,
  longitude double precision,
  status text not null default 'draft' check (status in ('draft', 'active', 'archived')),
  activated_at timestamptz,
  archived_at timestamptz,
  -- Bumped by every change: aggregate_version.
  version integer not null default 1,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  check (end_at is null or end_at >= start_at),
  check ((latitude is null) = (longitude is null)),
  check (latitude between -90 and 90 and longitude between -180 and 180)
);
-- For every list: a page of several states merges one page of each. An index without the state would not do: Postgres
-- would take it for a page of one state too, and read all events of the others on the way.
create index events_of_org_by_status on events (org_id, status, created_at desc, id desc);
-- Members who are no administrators see the drafts of their own alone.
create index events_drafts_of_owner on events (org_id, owner_id, created_at desc, id desc) where status = 'draft';

-- Every known user whom an event concerns. Those who leave the organization are deleted in the same transaction.
create table event_participants (
  event_id uuid not null references events on delete cascade,
  user_id uuid not null references users,
  org_id uuid not null references organizations,
  status text not null check (status in ('invited', 'accepted', 'declined')),
  -- When the user accepted.
  joined_at timestamptz,
  created_at timestamptz not null default now(),
  primary key (event_id, user_id),
  check ((status = 'accepted') = (joined_at is not null))
);
create index event_participants_listed on event_participants (event_id, created_at desc, user_id desc);
-- With the organization, which row-level security asks for: so a count reads the index alone.
create index event_participants_accepted on event_participants (event_id, org_id) where status = 'accepted';
create index event_participants_of_user on event_participants (org_id, user_id);

create table invitations (
  id uuid primary key,
  org_id uuid not null references organizations,
  event_id uuid not null references events on delete cascade,
  -- Identifies, and is no credential. Upper case, of the alphabet without 0, O, 1, I and L.
  slug text not null unique check (slug ~ '^[2-9A-HJKMNP-Z]{8}$'),
  -- Exactly one: how the invitee is addressed. E-mail addresses in lower case, phone numbers in E.164.
  email text,
  phone_number text,
  user_id uuid references users,
  message text,
  status text not null default 'pending' check (status in ('pending', 'accepted', 'declined', 'revoked')),
  -- The token is derived from id, generation and expiry. Another generation makes every older token invalid.
  generation integer not null default 1,
  token_expires_at timestamptz not null,
  invited_by uuid not null references users,
  responded_by uuid references users,
  responded_at timestamptz,
  response_message text,
  opened_at timestamptz,
  clicked_at timestamptz,
  -- Which activation or creation the invitee was told of last: the generation whose link was queued for sending.
  told_generation integer,
  version integer not null default 1,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  check (num_nonnulls(email, phone_number, user_id) = 1),
  check ((status in ('accepted', 'declined')) = (responded_at is not null))
);
create index invitations_of_event on invitations (event_id, created_at desc, id desc);
create unique index invitations_pending_email on invitations (event_id, email) where status = 'pending';
create unique index invitations_pending_phone on invitations (event_id, phone_number) where status = 'pending';
create unique index invitations_pending_user on invitations (event_id, user_id) where status = 'pending';

select guard_tenant('events');
select guard_tenant('event_participants');
select guard_tenant('invitations');
select make_organization_lookup('invitations');

-- Tells keepsake_api the invitation of a slug and nothing else, as organization_of_<table> does.
do $$
begin
  execute format($f$create function invitation_of_slug(slug text) returns uuid language sql stable security definer
    set search_path = pg_catalog, pg_temp as 'select id from %I.invitations where slug = $1'$f$, current_schema());
end $$;
revoke execute on function invitation_of_slug(text) from public;
grant execute on function invitation_of_slug(text) to keepsake_api;

-- A user who is no longer a member takes no part any more, however the membership ended.
create function end_participation() returns trigger language plpgsql as $$
begin
  delete from event_participants where org_id = old.org_id and user_id = old.user_id;
  return old;
end $$;
create trigger end_participation after delete on memberships for each row execute function end_participation();

-- An accepted invitation makes a member; administrators change roles and remove members; members leave.
grant insert, update, delete on memberships to keepsake_api;
grant select, insert, update on events, invitations to keepsake_api;
grant select, insert, update, delete on event_participants to keepsake_api;
grant select, insert, update, delete on events, event_participants, invitations to keepsake_worker;
