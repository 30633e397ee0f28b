-- Attempts to prepare a delivery do not count as attempts to send it, which have a schedule.
alter table notification_deliveries add column preparations integer not null default 0;

-- What a user has chosen holds for the mails to their verified address too.
create index users_by_email on users (lower(email));

-- The likely source of an open or click: only mails are opened.
grant select (channel) on notification_deliveries to keepsake_api;
