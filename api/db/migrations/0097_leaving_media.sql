-- Media items that the purge of an event has taken out of the library: what puts them back, and keeps other purges off them.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

-- The event. Without a foreign key: what refers to an event that is gone is an item of the trash like others.
alter table media add column leaving_with uuid;
