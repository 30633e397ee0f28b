-- Comments and reactions.

create table comments (
  id uuid primary key,
  org_id uuid not null references organizations,
  event_id uuid not null references events on delete cascade,
  -- What it is about: the event itself (meta), another comment, a media item.
  target_type text not null check (target_type in ('meta', 'comment', 'media')),
  -- No foreign key: comments outlive the comment or the media item that they are about.
  target_id uuid not null,
  -- The media item that the comment or its parent is about.
  media_id uuid,
  -- Who may see it among those who can see the event: all of them, or only those who can see the album of the event.
  audience text not null check (audience in ('event', 'album')),
  author_id uuid not null references users,
  body text not null,
  -- Those whom the request named, and those with the ones whom the body names.
  mentions_given uuid[] not null default '{}',
  mentions uuid[] not null default '{}',
  -- One more than the edits.
  version integer not null default 1,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz,
  deleted_by uuid references users,
  deleted_reason text,
  check (target_type <> 'meta' or target_id = event_id),
  check (target_type <> 'media' or media_id = target_id),
  check (media_id is not null or audience = 'event'),
  check ((deleted_at is null) = (deleted_by is null)),
  check (deleted_reason is null or deleted_at is not null)
);
-- Lists. With the organization, which row-level security asks for, the count of replies reads the index alone.
create index comments_listed on comments (event_id, target_type, target_id, created_at desc, id desc)
  include (org_id) where deleted_at is null;

-- What an edit replaced. Kept for audits.
create table comment_versions (
  comment_id uuid not null references comments on delete cascade,
  version integer not null,
  org_id uuid not null,
  body text not null,
  media_ids uuid[] not null,
  mentions uuid[] not null,
  -- When the version was written.
  written_at timestamptz not null,
  primary key (comment_id, version)
);

-- A purge of the media item ends the attachment.
create table comment_media (
  comment_id uuid not null references comments on delete cascade,
  position integer not null check (position between 0 and 3),
  org_id uuid not null,
  event_id uuid not null,
  media_id uuid not null references media on delete cascade,
  primary key (comment_id, position),
  unique (comment_id, media_id)
);
-- For the purge, and for what is attached to the comments of an event.
create index comment_media_of_media on comment_media (media_id, event_id);

create table reactions (
  id uuid primary key,
  -- That of the event: a foreign key of its own would be checked, and locked, for every reaction.
  org_id uuid not null,
  event_id uuid not null references events on delete cascade,
  target_type text not null check (target_type in ('meta', 'comment', 'media')),
  target_id uuid not null,
  user_id uuid not null references users,
  emoji text not null check (emoji in (U&'\2764\FE0F', U&'\+01F602', U&'\+01F389', U&'\+01F622', U&'\+01F44F', U&'\+01F525')),
  -- One more than the changes of the emoji.
  version integer not null default 1,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
-- One per user and target; the counts of a target read this index alone.
create unique index reactions_of_target on reactions (event_id, target_type, target_id, user_id) include (org_id, emoji);

select guard_tenant('comments');
select guard_tenant('comment_versions');
select guard_tenant('comment_media');
select guard_tenant('reactions');

grant select, insert, update on comments to keepsake_api;
grant select, insert on comment_versions to keepsake_api;
grant select, insert, delete on comment_media to keepsake_api;
grant select, insert, update, delete on reactions to keepsake_api;
grant select, insert, update, delete on comments, comment_versions, comment_media, reactions to keepsake_worker;
