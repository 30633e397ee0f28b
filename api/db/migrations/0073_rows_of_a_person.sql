-- migrate: statement by statement
-- What one person has in all organizations, in order of id: for exports of a person's own data, and for their erasure. Nobody
-- waits for these indexes; one that was interrupted is invalid, and made anew.
set lock_timeout = 0;

drop index concurrently if exists media_by_uploader;

create index concurrently media_by_uploader on media (uploader_id, id);

drop index concurrently if exists comments_by_author;

create index concurrently comments_by_author on comments (author_id, id);

drop index concurrently if exists reactions_by_user;

create index concurrently reactions_by_user on reactions (user_id, id);

drop index concurrently if exists events_by_owner;

create index concurrently events_by_owner on events (owner_id, id);

drop index concurrently if exists event_participants_by_user;

create index concurrently event_participants_by_user on event_participants (user_id, event_id);

drop index concurrently if exists albums_by_owner;

create index concurrently albums_by_owner on albums (owner_id, id);

drop index concurrently if exists album_media_by_adder;

create index concurrently album_media_by_adder on album_media (added_by, album_id, media_id);

drop index concurrently if exists album_media_by_captioner;

create index concurrently album_media_by_captioner on album_media (caption_by, album_id, media_id) where caption_by is not null;

drop index concurrently if exists highlights_by_creator;

create index concurrently highlights_by_creator on highlights (created_by, id);

drop index concurrently if exists invitations_by_inviter;

create index concurrently invitations_by_inviter on invitations (invited_by, id);

drop index concurrently if exists invitations_by_responder;

create index concurrently invitations_by_responder on invitations (responded_by, id) where responded_by is not null;

drop index concurrently if exists invitations_by_email;

create index concurrently invitations_by_email on invitations (email, id) where email is not null;

drop index concurrently if exists invitations_by_phone;

create index concurrently invitations_by_phone on invitations (phone_number, id) where phone_number is not null;

drop index concurrently if exists invitations_by_user;

create index concurrently invitations_by_user on invitations (user_id, id) where user_id is not null;
