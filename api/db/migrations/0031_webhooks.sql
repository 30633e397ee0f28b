-- The webhook of an organization: a service of the installation that is told what people are notified of. The role of the
-- API gets nothing: only administrators and the worker see the secrets, which cannot be hashed because they sign.
create table webhooks (
  id uuid primary key,
  org_id uuid not null unique references organizations on delete cascade,
  url text not null check (length(url) <= 2048),
  secret text not null,
  -- Signs besides the other one until its end, so that the receiver can change its secret in the meantime.
  previous_secret text,
  previous_ends_at timestamptz,
  disabled_at timestamptz,
  disabled_reason text,
  -- Since when every attempt has failed.
  failing_since timestamptz,
  -- Of the latest attempt, for administrators.
  last_attempt_at timestamptz,
  last_status integer,
  last_answer text check (length(last_answer) <= 1024),
  created_at timestamptz not null default now(),
  check ((previous_secret is null) = (previous_ends_at is null)),
  check ((disabled_at is null) = (disabled_reason is null))
);
select guard_tenant('webhooks');
grant select, insert, update, delete on webhooks to keepsake_worker;
