-- Receivers that wanted no messages for a while: webhooks and devices by id, and services that many devices share.
create table notification_pauses (
  channel text not null,
  receiver text not null,
  -- How often in a row it failed; the row goes with the first message that arrives.
  failures integer not null default 0,
  paused_until timestamptz not null default now(),
  reason text,
  primary key (channel, receiver)
);
grant select, insert, update, delete on notification_pauses to keepsake_worker;

-- The hash of the VAPID key that a browser subscribed with; null: not known.
alter table devices add column vapid_key text;
