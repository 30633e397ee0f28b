-- The notices of a purge count only for those who got them, and the purge that follows them goes on once it has begun.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

alter table events
  -- The owner of the event, whom the notice went to; null: it went to the owners of the organization.
  add column purge_notice_to uuid,
  -- Since when a media item has left the library with the event, after this notice.
  add column purge_begun_at timestamptz;
