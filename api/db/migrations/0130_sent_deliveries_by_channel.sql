-- migrate: statement by statement
-- What a channel has sent since a time, for the question whether others got their messages while a receiver refused one. No one
-- waits for it; one that was interrupted is invalid, and made anew.
set lock_timeout = 0;

drop index concurrently if exists notification_deliveries_sent;

create index concurrently notification_deliveries_sent on notification_deliveries (channel, updated_at) where state = 'sent';
