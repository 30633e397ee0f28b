-- An upload can end while a merge whose lease has run out still writes to the object store: housekeeping looks at the place of
-- its media item again a few times, as after a purge. The API ends uploads, too.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

grant insert on purged_media to keepsake_api;
