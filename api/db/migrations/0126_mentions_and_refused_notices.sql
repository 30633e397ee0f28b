-- migrate: statement by statement
-- Where a person is mentioned, and captions of the person in highlights, for the questions of holds. Comments without a mention,
-- which are most, cost these indexes nothing. And events whose notices are refused, for a metric. No one waits for them; one that was interrupted is invalid, and made anew.
set lock_timeout = 0;

drop index concurrently if exists comments_by_mention;

create index concurrently comments_by_mention on comments using gin (mentions) where mentions <> '{}';

drop index concurrently if exists comments_by_given_mention;

create index concurrently comments_by_given_mention on comments using gin (mentions_given) where mentions_given <> '{}';

drop index concurrently if exists comment_versions_by_mention;

create index concurrently comment_versions_by_mention on comment_versions using gin (mentions) where mentions <> '{}';

drop index concurrently if exists highlight_items_by_captioner;

create index concurrently highlight_items_by_captioner on highlight_items (caption_by) where caption_by is not null;

drop index concurrently if exists events_by_refused_notices;

create index concurrently events_by_refused_notices on events (purge_notices_refused) where purge_notices_refused > 0;
