-- Who may see a reaction among those who can see the event: all of them, or only those who can see the album of the event.
alter table reactions add column audience text check (audience in ('event', 'album'));

-- For the reactions of an earlier version, which does not say: behind the album in case of doubt.
create function reaction_audience(reaction reactions) returns text language sql stable as $$
  select case reaction.target_type
    when 'meta' then 'event'
    when 'comment' then coalesce((select c.audience from comments c where c.id = reaction.target_id), 'album')
    else case when
      not exists (select from albums a join album_media i on i.album_id = a.id
        join media m on m.id in (i.media_id, (select h.paired_media_id from media h where h.id = i.media_id))
        where a.event_id = reaction.event_id and m.id = reaction.target_id)
      and (select coalesce(bool_and(c.audience = 'event'), false) from comment_media am
        join media m on am.media_id in (m.id, m.paired_media_id)
        join comments c on c.id = am.comment_id and c.deleted_at is null
        where m.id = reaction.target_id and am.event_id = reaction.event_id)
      then 'event' else 'album' end
  end
$$;

-- The owner of the tables is subject to their policies as well, and would read and update nothing; the worker sees all
-- rows. Lifting the policies instead would lock media, albums and comments until the end, for all who read them.
set local role keepsake_worker;
update reactions r set audience = reaction_audience(r);
reset role;
alter table reactions alter column audience set not null;

-- A version before this one may still serve.
create function tell_reaction_audience() returns trigger language plpgsql as $$
begin
  new.audience := reaction_audience(new);
  return new;
end $$;
create trigger tell_reaction_audience before insert on reactions for each row when (new.audience is null)
  execute function tell_reaction_audience();

-- As before, with the audience: counts read the index alone.
drop index reactions_of_target;
create unique index reactions_of_target on reactions (event_id, target_type, target_id, user_id)
  include (org_id, emoji, audience);
