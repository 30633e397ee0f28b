-- Notices to the owner of an archived event before it is purged.

-- No one waits behind this for longer; the migration is tried again.
set local lock_timeout = '2s';

alter table events
  -- The last notice that was given: 0 none, 1 the first one, 2 the last one.
  add column purge_notice integer not null default 0,
  -- The time of the purge that it named. The event is purged neither before it nor without it.
  add column purge_notice_for timestamptz,
  -- When to look again whether a notice is due, by app_now().
  add column purge_look_at timestamptz not null default '-infinity',
  add constraint events_purge_notice_check check (
    purge_notice between 0 and 2 and (purge_notice = 0) = (purge_notice_for is null)) not valid;

alter table notifications
  -- Of EventPurgeSoon.v1: which notice it is, and the time that it names.
  add column purge_notice integer,
  add column purge_at timestamptz,
  drop constraint notifications_template_check,
  -- Migration 0088 validates them: not under the lock that this file holds.
  add constraint notifications_template_check
    check (template in ('EventInvitation.v1', 'Mention.v1', 'DownloadReady.v1', 'EventPurgeSoon.v1')) not valid,
  add constraint notifications_purge_check check (
    case when template = 'EventPurgeSoon.v1' then num_nonnulls(purge_notice, purge_at, user_id) = 3
      else num_nonnulls(purge_notice, purge_at) = 0 end) not valid;
