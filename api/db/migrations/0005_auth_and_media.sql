-- Sessions of the identity provider, verified addresses, and pages of the media of one type.

-- Sessions of tokens that do not say when their user signed in. A refresh makes such a token younger, but not its session:
-- "sign out all devices" ends every session that was seen before.
create table sessions (
  user_id uuid not null references users on delete cascade,
  -- The claim `sid` of the identity provider's tokens.
  sid text not null,
  -- The earliest time of issue of its tokens, or when this server first saw one, whichever is earlier.
  first_seen_at timestamptz not null,
  -- To the day; decides how long the row is kept.
  last_seen_at timestamptz not null default now(),
  primary key (user_id, sid)
);
create index sessions_by_last_seen on sessions (last_seen_at);
grant select, insert, update on sessions to keepsake_api;
grant select, insert, update, delete on sessions to keepsake_worker;

-- Addresses used to be stored unless a token called them unverified. The next token that says `email_verified: true`
-- brings the address back.
update users set email = null where email is not null;

-- Newest first among the media of one type, or of one kind, however rare it is in the organization.
create index media_of_type on media (org_id, mime_type, created_at desc, id desc) where deleted_at is null;
create index media_of_kind on media (org_id, kind, created_at desc, id desc) where deleted_at is null;
