-- migrate: statement by statement
-- What migrations 0052, 0080 and 0082 would do under locks that keep programs out. Each statement may run again.
set lock_timeout = '2s';

select audit_make_days(14);

-- Pieces that highlights of before have used. Later ones note theirs themselves.
insert into media_pieces (media_id, org_id, used_by, used_at)
  select distinct on (m.id) m.id, m.org_id, h.created_by, coalesce(h.finished_at, h.created_at)
    from highlights h join highlight_items i on i.highlight_id = h.id join media m on m.id = i.source_id
    where h.render_admitted_at is not null and i.skipped is null
      and coalesce(h.finished_at, h.created_at) > now() - interval '40 days'
    order by m.id, coalesce(h.finished_at, h.created_at) desc
  on conflict do nothing;

-- Reads the table while others write to it.
alter table media validate constraint media_original_tier_check;
