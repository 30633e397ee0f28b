-- Invitees by verified phone number, fresh links that a guest asks for, and what opens and clicks are recorded of.

-- Verified, E.164, as the identity provider says it; null: unknown.
alter table users add column phone_number text;

-- How many fresh links were asked for on a day, of one invitation.
alter table invitations add column renewed_on date, add column renewals integer not null default 0;

-- How many opens and clicks of a notification are in the audit log: proxies and scanners repeat them without end.
alter table notifications add column recorded integer not null default 0;
-- When it was sent tells a person from a scanner. No destination: the API needs no addresses.
grant select (org_id, notification_id, state, started_at) on notification_deliveries to keepsake_api;
