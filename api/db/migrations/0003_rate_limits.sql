-- Requests of the scarce classes of limits, counted over all replicas. Unlogged: after a crash of the server the counts
-- begin anew, which is worth less than a write to the log for every sign-in. Columns are in the order of the statements of
-- rate-limiter-flexible, which name none. Keys are hashes; nothing here belongs to an organization.
create unlogged table rate_limits (
  key text primary key,
  points integer not null default 0,
  expire bigint
);
grant select, insert, update, delete on rate_limits to keepsake_api;
