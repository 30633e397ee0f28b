-- Erasure of people: which accounts are closed, what is left to erase, and the mirror of the ledger.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

-- From then on no one signs in with the account, and nothing new is stored about it. `tokens_not_before` is infinity, so
-- that every version of the API refuses its tokens.
alter table users add column closed_at timestamptz;

create table erasures (
  id uuid primary key,
  -- One per user: of two requests at once the second finds the first.
  user_id uuid not null unique references users,
  -- Whether the user, an administrator or the ledger (after a restore) asked for it.
  asked_by text not null check (asked_by in ('user', 'administrator', 'ledger')),
  -- The administrator; null otherwise.
  administrator_id uuid references users,
  -- Of an administrator, for administrators; removed with the completion.
  reason text,
  status text not null default 'processing' check (status in ('processing', 'completed')),
  requested_at timestamptz not null default now(),
  completed_at timestamptz,
  -- Organizations of which the person was the only owner, and had been the only member.
  sole_owner_of uuid[] not null default '{}',
  -- One worker at a time carries it out; another one takes over when this lies in the past.
  lease_until timestamptz,
  lease_holder uuid,
  check ((status = 'completed') = (completed_at is not null)),
  check (reason is null or status = 'processing')
);
create index erasures_unfinished on erasures (requested_at) where status = 'processing';

create table erasure_steps (
  erasure_id uuid not null references erasures on delete cascade,
  step text not null,
  state text not null default 'pending' check (state in ('pending', 'done')),
  attempts integer not null default 0,
  -- Says what failed and quotes no value.
  last_error text,
  -- How many of what it erased; numbers only.
  counts jsonb not null default '{}',
  updated_at timestamptz not null default now(),
  finished_at timestamptz,
  primary key (erasure_id, step),
  check ((state = 'done') = (finished_at is not null))
);

-- What was the person's while their rows are going: events, resources of the cluster and objects are found by it. Its rows
-- go with the completion.
create table erasure_resources (
  erasure_id uuid not null references erasures on delete cascade,
  kind text not null check (kind in ('media', 'upload', 'comment', 'reaction', 'highlight', 'invitation', 'event', 'album')),
  resource_id uuid not null,
  org_id uuid not null,
  primary key (erasure_id, kind, resource_id)
);

-- The names of all entries of the ledger that this database knows. The ledger itself is in the object store, outside of the
-- backups: an entry there that is not here was written after the backup that this database was restored from.
create table erasure_ledger (
  -- HMAC-SHA-256 of the user id, in hexadecimal.
  name text primary key check (name ~ '^[0-9a-f]{64}$'),
  known_at timestamptz not null default now()
);

grant select, insert on erasures, erasure_ledger to keepsake_api;
grant select on erasure_steps to keepsake_api;
select guard_tenant('erasure_resources');
grant select, insert, update, delete on erasures, erasure_steps, erasure_resources, erasure_ledger to keepsake_worker;
-- The counters of the person go as well.
grant select, delete on rate_limits to keepsake_worker;

create function erasures_notify() returns trigger language plpgsql as $$
begin
  perform pg_notify('erasures', new.id::text);
  return null;
end $$;
create trigger erasures_notify after insert on erasures for each row execute function erasures_notify();

-- ---------------------------------------------------------------- closed accounts

-- A token that was verified before the account was closed brings nothing back, whichever version of the API reads it.
create function keep_closed() returns trigger language plpgsql as $$
begin
  new.closed_at := old.closed_at;
  new.tokens_not_before := 'infinity';
  if new.email is not null then new.email := old.email; end if;
  if new.phone_number is not null then new.phone_number := old.phone_number; end if;
  if new.display_name is not null then new.display_name := old.display_name; end if;
  if new.locale is not null then new.locale := old.locale; end if;
  -- A token names the person at the provider, where the account may still be.
  if old.issuer = 'erased' then
    new.issuer := old.issuer;
    new.subject := old.subject;
  end if;
  return new;
end $$;
create trigger keep_closed before update on users for each row when (old.closed_at is not null)
  execute function keep_closed();

-- Fails the transaction if one of these accounts is closed. Closing locks the row for update: it waits for the
-- transactions that are past this line, and those that come later wait here and see it. The client is told to try again,
-- and then that its sign-in has ended, or that the user is no member.
create function refuse_closed(people uuid[]) returns void language plpgsql as $$
declare
  is_closed boolean;
begin
  select bool_or(held.closed_at is not null) into is_closed
    from (select u.closed_at from users u where u.id = any(people) order by u.id for key share) held;
  if is_closed then
    raise exception 'an account that this change names was closed' using errcode = 'serialization_failure';
  end if;
end $$;

-- Every statement that inserts rows of the table asks `refuse_closed` about the people whom `named` makes an array of:
-- `added` are its rows.
create function guard_people(target regclass, named text) returns void language plpgsql as $$
declare
  guard text := 'refuse_closed_in_' || (select relname from pg_class where oid = target);
