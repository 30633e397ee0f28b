-- When the first migration was applied names an installation: each dump and each replica of the database has this time, and
-- no other installation does. The worker claims the event stream with it.
grant select (applied_at) on schema_migrations to keepsake_worker;
