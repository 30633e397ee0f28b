-- The notices of a purge count only for those who got them: when their membership ends, however it does, who cares for the
-- event from then on is told anew.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

create function forget_notices() returns trigger language plpgsql as $$
begin
  update events e set purge_notice = 0, purge_notice_for = null, purge_look_at = '-infinity'
    where e.org_id = old.org_id and e.purge_notice > 0 and (e.owner_id = old.user_id
      -- The owners of the organization are told where the owner of the event has left.
      or old.role = 'owner' and not exists (
        select from memberships m where m.org_id = e.org_id and m.user_id = e.owner_id));
  return null;
end $$;
create trigger forget_notices after delete on memberships for each row execute function forget_notices();
