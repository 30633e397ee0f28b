-- Up to where in the stream the effects of a consumer are in this history of the database. Another history (a standby that
-- was promoted, a backup that was restored) may lack the latest ones, whose events the stream has as acknowledged.
-- Up to unconfirmed_to the stream may have events whose own transaction this history lacks.
create table consumer_positions (
  consumer text primary key,
  history text not null,
  stream_seq bigint not null,
  unconfirmed_to bigint not null default 0
) with (fillfactor = 50);

grant select, insert, update, delete on consumer_positions to keepsake_worker;
