-- Lists without deleted comments, which are the usual ones: a page reads no deleted comment, whether it has replies or not.
create index comments_live on comments (event_id, target_type, target_id, created_at desc, id desc)
  include (org_id) where deleted_at is null;
