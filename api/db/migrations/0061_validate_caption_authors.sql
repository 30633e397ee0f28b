-- Reads the tables while others write to them: the lock of the migration before would have kept them out.
alter table album_media validate constraint album_media_caption_by;
alter table highlight_items validate constraint highlight_items_caption_by;
