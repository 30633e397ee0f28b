-- A purge waits until the consumer of notifications has handled the last notice before it, also once the outbox has published
-- its event and dropped it.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

alter table events
  -- The consumer of notifications has not handled the last notice yet.
  add column purge_notice_unhandled boolean not null default false,
  -- How many last notices in a row had to be given again because everyone to be told was refused for the time being.
  add column purge_notices_refused integer not null default 0;
