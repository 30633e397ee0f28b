-- What one person has in all organizations, in order of id: for exports of a person's own data, and for their erasure.
create index media_by_uploader on media (uploader_id, id);
create index comments_by_author on comments (author_id, id);
create index reactions_by_user on reactions (user_id, id);
create index events_by_owner on events (owner_id, id);
create index event_participants_by_user on event_participants (user_id, event_id);
create index albums_by_owner on albums (owner_id, id);
create index album_media_by_adder on album_media (added_by, album_id, media_id);
create index album_media_by_captioner on album_media (caption_by, album_id, media_id) where caption_by is not null;
create index highlights_by_creator on highlights (created_by, id);
create index invitations_by_inviter on invitations (invited_by, id);
create index invitations_by_responder on invitations (responded_by, id) where responded_by is not null;
create index invitations_by_email on invitations (email, id) where email is not null;
create index invitations_by_phone on invitations (phone_number, id) where phone_number is not null;
create index invitations_by_user on invitations (user_id, id) where user_id is not null;
