-- `license` in the spelling of the API. Until no version that knows `licence` alone runs or can be rolled back to, both
-- columns stay, and a trigger keeps them equal whichever of the two a program writes.
alter table music_tracks add column license text;
update music_tracks set license = licence;
alter table music_tracks alter column license set not null;

create function spell_license() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' and new.license is not distinct from old.license then
    new.license := new.licence;
  end if;
  new.license := coalesce(new.license, new.licence);
  new.licence := new.license;
  return new;
end $$;
create trigger spell_license before insert or update of licence, license on music_tracks for each row
  execute function spell_license();

-- Why an item is not in the film, where that was known when the highlight was created. A worker of an earlier version does
-- not know the column: it gives the item to the render, which finds it broken and leaves it out.
alter table highlight_items add column skipped text;

-- An album goes with its places, an event with all that belongs to it; highlights of the album stay, without an album.
grant delete on albums, events to keepsake_api;
