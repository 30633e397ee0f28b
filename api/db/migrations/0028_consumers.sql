-- What consumers of the event stream have handled, what they could not handle, and which stream it was.

-- Kept for longer than the stream and the outbox keep events: then no delivery of an old event is taken for a new one.
create table inbox (
  consumer text not null,
  message_id uuid not null,
  received_at timestamptz not null default now(),
  primary key (consumer, message_id)
);
create index inbox_by_age on inbox (received_at);

-- Events that a consumer could not handle, and later ones of the same aggregate, which wait behind them: `position` is
-- their order. They hold personal data, so that they are deleted after 30 days.
create table parked_events (
  consumer text not null,
  -- Derived from the text where it is not an event of ours.
  message_id uuid not null,
  position bigint generated always as identity,
  subject text not null,
  stream_seq bigint not null,
  aggregate_id uuid,
  -- Null where the event waits for an earlier one.
  reason text,
  attempts integer not null,
  first_at timestamptz not null default now(),
  last_at timestamptz not null default now(),
  -- When an administrator asked for another attempt.
  replay_at timestamptz,
  -- A string where it is not an event of ours.
  event jsonb not null,
  primary key (consumer, message_id)
);
create index parked_events_of_aggregate on parked_events (consumer, aggregate_id, position);
create index parked_events_to_replay on parked_events (consumer, position) where replay_at is not null;
create index parked_events_by_age on parked_events (first_at);

-- Attempts at events that may have killed the process, counted before each: see api/worker/consumers.
create table suspected_events (
  consumer text not null,
  message_id uuid not null,
  attempts integer not null,
  last_at timestamptz not null default now(),
  primary key (consumer, message_id)
);

-- When the stream was made: another time means that it was lost and made again.
create table event_streams (
  name text primary key,
  created_at timestamptz not null
);

-- Published once already: only consumers need it again, the reactions of the worker do not.
alter table outbox add column is_repeated boolean not null default false;

grant select, insert, update, delete on inbox, parked_events, suspected_events, event_streams to keepsake_worker;
