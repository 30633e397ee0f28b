-- Slots of an organization for films, as 0004 has them for videos.

-- When the highlight got one of its organization's slots. One that is processing and has a slot may have a
-- HighlightRender; one without waits and has none.
alter table highlights add column render_admitted_at timestamptz;

-- The owner of the table is subject to its policies as well, and would update nothing.
alter table highlights no force row level security;
-- The workers before this one made a HighlightRender for each.
update highlights set render_admitted_at = now() where status = 'processing' and deleted_at is null;
alter table highlights force row level security;

create index highlights_admitted on highlights (org_id)
  where status = 'processing' and deleted_at is null and render_admitted_at is not null;
create index highlights_waiting on highlights (org_id, created_at, id)
  where status = 'processing' and deleted_at is null and render_admitted_at is null;

create function films_notify() returns trigger language plpgsql as $$
begin
  -- Delivered when the transaction commits; the worker's sweep is the backstop.
  perform pg_notify('films', new.org_id::text);
  return null;
end $$;
-- A slot became free: the render ended, or the highlight was deleted.
create trigger films_notify after update of status, deleted_at on highlights for each row
  when (old.status = 'processing' and old.deleted_at is null and not (new.status = 'processing' and new.deleted_at is null))
  execute function films_notify();
