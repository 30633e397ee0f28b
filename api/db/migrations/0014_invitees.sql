-- The pending invitations of one person, which are revoked when the person is removed from the organization.
create index invitations_pending_of_user on invitations (org_id, user_id) where status = 'pending';
create index invitations_pending_of_email on invitations (org_id, email) where status = 'pending';
