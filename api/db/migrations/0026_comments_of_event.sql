-- For the deletion of a draft, which finds all comments of its event: the other indexes have those alone that lists show.
create index comments_of_event on comments (event_id);
