-- A deleted comment stays in the list of its thread as long as it has replies, so that readers find them. Only the last
-- deletion changes that: a deleted comment takes no new replies. The audience of a reply is that of its comment, so the
-- readers who see the one see the other.
alter table comments add column listed boolean not null default true check (listed or deleted_at is not null);

create function comments_listed() returns trigger language plpgsql as $$
begin
  if new.target_type <> 'comment' then
    -- A reply that is being posted shares a lock of this row, so it is committed here, or finds the comment deleted.
    new.listed := new.deleted_at is null or exists (
      select from comments r where r.event_id = new.event_id and r.target_type = 'comment' and r.target_id = new.id
        and r.listed);
    return new;
  end if;
  new.listed := new.deleted_at is null;
  -- Deletions of the comment and of its replies take turns here: each must see what the one before left. The reply is
  -- locked before its comment; no transaction locks them the other way round.
  perform from comments p where p.id = new.target_id for no key update;
  update comments p set listed = false
    where p.id = new.target_id and p.deleted_at is not null and not exists (
      select from comments r where r.event_id = new.event_id and r.target_type = 'comment' and r.target_id = p.id
        and r.listed and r.id <> new.id);
  return new;
end $$;
create trigger comments_listed before update of deleted_at on comments for each row
  when (old.deleted_at is null and new.deleted_at is not null) execute function comments_listed();

-- The owner of the table is subject to its policies as well, and would read and update nothing here.
alter table comments no force row level security;
update comments c set listed = false where c.deleted_at is not null and (c.target_type = 'comment' or not exists (
  select from comments r where r.event_id = c.event_id and r.target_type = 'comment' and r.target_id = c.id
    and r.deleted_at is null));
alter table comments force row level security;

-- What is listed, and nothing else: a page reads no deleted comments without replies.
drop index comments_listed;
create index comments_listed on comments (event_id, target_type, target_id, created_at desc, id desc)
  include (org_id) where listed;
