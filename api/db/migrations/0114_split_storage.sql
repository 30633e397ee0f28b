-- migrate: statement by statement
-- What users of before migration 0113 store, by organization: one after the other, while programs read and write. Until a
-- user's turn all organizations count, as before.
set lock_timeout = '2s';

do $$
declare
  one uuid;
  parts jsonb;
begin
  for one in select user_id from user_storage where not is_split order by user_id loop
    -- Transactions that have counted before are waited for, and their rows are seen; those that come later wait.
    perform from user_storage where user_id = one for no key update;
    -- Row-level security hides all rows from the owner of the tables.
    perform set_config('role', 'keepsake_worker', true);
    select coalesce(jsonb_agg(jsonb_build_object('org', org_id, 'bytes', stored, 'open', opened)), '[]') into parts from (
      select org_id, sum(bytes)::bigint as stored, sum(is_open)::integer as opened from (
        select org_id, file_size_bytes as bytes, 0 as is_open from media where uploader_id = one
        union all
        select org_id, file_size_bytes, 1 from uploads where uploader_id = one and state in ('open', 'merging')
        union all
        select org_id, film_bytes(manifest, deleted_at), 0 from highlights where created_by = one and manifest is not null
        union all
        select org_id, bytes, 0 from media_pieces where used_by = one
      ) each_one group by org_id having sum(bytes) > 0 or sum(is_open) > 0
    ) sums;
    perform set_config('role', 'none', true);
    delete from storage_in_organizations where user_id = one;
    insert into storage_in_organizations (user_id, org_id, bytes, open_uploads)
      select one, (part ->> 'org')::uuid, (part ->> 'bytes')::bigint, (part ->> 'open')::integer
        from jsonb_array_elements(parts) part;
    update user_storage set is_split = true where user_id = one;
    commit;
  end loop;
end $$;

set lock_timeout = 0;
