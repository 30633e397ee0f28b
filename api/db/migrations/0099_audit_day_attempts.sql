-- Each attempt to write a day of the audit log into the object store has an object of its own: a process that stood still
-- for longer than its lease cannot touch what another one has written.

create table audit_day_attempts (
  id uuid primary key,
  day date not null,
  -- Of the process that writes. While it holds the lease of the day, its object is being made.
  lease_token uuid not null,
  object_key text not null,
  begun_at timestamptz not null default now(),
  -- From then on the attempt cannot succeed. Its object is deleted, and again later, in case that it came late.
  given_up_at timestamptz,
  look_at timestamptz not null default now()
);
create index audit_day_attempts_by_look on audit_day_attempts (look_at);
grant select, insert, update, delete on audit_day_attempts to keepsake_worker;
