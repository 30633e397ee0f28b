-- After which time a run that began purges: what was due to one that was admitted needs no confirmation a day later.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

alter table retention_runs add column purge_after interval;
