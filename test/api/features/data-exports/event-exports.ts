import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { endExportsOfOthers, eraseExportsOf } from '../../../../api/features/data-exports/commands.ts'
import { contentsOf } from '../../../../api/features/data-exports/contents.ts'
import { documentOf } from '../../../../api/features/data-exports/document.ts'
import type { ExporterOptions } from '../../../../api/features/data-exports/exporter.ts'
import { dataExportWorker } from '../../../../api/features/data-exports/worker.ts'
import { sweepDownloads } from '../../../../api/features/downloads/downloads.ts'
import { newSlug } from '../../../../api/features/invitations/slug.ts'
import { FEATURES } from '../../../../api/features.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { coldOriginalKey, downloadsPrefix, originalKey, renderPrefix } from '../../../../lib/contract/object-keys.ts'
import { systemClock } from '../../../../lib/runtime/clock.ts'
import { openLog } from '../../../../lib/runtime/log.ts'
import { type ObjectStore, StoreError } from '../../../../lib/runtime/object-store/object-store.ts'
import { type Answer, aPerson, type Person, pathOf, startTestApi, uuidOf } from '../../../support/api.ts'
import { commandLine } from '../../../support/command-line.ts'
import { anOriginal, noUnzip, unpack } from '../../../support/data-exports.ts'
import { eventually } from '../../../support/eventually.ts'
import { matchWhole } from '../../../support/match-whole.ts'
import { quietLog } from '../../../support/quiet-log.ts'

// What exports of events have in common with copies of own data is proved in exports.ts and crash.ts.
if (noUnzip) t.bailout(noUnzip)
const api = await startTestApi(t)
const { call, store, database } = api
const { worker: db, admin } = database
const orgId = uuidOf('organization', api.org)
const sql = (text: string, values: unknown[] = []) => admin.query(text, values).then((r) => r.rows)
const contents = contentsOf(FEATURES.map((feature) => feature.export))

const OWN = '/api/users/me/event-exports'
const request = (who: Person, event: Uuid) =>
  call(who, 'POST', `/api/orgs/${api.org}/events/${formatId('event', event)}/export`)
const show = (who: Person, id: string) => call(who, 'GET', `${OWN}/${id}`)

function working(t: Test, o: { on?: ObjectStore; options?: ExporterOptions } = {}) {
  const log = process.env['DEBUG_LOG'] ? openLog({ program: 'worker', level: 'debug' }) : quietLog()
  const deps = { db, store: o.on ?? store, log, clock: systemClock, counterOf: () => () => {} }
  const feature = dataExportWorker(deps, contents, { idleMs: 50, ...o.options })
  let stopped: Promise<unknown> | undefined
  const stop = () => {
    stopped ??= Promise.resolve(feature.stop?.())
    return stopped
  }
  t.teardown(stop)
  return { ...feature, stop }
}

async function member(name: string, role = 'member'): Promise<Person> {
  const person = await aPerson(api)
  await sql(`insert into memberships (org_id, user_id, role) values ($1, $2, $3)`, [orgId, person.id, role])
  await sql('update users set display_name = $2, email = $3 where id = $1', [
    person.id,
    name,
    `${person.id}@example.org`,
  ])
  return person
}
const original = (who: Person, name: string, content: Buffer | string = name) =>
  anOriginal({ admin, store }, { orgId, userId: who.id, name, content })

interface Gathering {
  event: Uuid
  album: Uuid
}
/** An archived event with an album that members see, of the person or of another one. */
async function gathering(
  owner: Person,
  { albumOwner = owner, visibility = 'organization' }: { albumOwner?: Person; visibility?: string } = {},
): Promise<Gathering> {
  const [event, album] = [newUuid(), newUuid()]
  await sql(
    `insert into events (id, org_id, owner_id, title, description, start_at, status, archived_at)
      values ($1, $2, $3, 'Reunion', 'The tenth', '2026-11-21T18:00:00Z', 'archived', now())`,
    [event, orgId, owner.id],
  )
  await sql(
    `insert into albums (id, org_id, owner_id, event_id, title, status, visibility)
      values ($1, $2, $3, $4, 'Album of it', 'PUBLIC', $5)`,
    [album, orgId, albumOwner.id, event, visibility],
  )
  return { event, album }
}
let places = 0
const intoAlbum = (album: Uuid, media: Uuid, by: Person, caption: string | null = null) =>
  sql(
    `insert into album_media (album_id, media_id, org_id, position, caption, listed, added_by)
      values ($1, $2, $3, $4, $5, true, $6)`,
    [album, media, orgId, places++, caption, by.id],
  )
