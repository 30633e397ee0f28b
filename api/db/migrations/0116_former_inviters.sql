-- A pending invitation gets another inviter at once when the account of its inviter is closed. What the first one wrote waits
-- here until the erasure removes it: a legal hold may keep the erasure from going on.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

alter table invitations
  add column former_inviter uuid,
  add column former_message text;
