-- migrate: statement by statement
-- What migrations 0115 and 0116 keep of a person, for the questions of holds and the end of an erasure. No one waits for these
-- indexes; one that was interrupted is invalid, and made anew.
set lock_timeout = 0;

drop index concurrently if exists invitations_by_former_inviter;

create index concurrently invitations_by_former_inviter on invitations (former_inviter, id) where former_inviter is not null;

drop index concurrently if exists events_by_purge_notice_to;

create index concurrently events_by_purge_notice_to on events (purge_notice_to) where purge_notice_to is not null;
