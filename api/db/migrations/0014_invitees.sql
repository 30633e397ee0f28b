-- The pending invitations of one person, which are revoked when the person is removed from the organization. With the
-- event, because Postgres may take this index for the look-up of one invitation too.
create index invitations_pending_of_user on invitations (org_id, user_id, event_id) where status = 'pending';
create index invitations_pending_of_email on invitations (org_id, email) where status = 'pending';
