-- A pending invitation gets another inviter at once when the account of its inviter is closed. What the first one wrote waits
-- here until the erasure removes it: a legal hold may keep the erasure from going on.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

alter table invitations
  add column former_inviter uuid,
  add column former_message text;

-- A worker of the release before, during a rollout or after a rollback, completes an erasure without knowing these columns, and
-- those of migration 0115.
create function forget_erased() returns trigger language plpgsql as $$
begin
  update invitations set former_inviter = null, former_message = null where former_inviter = new.user_id;
  update events set purge_notice_to = null where purge_notice_to = new.user_id;
  return null;
end $$;
create trigger forget_erased after update of status on erasures for each row
  when (new.status = 'completed' and old.status <> 'completed') execute function forget_erased();
