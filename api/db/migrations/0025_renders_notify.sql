-- The notification that a slot for renders became free gets the name of what has slots.
create function renders_notify() returns trigger language plpgsql as $$
begin
  -- Delivered when the transaction commits; the worker's sweep is the backstop.
  perform pg_notify('renders', new.org_id::text);
  -- Workers of the version before this one listen here. A later migration stops sending it.
  perform pg_notify('films', new.org_id::text);
  return null;
end $$;
drop trigger films_notify on highlights;
drop function films_notify();
-- A slot became free: the render ended, or the highlight was deleted.
create trigger renders_notify after update of status, deleted_at on highlights for each row
  when (old.status = 'processing' and old.deleted_at is null and not (new.status = 'processing' and new.deleted_at is null))
  execute function renders_notify();
