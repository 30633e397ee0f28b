-- Where the stream has stored an event: if another one is there, an older copy of the stream was put back. Null where that is
-- not known.
alter table outbox add column stream_seq bigint;
