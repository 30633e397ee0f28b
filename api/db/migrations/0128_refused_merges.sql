-- Why a merge refused an upload and ended it: a repeat of the merge, after a lost answer or beside the first, is refused for the
-- same reason, and not as if the upload had expired.
--
-- An upload can end while a merge whose lease has run out still writes to the object store: housekeeping looks at the place of
-- its media item again a few times, as after a purge. The API ends uploads, too.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

alter table uploads add column refusal jsonb;

grant insert on purged_media to keepsake_api;
