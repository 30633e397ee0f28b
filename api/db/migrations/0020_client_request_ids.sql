-- The id that a client gave its request. request_id is always one that the server made.
alter table audit_log add column client_request_id text;
