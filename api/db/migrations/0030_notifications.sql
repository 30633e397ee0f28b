-- Notifications, what is sent for each of them and where to, and what people do not want to be sent.

-- The language of the user, as the identity provider says it (`de`, `pt-BR`); null: unknown.
alter table users add column locale text;

create table notifications (
  -- Random: mails name it in links that need no token.
  id uuid primary key,
  org_id uuid not null references organizations on delete cascade,
  template text not null check (template in ('EventInvitation.v1', 'Mention.v1')),
  event_id uuid not null references events on delete cascade,
  -- The recipient: exactly one.
  user_id uuid references users,
  email text,
  phone_number text,
  -- The cause: an invitation with the generation of its link, or a mention in a comment.
  invitation_id uuid references invitations on delete cascade,
  generation integer,
  comment_id uuid references comments on delete cascade,
  created_at timestamptz not null default now(),
  opened_at timestamptz,
  clicked_at timestamptz,
  check (num_nonnulls(email, phone_number, user_id) = 1),
  check ((template = 'EventInvitation.v1') = (invitation_id is not null and generation is not null)),
  check ((template = 'Mention.v1') = (comment_id is not null)),
  check (comment_id is null or user_id is not null)
);
-- One per recipient and cause: an invitation has one recipient.
create unique index notifications_of_invitation on notifications (invitation_id, generation);
create unique index notifications_of_mention on notifications (comment_id, user_id);
create index notifications_of_event on notifications (event_id);
create index notifications_by_age on notifications (created_at);

create table notification_deliveries (
  id uuid primary key,
  org_id uuid not null,
  notification_id uuid not null references notifications on delete cascade,
  channel text not null check (channel in ('email', 'push', 'webhook')),
  -- The e-mail address in lower case, the id of the device, or the id of the webhook.
  destination text not null,
  state text not null default 'pending'
    check (state in ('pending', 'sending', 'sent', 'failed', 'uncertain', 'suppressed')),
  -- Counts the attempt in progress too, and names it: an attempt whose number is not this one has lost its lease.
  attempts integer not null default 0,
  -- Whether an attempt ended without an answer, so that the message may have arrived.
  may_have_arrived boolean not null default false,
  started_at timestamptz,
  -- While pending: when it is due. While sending: when the lease ends.
  next_attempt_at timestamptz not null default now(),
  reason text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (notification_id, channel, destination)
);
-- One attempt in flight per destination.
create unique index notification_deliveries_in_flight on notification_deliveries (channel, destination)
  where state = 'sending';
create index notification_deliveries_due on notification_deliveries (channel, next_attempt_at, id)
  where state = 'pending';
create index notification_deliveries_of_destination on notification_deliveries (channel, destination, next_attempt_at, id)
  where state = 'pending';
create index notification_deliveries_listed on notification_deliveries (state, updated_at desc, id desc);

-- A channel that cannot send anything at the moment, such as one whose password is wrong.
create table notification_channels (
  channel text primary key,
  -- How often in a row it could not; 0: it works.
  failures integer not null default 0,
  paused_until timestamptz,
  reason text
);

-- What a user has chosen; without a row: yes.
create table notification_preferences (
  user_id uuid not null references users on delete cascade,
  channel text not null check (channel in ('email', 'push')),
  template text not null,
  enabled boolean not null,
  updated_at timestamptz not null default now(),
  primary key (user_id, channel, template)
);

-- E-mail addresses that want no mail of a template, whether or not they belong to a user. The address itself is not kept.
create table notification_optouts (
  -- SHA-256 of the address in lower case, in hexadecimal.
  address_hash text not null check (address_hash ~ '^[0-9a-f]{64}$'),
  template text not null,
  created_at timestamptz not null default now(),
  primary key (address_hash, template)
);

select guard_tenant('notifications');
select guard_tenant('notification_deliveries');
select make_organization_lookup('notifications');

grant select, update on notifications to keepsake_api;
grant select, insert, update on notification_preferences to keepsake_api;
grant select, insert, delete on notification_optouts to keepsake_api;
grant select, insert, update, delete on notifications, notification_deliveries, notification_channels,
  notification_preferences, notification_optouts to keepsake_worker;
