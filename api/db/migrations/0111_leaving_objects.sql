-- What a media item had in the store when it left the library with its event. An attempt that comes later and fails puts it
-- back only if it still has all of that.
-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

alter table media add column leaving_objects text;