begin
  execute format($f$create function %I() returns trigger language plpgsql as $b$
    begin
      perform refuse_closed(array(select distinct person from added, unnest(%s) as named (person) where person is not null));
      return null;
    end $b$ $f$, guard, named);
  execute format('create trigger refuse_closed after insert on %s referencing new table as added
    for each statement execute function %I()', target, guard);
end $$;
revoke execute on function guard_people(regclass, text) from public;

select guard_people('media', 'array[added.uploader_id]');
select guard_people('uploads', 'array[added.uploader_id]');
select guard_people('albums', 'array[added.owner_id]');
select guard_people('album_media', 'array[added.added_by]');
select guard_people('comments', 'added.author_id || added.mentions_given || added.mentions');
select guard_people('reactions', 'array[added.user_id]');
select guard_people('events', 'array[added.owner_id]');
select guard_people('event_participants', 'array[added.user_id]');
select guard_people('invitations', 'array[added.invited_by, added.user_id]');
select guard_people('highlights', 'array[added.created_by]');
select guard_people('memberships', 'array[added.user_id]');
select guard_people('devices', 'array[added.user_id]');
select guard_people('notification_preferences', 'array[added.user_id]');

-- Changes that put a person into a row of others.
create function refuse_closed_change() returns trigger language plpgsql as $$
begin
  perform refuse_closed(array[(to_jsonb(new) ->> tg_argv[0])::uuid]);
  return null;
end $$;
create trigger refuse_closed_change after update on media for each row
  when (new.deleted_by is not null and new.deleted_by is distinct from old.deleted_by and new.purging_at is null)
  execute function refuse_closed_change('deleted_by');
create trigger refuse_closed_change after update on highlights for each row
  when (new.deleted_by is not null and new.deleted_by is distinct from old.deleted_by)
  execute function refuse_closed_change('deleted_by');
create trigger refuse_closed_change after update on invitations for each row
  when (new.responded_by is not null and new.responded_by is distinct from old.responded_by)
  execute function refuse_closed_change('responded_by');
create trigger refuse_closed_inviter after update on invitations for each row
  when (new.invited_by is distinct from old.invited_by) execute function refuse_closed_change('invited_by');
-- Of a comment only those who are new in it: others stay mentioned until their own erasure gets to it.
create function refuse_closed_in_comment() returns trigger language plpgsql as $$
begin
  perform refuse_closed(array(
    select unnest(new.mentions || new.mentions_given) except select unnest(old.mentions || old.mentions_given)
    union select new.deleted_by where new.deleted_by <> new.author_id and old.deleted_by is null));
  return null;
end $$;
create trigger refuse_closed_change after update on comments for each row
  when ((new.author_id <> new.deleted_by and old.deleted_by is null) or new.mentions <> old.mentions
    or new.mentions_given <> old.mentions_given)
  execute function refuse_closed_in_comment();

-- What programs write in the background about a closed account is skipped: events that were published before arrive after.
create function skip_closed() returns trigger language plpgsql as $$
declare
  is_closed boolean;
begin
  select u.closed_at is not null into is_closed from users u where u.id = (to_jsonb(new) ->> tg_argv[0])::uuid for key share;
  if is_closed then return null; end if;
  return new;
end $$;
create trigger skip_closed before insert on timeline_items for each row execute function skip_closed('actor_id');
create trigger skip_closed before insert on notifications for each row when (new.user_id is not null)
  execute function skip_closed('user_id');
create trigger skip_closed before insert on sessions for each row execute function skip_closed('user_id');

-- ---------------------------------------------------------------- who wrote a caption

-- Null: from before this column, and taken for that of the member who added the item.
alter table album_media add column caption_by uuid;
alter table highlight_items add column caption_by uuid;
-- A film that is made between the withdrawal of films and the removal of captions has none of the person.
select guard_people('highlight_items', 'array[added.caption_by]');
-- The next migration validates them: here that would read the tables while no one may write.
alter table album_media add constraint album_media_caption_by foreign key (caption_by) references users not valid;
alter table highlight_items add constraint highlight_items_caption_by foreign key (caption_by) references users not valid;
create trigger refuse_closed_change after update on album_media for each row
  when (new.caption_by is not null and new.caption_by is distinct from old.caption_by)
  execute function refuse_closed_change('caption_by');

-- As before, with the author of the caption.
create or replace function pair_in_albums() returns trigger language plpgsql as $$
declare image constant uuid := new.paired_media_id;
begin
  perform from album_media where media_id in (new.id, image) order by media_id, album_id for update;
  with removed as (
    delete from album_media v using album_media i
      where v.media_id = new.id and i.media_id = image and i.album_id = v.album_id
      returning v.album_id, v.caption, v.caption_by, v.is_cover
  )
  update album_media i set caption = coalesce(i.caption, removed.caption), is_cover = i.is_cover or removed.is_cover,
      caption_by = case when i.caption is null then removed.caption_by else i.caption_by end
    from removed where i.album_id = removed.album_id and i.media_id = image;
  update album_media set media_id = image where media_id = new.id;
  return null;
end $$;
