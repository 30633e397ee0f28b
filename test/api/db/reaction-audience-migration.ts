import t from 'tap'
import { newUuid } from '../../../lib/contract/ids.ts'
import { databaseBefore } from '../../support/older-database.ts'

t.test('a reaction of an earlier version is for the album in case of doubt', async (t) => {
  const { admin, finish } = await databaseBefore(t, '0024_reaction_audience.sql')
  const [org, event, album] = [newUuid(), newUuid(), newUuid()]
  await admin.query('insert into organizations (id, name) values ($1, $2)', [org, 'One'])
  const aUser = async () => {
    const id = newUuid()
    await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [id, 'i', id])
    return id
  }
  const user = await aUser()
  await admin.query(`insert into events (id, org_id, owner_id, title, start_at) values ($1, $2, $3, 'E', now())`, [
    event,
    org,
    user,
  ])
  await admin.query(`insert into albums (id, org_id, owner_id, event_id, title) values ($1, $2, $3, $4, 'A')`, [
    album,
    org,
    user,
    event,
  ])
  const item = async (o: { inAlbum?: boolean; attachedFor?: string } = {}) => {
    const id = newUuid()
    await admin.query(
      `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes)
        values ($1, $2, $3, 'a', 'image/jpeg', 'image', 1)`,
      [id, org, user],
    )
    if (o.inAlbum) {
      await admin.query(
        `insert into album_media (album_id, media_id, org_id, position, listed, added_by)
          select $1, $2, $3, count(*), true, $4 from album_media`,
        [album, id, org, user],
      )
    }
    if (o.attachedFor) {
      const comment = await aComment(o.attachedFor)
      await admin.query(
        'insert into comment_media (comment_id, position, org_id, event_id, media_id) values ($1, 0, $2, $3, $4)',
        [comment, org, event, id],
      )
    }
    return id
  }
  const aComment = async (audience: string) => {
    const id = newUuid()
    await admin.query(
      `insert into comments (id, org_id, event_id, target_type, target_id, media_id, audience, author_id, body)
        select $1, $2, $3, 'media', m, m, $4, $5, '' from (select gen_random_uuid() as m) one`,
      [id, org, event, audience, user],
    )
    return id
  }
  const CASES: [what: string, type: string, target: string, audience: string][] = [
    ['the event', 'meta', event, 'event'],
    ['a comment', 'comment', await aComment('event'), 'event'],
    ['a comment behind the album', 'comment', await aComment('album'), 'album'],
    ['in the album', 'media', await item({ inAlbum: true }), 'album'],
    ['attached', 'media', await item({ attachedFor: 'event' }), 'event'],
    ['attached behind the album', 'media', await item({ attachedFor: 'album' }), 'album'],
    ['both', 'media', await item({ inAlbum: true, attachedFor: 'event' }), 'album'],
    ['nowhere any more', 'media', await item(), 'album'],
  ]
  // As an earlier version writes it, also while this one is being rolled out.
  const write = async (by: string, emoji: string) => {
    for (const [, type, target] of CASES) {
      await admin.query(
        `insert into reactions (id, org_id, event_id, target_type, target_id, user_id, emoji) values ($1, $2, $3, $4, $5, $6, $7)
          on conflict (event_id, target_type, target_id, user_id) do update set emoji = excluded.emoji`,
        [newUuid(), org, event, type, target, by, emoji],
      )
    }
  }
  const read = async (by: string) => {
    const { rows } = await admin.query('select target_id, audience, emoji from reactions where user_id = $1', [by])
    return CASES.map(([what, , target]) => {
      const row = rows.find(({ target_id }) => target_id === target)
      return [what, row?.audience, row?.emoji]
    })
  }
  const wanted = (emoji: string) => CASES.map(([what, , , audience]) => [what, audience, emoji])
  await write(user, '🔥')
  await finish()
  t.strictSame(await read(user), wanted('🔥'))
  const late = await aUser()
  await write(late, '🎉')
  await write(late, '👏')
  t.strictSame(await read(late), wanted('👏'))
  const { rows: forced } = await admin.query(
    `select relname from pg_class where not relforcerowsecurity and relname = any($1)`,
    [['reactions', 'comments', 'comment_media', 'albums', 'album_media', 'media']],
  )
  t.strictSame(forced, [], 'the owner is subject to the policies again')
})
