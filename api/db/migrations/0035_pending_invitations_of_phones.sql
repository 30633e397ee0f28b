-- As those of 0014: the pending invitations of a person, by the verified phone number.
create index invitations_pending_of_phone on invitations (org_id, phone_number) where status = 'pending';