async function say(
  { event }: Gathering,
  author: Person,
  text: string,
  o: { audience?: string; media?: Uuid; attached?: readonly Uuid[]; to?: Uuid; mentions?: Uuid[] } = {},
): Promise<Uuid> {
  // Ids of one millisecond have no order, and exports list comments by id.
  await sleep(2)
  const id = newUuid()
  const type = o.to ? 'comment' : o.media ? 'media' : 'meta'
  await sql(
    `insert into comments (id, org_id, event_id, target_type, target_id, media_id, audience, author_id, body, mentions)
      values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
    [
      ...[id, orgId, event, type, o.to ?? o.media ?? event, o.media ?? null, o.audience ?? 'event', author.id, text],
      o.mentions ?? [],
    ],
  )
  for (const [position, media] of (o.attached ?? []).entries()) {
    await sql(
      `insert into comment_media (comment_id, position, org_id, event_id, media_id) values ($1, $2, $3, $4, $5)`,
      [id, position, orgId, event, media],
    )
  }
  return id
}
const react = ({ event }: Gathering, who: Person, type: string, target: Uuid, audience = 'event') =>
  sql(
    `insert into reactions (id, org_id, event_id, target_type, target_id, user_id, emoji, audience)
      values ($1, $2, $3, $4, $5, $6, '🔥', $7)`,
    [newUuid(), orgId, event, type, target, who.id, audience],
  )
/** A finished film of an album, of a media item. */
async function film({ album }: Gathering, by: Person, title: string, of: Uuid, ofWhom: Person): Promise<Uuid> {
  const id = newUuid()
  const prefix = renderPrefix(orgId, id, 1)
  await sql(
    `insert into highlights (id, org_id, created_by, album_id, title, transition, orientation, fill, ken_burns, show_title,
       captions, skip_broken, estimated_duration_sec, status, output_prefix, hls_master, duration_sec)
      values ($1, $2, $3, $4, $5, 'cut', 'auto', 'blur', true, true, 'none', true, 9, 'completed', $6, 'master.m3u8', 9)`,
    [id, orgId, by.id, album, title, prefix],
  )
  await sql(
    `insert into highlight_items (highlight_id, org_id, position, media_id, source_id, uploader_id, type, seconds, caption)
      values ($1, $2, 0, $3, $3, $4, 'image', 3, '')`,
    [id, orgId, of, ofWhom.id],
  )
  for (const name of ['master.m3u8', 'v720/playlist.m3u8', 'v720/0.m4s', 'manifest.json']) {
    await store.put(prefix + name, Buffer.from(`${title} ${name}`), { contentType: 'application/octet-stream' })
  }
  return id
}
const ended = (who: Person, id: string, status: string): Promise<Answer> =>
  eventually(`${status} of the export`, async () => {
    const answer = await show(who, id)
    if (answer.data?.status === 'failed' && status !== 'failed') throw new Error(JSON.stringify(answer.data.error))
    return answer.data?.status === status ? answer : undefined
  })
async function filesOf(t: Test, answer: Answer): Promise<Map<string, Buffer>> {
  const all = new Map<string, Buffer>()
  for (const { download_url } of answer.data.parts) {
    const { body } = await call(undefined, 'GET', pathOf(download_url))
    for (const [path, content] of (await unpack(t, body as Buffer)).files) all.set(path, content)
  }
  return all
}
const mediaIn = (files: Map<string, Buffer>) =>
  [...files.keys()].filter((path) => path.startsWith('2026/')).map((path) => path.split('/').at(-1))
/** The export of the event as this person gets it. */
async function exported(t: Test, who: Person, { event }: Gathering, options: ExporterOptions = {}) {
  const asked = await request(who, event)
  t.equal(asked.status, 202)
  const worker = working(t, { options })
  const ready = await ended(who, asked.data.export_id, 'completed')
  await worker.stop()
  const files = await filesOf(t, ready)
  const document = JSON.parse(String(files.get('event.json')))
  t.strictSame(documentOf(contents.event).parse(document), document, 'as documented')
  return { id: asked.data.export_id as string, ready, files, document }
}

t.test('its owner gets everything of an event, of all people, and nothing else', async (t) => {
  const [owner, ben, guest] = [await member('Ann'), await member('Ben'), await aPerson(api)]
  const of = await gathering(owner)
  const mine = await original(owner, 'mine.jpg')
  const cold = await original(ben, 'cold.jpg')
  await store.put(coldOriginalKey(orgId, cold), Buffer.from('from the cold tier'), { contentType: 'image/jpeg' })
  await sql(`update media set original_tier = 'cold', file_size_bytes = 18 where id = $1`, [cold])
  await store.delete(originalKey(orgId, cold))
  const [image, video] = [await original(ben, 'live.heic'), await original(ben, 'live.mov')]
  await sql(`update media set kind = 'video', paired_media_id = $2 where id = $1`, [video, image])
  await sql('update media set paired_media_id = $2 where id = $1', [image, video])
  const trashed = await original(ben, 'TRASHED.jpg')
  for (const [media, by, caption] of [
    [mine, owner, 'On the hill'],
    [cold, ben, null],
    [image, ben, null],
    [trashed, ben, 'SECRET-CAPTION'],
  ] as const) {
    await intoAlbum(of.album, media, by, caption)
  }
  await sql('update media set deleted_at = now() where id = $1', [trashed])
  const attached = await original(ben, 'attached.png')
  const dropped = await original(ben, 'OF-DELETED-COMMENT.png')
  await original(ben, 'ELSEWHERE.jpg')
  const first = await say(of, ben, 'That was fun', { attached: [attached] })
  await say(of, owner, 'It was', { to: first })
  await say(of, ben, 'Which hill?', { media: mine, audience: 'album' })
  await say(of, ben, 'SECRET about what was deleted', { media: trashed, audience: 'album' })
  const gone = await say(of, ben, 'SECRET that was deleted', { attached: [dropped] })
  await sql('update comments set deleted_at = now(), deleted_by = author_id where id = $1', [gone])
  const elsewhere = await gathering(ben)
  await say(elsewhere, ben, 'SECRET of another event', { attached: [await original(ben, 'OF-OTHER-EVENT.png')] })
  await react(of, ben, 'meta', of.event)
  await react(of, owner, 'comment', first)
  await react(of, ben, 'media', image, 'album')
  for (const [who, status] of [
    [ben, 'accepted'],
    [guest, 'invited'],
  ] as const) {
    await sql(
      `insert into event_participants (event_id, user_id, org_id, status, joined_at)
        values ($1, $2, $3, $4, case when $4 = 'accepted' then now() end)`,
      [of.event, who.id, orgId, status],
    )
  }
  await sql('update users set display_name = $2 where id = $1', [guest.id, 'SECRET-NAME'])
  await sql(
    `insert into invitations (id, org_id, event_id, slug, email, message, invited_by, token_expires_at)
      values ($1, $2, $3, $4, 'SECRET-ADDRESS@example.org', 'Come!', $5, now() - interval '1 day')`,
    [newUuid(), orgId, of.event, newSlug(), owner.id],
  )
  const made = await film(of, ben, 'The film', mine, owner)
  await film(of, ben, 'The film', cold, ben)
  const withdrawn = await film(of, ben, 'DELETED-FILM', mine, owner)
  await sql('update highlights set deleted_at = now(), deleted_by = created_by where id = $1', [withdrawn])

  const { id, ready, files, document } = await exported(t, owner, of)
  t.match(ready.data, { event_title: 'Reunion', event_id: formatId('event', of.event), org_id: api.org, error: null })
  t.strictSame(
    mediaIn(files).toSorted(),
    ['attached.png', 'cold.jpg', 'live.heic', 'live.mov', 'mine.jpg'],
    'the originals of the album and of comments',
  )
  t.equal(String(files.get('2026/2026-11-21 Reunion/cold.jpg')), 'from the cold tier')
  t.strictSame(
    [...files.keys()].filter((path) => path.startsWith('films/')).toSorted(),
    ['The film (2)', 'The film'].flatMap((folder) =>
      ['master.m3u8', 'v720/0.m4s', 'v720/playlist.m3u8'].map((name) => `films/${folder}/${name}`),
    ),
  )
  t.equal(String(files.get('films/The film/v720/0.m4s')), 'The film v720/0.m4s')
  matchWhole(t, document, {
    format: 'keepsake-event-export',
    event_id: formatId('event', of.event),
    event: [{ title: 'Reunion', description: 'The tenth', host_name: 'Ann', reactions: { '🔥': 1 } }],
    albums: [{ title: 'Album of it', media_count: 3, owner_name: 'Ann' }],
    comments: [
      { text: 'That was fun', author_name: 'Ben', reactions: { '🔥': 1 } },
      { text: 'It was', about: 'comment', reply_to: formatId('comment', first) },
      { text: 'Which hill?', about: 'media', media_id: formatId('media', mine) },
    ],
    invitations: [{ email: 'S***@example.org', status: 'expired', invited_by_name: 'Ann', message: 'Come!' }],
    films: [
      { highlight_id: formatId('highlight', made), file: 'films/The film/master.m3u8', created_by_name: 'Ben' },
      { file: 'films/The film (2)/master.m3u8' },
    ],
  })
  t.strictSame(
    document.media.map((one: Record<string, unknown>) => [
      ...['filename', 'in_album', 'caption', 'uploader_name'].map((name) => one[name]),
      one['reactions'],
      (one['file'] as string).split('/').at(-1),
    ]),
    [
      ['mine.jpg', true, 'On the hill', 'Ann', null, 'mine.jpg'],
      ['cold.jpg', true, null, 'Ben', null, 'cold.jpg'],
      ['live.heic', true, null, 'Ben', { '🔥': 1 }, 'live.heic'],
      ['live.mov', true, null, 'Ben', null, 'live.mov'],
      ['attached.png', false, null, 'Ben', null, 'attached.png'],
    ],
  )
  t.strictSame(
    document.participants.map((one: Record<string, unknown>) => [one['display_name'], one['status']]).toSorted(),
    [
      ['Ben', 'accepted'],
      [null, 'invited'],
    ].toSorted(),
  )
  for (const [path, content] of files) t.notMatch(String(content), /SECRET/, `nothing that is not shown in ${path}`)
  t.match(String(files.get('index.html')), /Reunion, saved on/)

  t.strictSame(await sql('select * from data_export_entries'), [], 'no name of a file is kept')
  matchWhole(
    t,
    await sql(`select org_id, details from audit_log where action = 'DATA_EXPORT' and actor_id = $1`, [owner.id]),
    [{ org_id: orgId, details: { operation: 'request', event_id: formatId('event', of.event) } }],
  )
  matchWhole(
    t,
    await sql('select d.kind from downloads d join notifications n on n.download_id = d.id where d.id = $1', [
      uuidOf('export', id),
    ]),
    [{ kind: 'event' }],
  )
  t.strictSame((await call(owner, 'GET', '/gdpr/export')).data.exports, [], 'it is no copy of own data')
  t.equal((await call(owner, 'GET', `/gdpr/export/${id}`)).status, 404)
  t.equal((await call(owner, 'DELETE', `/gdpr/export/${id}`)).status, 404)
  for (const method of ['GET', 'DELETE']) t.equal((await call(ben, method, `${OWN}/${id}`)).status, 404)
})

t.test('those who manage the event may ask, and others do not learn of it', async (t) => {
  const [owner, boss, other, stranger] = [
    await member('Ann'),
    await member('Boss', 'admin'),
    await member('Other'),
    await aPerson(api),
  ]
  const { event } = await gathering(owner)
  t.equal((await request(other, event)).status, 404)
  t.equal((await request(stranger, event)).status, 404)
  t.equal((await request(owner, newUuid())).status, 404)
  for (const who of [owner, boss]) {
    const [one, two] = await Promise.all([request(who, event), request(who, event)])
    t.strictSame([one?.status, two?.status].toSorted(), [200, 202], 'two requests at once start one')
    t.equal(one?.data.export_id, two?.data.export_id)
    t.match((await call(who, 'GET', OWN)).data.exports, [{ export_id: one?.data.export_id, status: 'processing' }])
  }
  const { data } = await call(owner, 'GET', `/api/orgs/${api.org}/events/${formatId('event', event)}`)
  t.ok(data.can.includes('event.export'))
  await sql('delete from memberships where org_id = $1 and user_id = $2', [orgId, owner.id])
  t.equal((await request(owner, event)).status, 404, 'an owner who has left may not')
  await sql(`update data_exports set state = 'removed' where event_id = $1`, [event])
})

t.test('three exports of events within a day, beside those of own data', async (t) => {
  const owner = await member('Ann')
  for (let n = 0; n < 3; n++) {
    const { event } = await gathering(owner)
    const asked = await request(owner, event)
    t.equal(asked.status, 202)
    t.equal((await call(owner, 'DELETE', `${OWN}/${asked.data.export_id}`)).status, 204)
    t.equal((await show(owner, asked.data.export_id)).status, 404)
  }
  const refused = await request(owner, (await gathering(owner)).event)
  t.match(refused, { status: 429, code: 'RATE_LIMITED' })
  t.equal((await call(owner, 'POST', '/gdpr/export')).status, 202)
  await sql(`update data_exports set state = 'removed' where user_id = $1`, [owner.id])
})

t.test('the album that another member made of the event is in it, also a private one', async (t) => {
  const [owner, boss] = [await member('Ann'), await member('Boss', 'admin')]
  const of = await gathering(owner, { albumOwner: boss, visibility: 'private' })
  const inside = await original(boss, 'inside.jpg')
  await intoAlbum(of.album, inside, boss, 'Inside')
  await say(of, boss, 'About it', {
    media: inside,
    audience: 'album',
    attached: [await original(boss, 'attached.jpg')],
  })
  await react(of, boss, 'media', inside, 'album')
  await film(of, boss, 'Film of another', inside, boss)
  await film(of, owner, 'Own film', inside, boss)
  for (const who of [owner, boss]) {
    const { files, document } = await exported(t, who, of)
    t.strictSame(mediaIn(files).toSorted(), ['attached.jpg', 'inside.jpg'])
    t.equal(document.albums.length, 1)
    t.equal(document.comments.length, 1)
    t.equal(document.films.length, 2)
  }
})

/** A store that waits with the first file of this kind. */
function held(isThis: (key: string) => boolean) {
  const { promise: reached, resolve: reach } = Promise.withResolvers<void>()
  const { promise: gate, resolve: go } = Promise.withResolvers<void>()
  const on: ObjectStore = {
    ...store,
    async get(key, range, signal) {
      if (isThis(key)) {
        reach()
        await gate
      }
      return store.get(key, range, signal)
    },
  }
  return { on, reached, go }
}
const SMALL = { bytes: 14_000, pageBytes: 2000, dataBytes: 8000, files: 50 }

t.test('who loses the right, or the event, while it is made gets nothing', async (t) => {
  const losses: [string, string, (who: Person, of: Gathering) => Promise<unknown>][] = [
    [
      'NOT_PERMITTED',
      'the member leaves',
      ({ id }) => sql('delete from memberships where org_id = $1 and user_id = $2', [orgId, id]),
    ],
    [
      'NOT_PERMITTED',
      'an administrator becomes a member',
      ({ id }) => sql(`update memberships set role = 'member' where org_id = $1 and user_id = $2`, [orgId, id]),
    ],
    [
      'EVENT_GONE',
      'the event is purged',
      async (_, { event, album }) => {
        await sql('delete from album_media where album_id = $1', [album])
        await sql('delete from albums where id = $1', [album])
        await sql('delete from events where id = $1', [event])
      },
    ],
  ]
  for (const [code, name, lose] of losses) {
    for (const when of ['before the plan', 'in a part', 'before the last part is recorded'] as const) {
      const boss = await member('Boss', 'admin')
      const of = await gathering(await member('Ann'))
      for (let n = 0; n < 5; n++)
        await intoAlbum(of.album, await original(boss, `${n}.jpg`, Buffer.alloc(4000, 'x')), boss)
      const asked = await request(boss, of.event)
      const id = asked.data.export_id as string
      if (when === 'before the plan') {
        await lose(boss, of)
        await working(t).stop()
      }
      let isLost = false
      const on: ObjectStore = {
        ...store,
        async completeMultipart(key, uploadId, parts) {
          const info = await store.completeMultipart(key, uploadId, parts)
          const isLast = key.includes('-part-1-of-')
          if (key.endsWith('.zip') && !isLost && isLast === (when === 'before the last part is recorded')) {
            isLost = true
            await lose(boss, of)
          }
          return info
        },
      }
      const worker = working(t, { on, options: { limits: SMALL, batch: 2 } })
      const { data } = await ended(boss, id, 'failed')
      await worker.stop()
      t.match(data, { error: { code }, parts: [], event_title: 'Reunion' }, `${name} ${when}`)
      t.strictSame(await sql('select from downloads where id = $1', [uuidOf('export', id)]), [])
      await sweepDownloads({ db, store, log: quietLog() })
      t.strictSame(await api.keys(downloadsPrefix(boss.id)), [], 'parts that were made go')
      t.strictSame(await sql('select from data_export_entries'), [], 'with the names of the files')
      const cli = await commandLine(['data-exports', 'retry', id], { DATABASE_URL: database.url })
      t.strictSame(cli.out, { retried: false }, 'no administrator lets it go on')
    }
  }
})

t.test('what is taken from the event while a part is made is not in it', async (t) => {
  const [owner, boss] = [await member('Ann'), await member('Boss', 'admin')]
  const of = await gathering(owner, { albumOwner: boss })
  const [kept, taken] = [await original(boss, 'kept.jpg'), await original(boss, 'taken.jpg')]
  for (const one of [kept, taken]) await intoAlbum(of.album, one, boss)
  const cut = await film(of, boss, 'Cut', kept, boss)
  const gate = held((key) => key.endsWith('/original'))
  const { data } = await request(owner, of.event)
  const worker = working(t, { on: gate.on })
  await gate.reached
  await sql('delete from album_media where media_id = $1', [taken])
  await sql('update highlights set deleted_at = now(), deleted_by = created_by where id = $1', [cut])
  gate.go()
  const files = await filesOf(t, await ended(owner, data.export_id, 'completed'))
  await worker.stop()
  t.strictSame(mediaIn(files), ['kept.jpg'])
  t.strictSame(
    [...files.keys()].filter((path) => path.startsWith('films/')),
    [],
  )
})

/** Does something, once, when the last part is in the store and not recorded. */
const beforeTheEnd = (act: () => Promise<unknown>): ObjectStore => {
  let acted: Promise<unknown> | undefined
  return {
    ...store,
    async completeMultipart(key, uploadId, parts) {
      const info = await store.completeMultipart(key, uploadId, parts)
      if (key.includes('-part-1-of-')) acted ??= act()
      await acted
      return info
    },
  }
}

t.test('what the person no longer sees when the last part is recorded is in no part', async (t) => {
  for (const [what, take, want] of [
    [
      'a photo is taken out',
      (_: Gathering, media: Uuid) => sql('delete from album_media where media_id = $1', [media]),
      4,
    ],
    ['the album is gone', ({ album }: Gathering) => sql('delete from albums where id = $1', [album]), 0],
  ] as const) {
    const [owner, boss] = [await member('Ann'), await member('Boss', 'admin')]
    const of = await gathering(owner, { albumOwner: boss })
    for (let n = 0; n < 5; n++)
      await intoAlbum(of.album, await original(boss, `${n}.jpg`, Buffer.alloc(4000, 'x')), boss, 'CAPTION')
    const { data } = await request(owner, of.event)
    const id = uuidOf('export', data.export_id)
    const worker = working(t, {
      options: { limits: SMALL, batch: 2 },
      on: beforeTheEnd(async () => {
        const [other] = await sql('select media_id from data_export_entries where export_id = $1 and part > 1', [id])
        await take(of, other.media_id)
      }),
    })
    const ready = await ended(owner, data.export_id, 'completed')
    await worker.stop()
    t.ok(ready.data.parts.length > 1, what)
    const files = await filesOf(t, ready)
    t.equal(mediaIn(files).length, want, what)
    if (want === 0) t.notMatch(String(files.get('event.json')), /CAPTION/)
    await sql('delete from downloads where user_id = $1', [owner.id])
  }
})

t.test('a film of which a file is lost is not in it', async (t) => {
  const owner = await member('Ann')
  const of = await gathering(owner)
  await film(of, owner, 'Cut', newUuid(), owner)
  await film(of, owner, 'Whole', newUuid(), owner)
  const { data } = await request(owner, of.event)
  let lost: string | undefined
  const isLost = (key: string) => {
    if (key.endsWith('v720/0.m4s')) lost ??= key
    return key === lost
  }
  const on: ObjectStore = {
    ...store,
    get: async (key, ...more) => {
      if (isLost(key)) throw new StoreError('NotFound', 'lost')
      return store.get(key, ...more)
    },
    head: async (key, ...more) => (isLost(key) ? undefined : store.head(key, ...more)),
  }
  const worker = working(t, { on })
  const files = await filesOf(t, await ended(owner, data.export_id, 'completed'))
  await worker.stop()
  t.equal([...files.keys()].filter((path) => path.startsWith('films/')).length, 3, 'the files of the other one')
})

t.test(
  'behind the erasure of the owner, or without its step, nothing keeps the title or what was theirs',
  async (t) => {
    const [boss, ann] = [await member('Boss', 'admin'), await member('Ann')]
    const [of, later] = [await gathering(ann), await gathering(ann)]
    const { id } = await exported(t, boss, of)
    await sql('update users set closed_at = now() where id = $1', [ann.id])
    const worker = working(t)
    await worker.tasks?.[0]?.run(0, new AbortController().signal)
    t.match((await show(boss, id)).data, { status: 'failed', error: { code: 'CONTENTS_ERASED' }, event_title: null })
    t.equal((await request(boss, later.event)).data.event_title, null)
    t.strictSame(
      await sql('select from data_exports where event_owner_id = $1 or event_title is not null and user_id = $2', [
        ann.id,
        boss.id,
      ]),
      [],
    )
  },
)

t.test('a film is in one part as a whole', async (t) => {
  const owner = await member('Ann')
  const of = await gathering(owner)
  for (let n = 0; n < 3; n++)
    await intoAlbum(of.album, await original(owner, `${n}.jpg`, Buffer.alloc(3500, 'x')), owner)
  const id = await film(of, owner, 'Long', newUuid(), owner)
  for (let n = 1; n < 3; n++) {
    const segment = { contentType: 'application/octet-stream' }
    await store.put(`${renderPrefix(orgId, id, 1)}v720/${n}.m4s`, Buffer.alloc(3500, 'y'), segment)
  }
  const { ready } = await exported(t, owner, of, { limits: SMALL, batch: 1 })
  t.ok(ready.data.parts.length > 1)
  const withFilm: number[] = []
  for (const { number, download_url } of ready.data.parts) {
    const { files } = await unpack(t, (await call(undefined, 'GET', pathOf(download_url))).body as Buffer)
    const count = [...files.keys()].filter((path) => path.startsWith('films/Long/')).length
    if (count > 0) withFilm.push(number, count)
  }
  t.equal(withFilm.length, 2)
  t.equal(withFilm[1], 5)
})

t.test('an export outlives its event, until it expires', async (t) => {
  const owner = await member('Ann')
  const of = await gathering(owner)
  await intoAlbum(of.album, await original(owner, 'a.jpg'), owner)
  const { id, ready } = await exported(t, owner, of)
  await sql('delete from album_media where album_id = $1', [of.album])
  await sql('delete from albums where id = $1', [of.album])
  await sql('delete from events where id = $1', [of.event])
  const answer = await show(owner, id)
  t.match(answer.data, { status: 'completed', event_title: 'Reunion', expires_at: ready.data.expires_at })
  t.strictSame(mediaIn(await filesOf(t, answer)), ['a.jpg'])
  await sql(`update data_exports set expires_at = now() where user_id = $1`, [owner.id])
  await sql(`update downloads set expires_at = now() where user_id = $1`, [owner.id])
  matchWhole(t, (await call(owner, 'GET', OWN)).data.exports, [{ status: 'expired', parts: [] }])
  await sweepDownloads({ db, store, log: quietLog() })
  t.strictSame(await api.keys(downloadsPrefix(owner.id)), [])
})

t.test('an erasure ends the exports of the person, and those of others that have anything of the person', async (t) => {
  const ways: [string, (of: Gathering, ben: Person, owner: Person) => Promise<unknown>][] = [
    ['a photo', async ({ album }, ben, owner) => intoAlbum(album, await original(ben, 'b.jpg'), owner)],
    ['a comment', (of, ben) => say(of, ben, 'words')],
    ['a mention', (of, ben, owner) => say(of, owner, 'hello you', { mentions: [ben.id] })],
    [
      'an invitation by mail',
      ({ event }, ben, owner) =>
        sql(
          `insert into invitations (id, org_id, event_id, slug, email, invited_by, token_expires_at)
            values ($1, $2, $3, $4, $5, $6, now())`,
          [newUuid(), orgId, event, newSlug(), `${ben.id}@example.org`, owner.id],
        ),
    ],
    [
      'a participation',
      ({ event }, ben) =>
        sql(
          `insert into event_participants (event_id, user_id, org_id, status, joined_at) values ($1, $2, $3, 'accepted', now())`,
          [event, ben.id, orgId],
        ),
    ],
    ['a part of a film', async (of, ben, owner) => film(of, owner, 'Film', newUuid(), ben)],
  ]
  for (const [name, leave] of ways) {
    const [owner, ben] = [await member('Ann'), await member('Ben')]
    const [of, without] = [await gathering(owner), await gathering(owner)]
    await leave(of, ben, owner)
    const { id, ready } = await exported(t, owner, of)
    const { id: other } = await exported(t, owner, without)
    t.equal(await db.inTransaction({}, (tx) => endExportsOfOthers(tx, ben.id)), 1, name)
    t.match((await show(owner, id)).data, { status: 'failed', error: { code: 'CONTENTS_ERASED' }, parts: [] }, name)
    t.equal((await call(undefined, 'GET', pathOf(ready.data.parts[0].download_url))).status, 404)
    t.equal((await show(owner, other)).data.status, 'completed', 'an export without anything of the person stays')
    t.equal(await db.inTransaction({}, (tx) => endExportsOfOthers(tx, ben.id)), 0, 'and twice')
    await sql('delete from downloads where user_id = $1', [owner.id])
  }
  const [boss, ann] = [await member('Boss', 'admin'), await member('Ann')]
  const of = await gathering(ann)
  const { id } = await exported(t, boss, of)
  await db.inTransaction({}, (tx) => endExportsOfOthers(tx, ann.id))
  t.match((await show(boss, id)).data, { status: 'failed', event_title: null }, 'the title was of the owner')
  await db.inTransaction({}, (tx) => eraseExportsOf(tx, boss.id))
  t.equal((await show(boss, id)).status, 404)
  t.strictSame(await sql('select from data_exports where user_id = $1', [boss.id]), [])
})

t.test('an erasure ends an export under way, and what comes behind it has nothing of the person', async (t) => {
  const [owner, ben] = [await member('Ann'), await member('Ben')]
  const of = await gathering(owner)
  await intoAlbum(of.album, await original(owner, 'kept.jpg'), owner)
  await intoAlbum(of.album, await original(ben, 'of-ben.jpg'), ben)
  await say(of, ben, 'BEN-WORDS')
  await say(of, owner, 'hello BEN-MENTION', { mentions: [ben.id] })
  await film(of, ben, 'BEN-FILM', newUuid(), owner)
  const gate = held((key) => key.endsWith('/original'))
  const { data } = await request(owner, of.event)
  const worker = working(t, { on: gate.on })
  await gate.reached
  await sql('update users set closed_at = now() where id = $1', [ben.id])
  await db.inTransaction({}, (tx) => endExportsOfOthers(tx, ben.id))
  gate.go()
  t.match((await ended(owner, data.export_id, 'failed')).data, { error: { code: 'CONTENTS_ERASED' } })
  await worker.stop()
  await sweepDownloads({ db, store, log: quietLog() })
  t.strictSame(await api.keys(downloadsPrefix(owner.id)), [])
  const { files } = await exported(t, owner, of)
  t.strictSame(mediaIn(files), ['kept.jpg'])
  for (const [path, content] of files) t.notMatch(`${path} ${content}`, /BEN-/, path)
})

t.test('people of an ended export are forgotten', async (t) => {
  const [owner, ben] = [await member('Ann'), await member('Ben')]
  const of = await gathering(owner)
  await say(of, ben, 'words')
  const { id } = await exported(t, owner, of)
  const people = () => sql('select user_id from data_export_people where export_id = $1', [uuidOf('export', id)])
  t.strictSame(await people(), [{ user_id: ben.id }], 'and not the person who asked')
  t.equal((await call(owner, 'DELETE', `${OWN}/${id}`)).status, 204)
  const worker = working(t)
  await worker.tasks?.[0]?.run(0, new AbortController().signal)
  t.strictSame(await people(), [])
})
