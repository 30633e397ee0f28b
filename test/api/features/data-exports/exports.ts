import t, { type Test } from 'tap'
import type { Database } from '../../../../api/db/db.ts'
import { eraseExportsOf } from '../../../../api/features/data-exports/commands.ts'
import { contentsOf } from '../../../../api/features/data-exports/contents.ts'
import { documentOf } from '../../../../api/features/data-exports/document.ts'
import type { ExporterOptions } from '../../../../api/features/data-exports/exporter.ts'
import { MAX_FAILURES } from '../../../../api/features/data-exports/plan.ts'
import { uploadInPieces } from '../../../../api/features/data-exports/upload.ts'
import { dataExportWorker } from '../../../../api/features/data-exports/worker.ts'
import { deleteDownloadObjects, sweepDownloads } from '../../../../api/features/downloads/downloads.ts'
import { newSlug } from '../../../../api/features/invitations/slug.ts'
import { FEATURES } from '../../../../api/features.ts'
import { coldKeyOf } from '../../../../lib/contract/cold-key.ts'
import { newUuid, parseId, type Uuid } from '../../../../lib/contract/ids.ts'
import { downloadsPrefix, originalKey } from '../../../../lib/contract/object-keys.ts'
import { systemClock } from '../../../../lib/runtime/clock.ts'
import { openLog } from '../../../../lib/runtime/log.ts'
import { type ObjectStore, StoreError } from '../../../../lib/runtime/object-store/object-store.ts'
import { type Answer, aPerson, type Person, pathOf, startTestApi, uuidOf } from '../../../support/api.ts'
import { commandLine } from '../../../support/command-line.ts'
import { anOriginal, noUnzip, pythonSays, unpack } from '../../../support/data-exports.ts'
import { eventually } from '../../../support/eventually.ts'
import { matchWhole } from '../../../support/match-whole.ts'
import { quietLog } from '../../../support/quiet-log.ts'

if (noUnzip) t.bailout(noUnzip)
const api = await startTestApi(t)
const { call, store, database } = api
const { worker: db, admin } = database
const orgId = uuidOf('organization', api.org)
const sql = (text: string, values: unknown[] = []) => admin.query(text, values).then((r) => r.rows)
/** Documents list things by their ids, and ids of one millisecond are in no order. */
let last: Uuid = ''
function nextId(): Uuid {
  const before = last
  while (last <= before) last = newUuid()
  return last
}
const contents = contentsOf(FEATURES.map((feature) => feature.export))
const { own } = contents

const AT = '/gdpr/export'
const request = (who: Person) => call(who, 'POST', AT)
const show = (who: Person, id: string) => call(who, 'GET', `${AT}/${id}`)

/** A worker in this process; stopped by the end of the test. */
function working(t: Test, o: { on?: ObjectStore; over?: Database; options?: ExporterOptions } = {}) {
  const counted: string[] = []
  const feature = dataExportWorker(
    {
      db: o.over ?? db,
      store: o.on ?? store,
      log: process.env['DEBUG_LOG'] ? openLog({ program: 'worker', level: 'debug' }) : quietLog(),
      clock: systemClock,
      counterOf:
        ({ name }) =>
        () =>
          void counted.push(name),
    },
    contents,
    { idleMs: 50, ...o.options },
  )
  let stopped: Promise<unknown> | undefined
  const stop = () => {
    stopped ??= Promise.resolve(feature.stop?.())
    return stopped
  }
  t.teardown(stop)
  return { ...feature, stop, counted }
}

async function member(o: { email?: string; name?: string } = {}): Promise<Person> {
  const person = await aPerson(api)
  await sql(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [orgId, person.id])
  await sql('update users set email = $2, display_name = $3 where id = $1', [
    person.id,
    o.email ?? null,
    o.name ?? 'Ann',
  ])
  return person
}
const original = (
  userId: Uuid,
  name: string,
  content: Buffer | string,
  more: { mimeType?: string; takenAt?: string } = {},
) => anOriginal({ admin, store }, { orgId, userId, name, content, ...more })

const until = (who: Person, id: string, status: string): Promise<Answer> =>
  eventually(`${status} of the export`, async () => {
    const answer = await show(who, id)
    return answer.data?.status === status ? answer : undefined
  })
async function fetched(answer: Answer): Promise<Buffer[]> {
  const parts: Buffer[] = []
  for (const { download_url } of answer.data.parts) {
    const file = await call(undefined, 'GET', pathOf(download_url))
    parts.push(file.body as Buffer)
  }
  return parts
}

const EVIL = '</title><script>alert(1)</script>"><img src=x onerror=alert(2)>'

t.test('a person gets all that is theirs, and nothing of others, in an archive that programs read', async (t) => {
  const me = await member({ email: 'me@example.org', name: `Ann ${EVIL}` })
  const other = await member({ name: 'OTHER-NAME' })
  const [event, theirs, album, comment] = [nextId(), nextId(), nextId(), nextId()]
  const mine = await original(me.id, 'Été.jpg', 'mine')
  await original(me.id, '../../evil.jpg', 'bare', { takenAt: '2020-01-02T00:00:00Z' })
  const trashed = await original(me.id, 'TRASHED.jpg', 'trashed')
  await sql('update media set deleted_at = now() where id = $1', [trashed])
  const foreign = await original(other.id, 'OTHER-FILE.jpg', 'OTHER-BYTES')
  const insertEvent = (id: Uuid, owner: Uuid, title: string, description: string) =>
    sql(
      `insert into events (id, org_id, owner_id, title, description, start_at, status)
        values ($1, $2, $3, $4, $5, '2026-11-21T18:00:00Z', 'active')`,
      [id, orgId, owner, title, description],
    )
  await insertEvent(event, me.id, `Reunion ${EVIL}`, 'My description')
  await insertEvent(theirs, other.id, 'Their event', 'OTHER-DESCRIPTION')
  await sql(
    `insert into event_participants (event_id, user_id, org_id, status, joined_at) values ($1, $2, $3, 'accepted', now())`,
    [theirs, me.id, orgId],
  )
  await sql(`insert into albums (id, org_id, owner_id, event_id, title) values ($1, $2, $3, $4, 'My album')`, [
    album,
    orgId,
    me.id,
    event,
  ])
  for (const [media, by, caption, position, writer] of [
    [mine, me.id, 'my caption', 0],
    [foreign, other.id, 'OTHER-CAPTION', 1],
    [await original(other.id, 'OTHER-2.jpg', ''), other.id, 'my words', 2, me.id],
    [await original(me.id, 'c.jpg', 'third', { takenAt: '2019-01-02T00:00:00Z' }), me.id, 'OTHER-CAPTION', 3, other.id],
  ] as const) {
    await sql(
      `insert into album_media (album_id, media_id, org_id, position, caption, listed, added_by, caption_by)
        values ($1, $2, $3, $4, $5, true, $6, $7)`,
      [album, media, orgId, position, caption, by, writer ?? null],
    )
  }
  const say = (id: Uuid, author: Uuid, body: string) =>
    sql(
      `insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body)
        values ($1, $2, $3, 'meta', $3, 'event', $4, $5)`,
      [id, orgId, event, author, body],
    )
  await say(comment, me.id, `my words ${EVIL}`)
  await sql(
    `insert into comment_versions (comment_id, version, org_id, body, media_ids, mentions, written_at)
      values ($1, 1, $2, 'my first words', '{}', '{}', now())`,
    [comment, orgId],
  )
  await say(nextId(), other.id, 'OTHER-WORDS')
  await sql(
    `insert into reactions (id, org_id, event_id, target_type, target_id, user_id, emoji)
      values ($1, $2, $3, 'comment', $4, $5, '🔥')`,
    [nextId(), orgId, event, comment, me.id],
  )
  const invite = (by: Uuid, of: Uuid, o: { email: string | null; userId: Uuid | null; message: string }) =>
    sql(
      `insert into invitations (id, org_id, event_id, slug, email, user_id, message, invited_by, token_expires_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, now() + interval '1 day')`,
      [nextId(), orgId, of, newSlug(), o.email, o.userId, o.message, by],
    )
  await invite(me.id, event, { email: 'guest@example.org', userId: null, message: 'do come' })
  await invite(other.id, theirs, { email: null, userId: me.id, message: 'you are welcome' })
  await invite(other.id, theirs, { email: 'me@example.org', userId: null, message: 'by mail' })
  const answer = (address: string, by: Uuid, message: string, said: string) =>
    sql(
      `insert into invitations (id, org_id, event_id, slug, email, message, invited_by, token_expires_at, status,
         responded_by, responded_at, response_message)
       values ($1, $2, $3, $4, $5, $6, $7, now() + interval '1 day', 'accepted', $8, now(), $9)`,
      [nextId(), orgId, theirs, newSlug(), address, message, other.id, by, said],
    )
  await answer('of-a-friend@example.org', me.id, 'by link', 'gladly')
  await answer('me@example.org', other.id, 'OTHER-LINK', 'OTHER-ANSWER')
  await invite(other.id, theirs, { email: 'OTHER-GUEST@example.org', userId: null, message: 'OTHER-MESSAGE' })
  await sql(
    `insert into highlights (id, org_id, created_by, title, transition, orientation, fill, ken_burns, show_title, captions,
       skip_broken, estimated_duration_sec) values ($1, $2, $3, 'My film', 'cut', 'auto', 'blur', true, true, 'none', true, 9)`,
    [nextId(), orgId, me.id],
  )
  await sql(
    `insert into notification_preferences (user_id, channel, template, enabled) values ($1, 'email', 'Mention.v1', false)`,
    [me.id],
  )

  const asked = await request(me)
  t.equal(asked.status, 202)
  matchWhole(t, asked.data, { status: 'processing', parts: [], progress: { percent: 0 } })
  const again = await request(me)
  t.equal(again.status, 200)
  t.equal(again.data.export_id, asked.data.export_id)
  working(t)
  const ready = await until(me, asked.data.export_id, 'completed')
  matchWhole(t, ready.data, { progress: { parts_total: 1, parts_done: 1, percent: 100 }, parts: [{ number: 1 }] })
  t.ok(ready.data.parts[0].expires_in > 86_000)
  const [bytes = Buffer.alloc(0)] = await fetched(ready)
  t.equal(bytes.length, ready.data.parts[0].bytes)

  const { files } = await unpack(t, bytes)
  const folder = '2026/2026-11-21 Reunion __title__script_alert(1)__script____img src=x onerror=alert(2)_'
  t.equal(files.get(`${folder}/Été.jpg`)?.toString(), 'mine')
  t.equal(files.get('2020/2020-01/_.._evil.jpg')?.toString(), 'bare')
  t.strictSame((await pythonSays(t, bytes)).broken, null)
  t.strictSame((await pythonSays(t, bytes)).names.toSorted(), [...files.keys()].toSorted())

  const document = JSON.parse(String(files.get('data.json')))
  t.strictSame(documentOf(own).parse(document), document, 'as documented')
  matchWhole(t, document, {
    format: 'keepsake-data-export',
    user_id: me.wireId,
    archives: [{ files: 3 }],
    profile: [{ email: 'me@example.org' }],
    organizations: [{ role: 'member' }],
    events: [{ description: 'My description' }],
    participations: [{ title: 'Their event', status: 'accepted' }],
    albums: [{ title: 'My album' }],
    album_items: [
      { caption: 'my caption', added_by_you: true },
      { caption: 'my words', added_by_you: false },
      { caption: null, added_by_you: true },
    ],
    comments: [{ text: `my words ${EVIL}`, earlier_texts: ['my first words'] }],
    reactions: [{ emoji: '🔥' }],
    invitations_received: [
      { message: 'you are welcome' },
      { message: 'by mail', response_message: null },
      { message: 'by link', response_message: 'gladly' },
    ],
    invitations_sent: [{ email: 'guest@example.org', message: 'do come' }],
    highlights: [{ title: 'My film' }],
    notification_preferences: [{ template: 'Mention.v1', enabled: false }],
  })
  t.strictSame(
    document.media.map((one: { filename: string; file: string | null }) => [one.filename, one.file]),
    [
      ['Été.jpg', `${folder}/Été.jpg`],
      ['../../evil.jpg', '2020/2020-01/_.._evil.jpg'],
      ['TRASHED.jpg', null],
      ['c.jpg', `${folder}/c.jpg`],
    ],
  )
  for (const [path, content] of files) {
    t.notMatch(content.toString(), /OTHER-/, `nothing of others in ${path}`)
    if (path.endsWith('.html')) t.notMatch(content.toString(), /<script|<img src=x/, `${path} is escaped`)
  }
  t.match(String(files.get('pages/comments-1.html')), /my words &lt;\/title&gt;/)
  t.strictSame(
    (await api.keys(downloadsPrefix(me.id))).map((key) => key.split('/').at(-1)),
    [ready.data.parts[0].name],
    'nothing else is left in the store',
  )
  t.strictSame(await sql('select * from data_export_entries'), [], 'no name of a file is kept')
  matchWhole(t, await sql(`select state from notification_deliveries where destination = 'me@example.org'`), [
    { state: 'pending' },
  ])
  matchWhole(
    t,
    await sql(`select action, actor_id from audit_log where action = 'DATA_EXPORT' and actor_id = $1`, [me.id]),
    [{ action: 'DATA_EXPORT' }],
  )
  const before = await sql('select media_bytes::int as bytes from user_storage where user_id = $1', [me.id])
  t.strictSame(before, [{ bytes: 'minebaretrashedthird'.length }], 'the quota is not charged')
  t.equal((await show(other, asked.data.export_id)).status, 404)
  t.equal((await call(other, 'DELETE', `${AT}/${asked.data.export_id}`)).status, 404)
})

/** Archives of a few kilobytes. */
const SMALL = { bytes: 12_000, pageBytes: 2000, dataBytes: 4000, files: 50 }
const content = (n: number, bytes = 3000) => Buffer.alloc(bytes, String.fromCharCode(97 + (n % 26)))

t.test('who has left an organization is not told what its events and albums are called now', async (t) => {
  const [me, other] = [await member(), await member()]
  const [event, left, album, comment] = [nextId(), nextId(), nextId(), nextId()]
  for (const id of [event, left])
    await sql(
      `insert into events (id, org_id, owner_id, title, start_at, status) values ($1, $2, $3, 'Title', now(), 'active')`,
      [id, orgId, other.id],
    )
  const media = await original(me.id, 'a.jpg', 'x')
  await sql(`insert into albums (id, org_id, owner_id, event_id, title) values ($1, $2, $3, $4, 'Title')`, [
    ...[album, orgId, other.id, event],
  ])
  await sql(
    `insert into album_media (album_id, media_id, org_id, position, listed, added_by) values ($1, $2, $3, 1, true, $4)`,
    [album, media, orgId, me.id],
  )
  await sql(
    `insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body)
      values ($1, $2, $3, 'meta', $3, 'event', $4, 'Words')`,
    [comment, orgId, event, me.id],
  )
  await sql(
    `insert into reactions (id, org_id, event_id, target_type, target_id, user_id, emoji)
      values ($1, $2, $3, 'comment', $4, $5, '🔥')`,
    [nextId(), orgId, event, comment, me.id],
  )
  for (const [of, by, to, status] of [
    [event, other.id, me.id, 'revoked'],
    [left, other.id, me.id, 'pending'],
    [event, me.id, other.id, 'pending'],
  ])
    await sql(
      `insert into invitations (id, org_id, event_id, slug, invited_by, user_id, status, token_expires_at)
        values ($1, $2, $3, $4, $5, $6, $7, now() + interval '1 day')`,
      [nextId(), orgId, of, newSlug(), by, to, status],
    )
  const NAMED = ['album_items', 'comments', 'reactions', 'invitations_received', 'invitations_sent']
  const exported = FEATURES.flatMap((feature) => ('sections' in feature.export ? [feature.export] : []))
  const sections = exported.flatMap((one) => one.sections.filter(({ name }) => NAMED.includes(name)))
  const files = exported.find((one) => one.files)?.files
  const told = () =>
    db.read({}, async (tx) => {
      const page = { userId: me.id, after: undefined, limit: 10 }
      const titles: Record<string, unknown[]> = {}
      for (const { name, list } of sections)
        titles[name] = (await list(tx, page)).map((record) => record['event_title'] ?? record['album_title'] ?? null)
      const folders = (await files?.list(tx, page))?.map(({ event }) => event?.title ?? null)
      return { ...titles, folders }
    })
  const everything = {
    ...{ album_items: ['Title'], comments: ['Title'], reactions: ['Title'], folders: ['Title'] },
    ...{ invitations_received: ['Title', 'Title'], invitations_sent: ['Title'] },
  }
  t.strictSame(await told(), everything)
  await sql('delete from memberships where user_id = $1', [me.id])
  t.strictSame(
    await told(),
    {
      ...{ album_items: [null], comments: [null], reactions: [null], folders: [null] },
      ...{ invitations_received: [null, 'Title'], invitations_sent: [null] },
    },
    'but what a pending invitation says',
  )
  await sql(
    `insert into event_participants (event_id, user_id, org_id, status, joined_at) values ($1, $2, $3, 'accepted', now())`,
    [event, me.id, orgId],
  )
  t.strictSame(await told(), everything, 'a guest')
})

t.test('many parts, by two workers, of which none makes a part of the other', async (t) => {
  const me = await member()
  for (let n = 0; n < 11; n++)
    await original(me.id, 'IMG.jpg', content(n), { takenAt: `2026-0${1 + (n % 9)}-01T00:00:00Z` })
  await original(me.id, 'large.mp4', content(1, 30_000), { mimeType: 'video/mp4' })
  const begun: string[] = []
  const on: ObjectStore = {
    ...store,
    createMultipart(key, options) {
      if (key.endsWith('.zip')) begun.push(key.split('/').at(-1) ?? '')
      return store.createMultipart(key, options)
    },
  }
  const { data } = await request(me)
  for (let n = 0; n < 2; n++) working(t, { on, options: { batch: 3, limits: SMALL } })
  const ready = await until(me, data.export_id, 'completed')
  t.strictSame(begun.toSorted(), ready.data.parts.map(({ name }: { name: string }) => name).toSorted())
  t.equal(begun.at(-1), ready.data.parts[0].name, 'part 1 comes last')
  const archives = await Promise.all((await fetched(ready)).map(async (bytes) => (await unpack(t, bytes)).files))
  const originals = archives.flatMap((files) => [...files].filter(([path]) => /^\d{4}\//.test(path)))
  t.equal(originals.length, 12)
  t.equal(new Set(originals.map(([path]) => path.toLowerCase())).size, 12)
  t.ok(
    archives.some(
      (files) => [...files.keys()].filter((path) => /^\d{4}\//.test(path)).join() === '2026/2026-07/large.mp4',
    ),
  )
  t.ok(archives.every((files) => files.has('index.html')))
  t.strictSame(
    archives.map((files) => files.has('data.json')),
    archives.map((_, n) => n === 0),
  )
  const document = JSON.parse(String(archives[0]?.get('data.json')))
  for (const { file, archive } of document.media) {
    const n = ready.data.parts.findIndex(({ name }: { name: string }) => name === archive)
    t.ok(archives[n]?.has(file), `${file} is where the data says`)
  }
  t.equal(
    document.archives.reduce((sum: number, { files }: { files: number }) => sum + files, 0),
    12,
  )
})

t.test('what is deleted, lost or of another length while a part is made: the part is made again', async (t) => {
  const me = await member()
  const ids: Uuid[] = []
  for (let n = 0; n < 8; n++) ids.push(await original(me.id, `${n}.jpg`, content(n)))
  const [, , deleted = '', erased = '', lost = '', longer = ''] = ids
  let reads = 0
  const on: ObjectStore = {
    ...store,
    async get(key, range, signal) {
      if (key.endsWith('/original') && reads++ === 1) {
        await sql('update media set deleted_at = now() where id = $1', [deleted])
        await sql('delete from media where id = $1', [erased])
        await store.delete(originalKey(orgId, erased))
        await store.delete(originalKey(orgId, lost))
        await store.put(originalKey(orgId, longer), content(5, 3500), { contentType: 'image/jpeg' })
      }
      return store.get(key, range, signal)
    },
  }
  const { data } = await request(me)
  const { counted } = working(t, { on })
  const ready = await until(me, data.export_id, 'completed')
  const [files] = await Promise.all((await fetched(ready)).map(async (bytes) => (await unpack(t, bytes)).files))
  const names = [...(files?.keys() ?? [])].filter((path) => path.startsWith('2026/')).map((path) => path.slice(-5))
  t.strictSame(names, ['0.jpg', '1.jpg', '5.jpg', '6.jpg', '7.jpg'])
  t.equal(files?.get('2026/2026-07/5.jpg')?.length, 3500)
  t.ok(counted.includes('data_export_missing_total'), 'a lost original is counted')
  const { media } = JSON.parse(String(files?.get('data.json')))
  t.strictSame(
    media.filter((one: { file: string | null }) => one.file === null).map((one: { filename: string }) => one.filename),
    ['2.jpg', '4.jpg'],
  )
  t.strictSame((await api.keys(downloadsPrefix(me.id))).length, 1, 'what the attempts before have written is gone')
})

t.test('an original that has moved to the cold tier since the backup that was restored is in the export', async (t) => {
  const me = await member()
  const hot = originalKey(orgId, await original(me.id, 'a.jpg', content(1)))
  await store.copy(hot, coldKeyOf(hot))
  await store.deleteForGood(hot)
  const { data } = await request(me)
  const { counted } = working(t)
  const ready = await until(me, data.export_id, 'completed')
  const [files] = await Promise.all((await fetched(ready)).map(async (bytes) => (await unpack(t, bytes)).files))
  t.ok([...(files?.keys() ?? [])].some((path) => path.endsWith('/a.jpg')))
  t.notOk(counted.includes('data_export_missing_total'))
})

t.test('where many originals are lost, the part begins again once for all of them', async (t) => {
  const me = await member()
  const ids: Uuid[] = []
  for (let n = 0; n < 40; n++) ids.push(await original(me.id, `${n}.jpg`, content(n)))
  for (const id of ids.slice(1)) await store.delete(originalKey(orgId, id))
  let misses = 0
  const on: ObjectStore = {
    ...store,
    async get(key, range, signal) {
      return store.get(key, range, signal).catch((error) => {
        misses += 1
        throw error
      })
    },
  }
  const { data } = await request(me)
  const { counted } = working(t, { on })
  const ready = await until(me, data.export_id, 'completed')
  const [files] = await Promise.all((await fetched(ready)).map(async (bytes) => (await unpack(t, bytes)).files))
  t.strictSame(
    [...(files?.keys() ?? [])].filter((path) => path.startsWith('2026/')).map((path) => path.slice(-5)),
    ['0.jpg'],
  )
  t.equal(misses, 2, 'of one original, in either tier')
  t.equal(counted.filter((name) => name === 'data_export_missing_total').length, 39)
})

t.test('deleted after the last byte was read, and before the part is recorded: not handed out', async (t) => {
  const me = await member()
  await original(me.id, 'kept.jpg', content(1))
  const id = await original(me.id, 'deleted.jpg', content(2))
  let completed = 0
  const on: ObjectStore = {
    ...store,
    async completeMultipart(key, uploadId, parts) {
      const info = await store.completeMultipart(key, uploadId, parts)
      if (key.endsWith('.zip') && completed++ === 0)
        await sql('update media set deleted_at = now() where id = $1', [id])
      return info
    },
  }
  const { data } = await request(me)
  working(t, { on })
  const ready = await until(me, data.export_id, 'completed')
  const [bytes = Buffer.alloc(0)] = await fetched(ready)
  t.strictSame(
    [...(await unpack(t, bytes)).files.keys()].filter((path) => path.startsWith('2026')),
    ['2026/2026-07/kept.jpg'],
  )
})

t.test('an archive that the store completes is kept, whatever the answer', async (t) => {
  const key = `downloads/${newUuid()}`
  const faults = ['busy', 'lost']
  const on: ObjectStore = {
    ...store,
    async completeMultipart(...given) {
      const fault = faults.shift()
      if (fault === 'busy') throw new StoreError('Unavailable', 'SlowDown')
      const made = await store.completeMultipart(...given)
      if (fault === 'lost') throw new StoreError('NotFound', 'NoSuchUpload')
      return made
    },
  }
  const body = async function* () {
    yield content(1)
    yield content(2)
  }
  const reversed = async function* () {
    yield content(2)
    yield content(1)
  }
  const o = { contentType: 'application/zip', signal: new AbortController().signal }
  const bytes = await uploadInPieces(on, key, body(), o)
  t.equal((await store.head(key))?.size, bytes)
  t.strictSame(faults, [])
  faults.push('lost')
  // As with some kinds of encryption.
  const strange = async () => {
    const made = await store.head(key)
    return made && { ...made, etag: `"of-${made.lastModified.getTime()}"` }
  }
  await store.delete(key)
  t.equal(await uploadInPieces({ ...on, head: strange }, key, body(), o), bytes, 'whatever etags the store makes')
  t.strictSame(faults, [])
  faults.push('lost')
  const other = { ...on, head: async () => ({ ...(await store.head(key)), size: 1 }) } as ObjectStore
  await t.rejects(uploadInPieces(other, key, body(), o), { code: 'NotFound' }, 'an object of another size is not it')
  await uploadInPieces(store, key, reversed(), o)
  const removed: ObjectStore = {
    ...store,
    async completeMultipart(...given) {
      await store.abortMultipart(key, given[1])
      return store.completeMultipart(...given)
    },
  }
  await t.rejects(uploadInPieces(removed, key, body(), o), { code: 'NotFound' }, 'nor is an earlier one of this size')
  await store.delete(key)
})

/** A store whose originals arrive only once the test lets them. */
function held(): { on: ObjectStore; reached: Promise<void>; go(): void } {
  let go = () => {}
  let reach = () => {}
  const gate = new Promise<void>((resolve) => {
    go = resolve
  })
  const reached = new Promise<void>((resolve) => {
    reach = resolve
  })
  const on: ObjectStore = {
    ...store,
    async get(key, range, signal) {
      if (key.endsWith('/original')) {
        reach()
        await gate
      }
      return store.get(key, range, signal)
    },
  }
  return { on, reached, go }
}

t.test('a worker that was too late changes nothing', async (t) => {
  const me = await member()
  await original(me.id, 'a.jpg', content(1))
  const late = held()
  const { data } = await request(me)
  const slow = working(t, { on: late.on, options: { leaseSeconds: 3600 } })
  await late.reached
  await sql(`update data_export_parts set lease_until = now() where export_id = $1`, [
    parseId('export', data.export_id),
  ])
  working(t)
  const ready = await until(me, data.export_id, 'completed')
  late.go()
  await slow.stop()
  t.strictSame((await show(me, data.export_id)).data.parts[0].name, ready.data.parts[0].name)
  const keys = await api.keys(downloadsPrefix(me.id))
  t.equal(keys.length, 1, 'and leaves nothing')
  t.match(keys[0], /\/1-2\//)
  t.equal((await fetched(ready)).length, 1)
})

t.test('a connection that breaks behind the commit takes no archive away', async (t) => {
  for (const isBackAtOnce of [true, false]) {
    const me = await member()
    await original(me.id, 'a.jpg', 'mine')
    const { data } = await request(me)
    const id = uuidOf('export', data.export_id)
    const isMade = async () =>
      (await sql(`select from data_exports where id = $1 and state = 'completed'`, [id])).length > 0
    const broken = { code: 'ECONNRESET', message: 'Connection terminated unexpectedly' }
    let failures = 0
    // The database does what it is asked for, and the answer is lost; at first or from then on for a while.
    const over: Database = {
      ...db,
      async inTransaction(scope, work) {
        const isAway = failures > 0 && failures < 3 && !isBackAtOnce
        if (isAway) {
          failures += 1
          throw Object.assign(new Error(), broken)
        }
        const answer = await db.inTransaction(scope, work)
        if (failures > 0 || !(await isMade())) return answer
        failures += 1
        throw Object.assign(new Error(), broken)
      },
    }
    const worker = working(t, { over })
    const answer = await until(me, data.export_id, 'completed')
    await eventually('the loss', () => failures >= (isBackAtOnce ? 1 : 3))
    await worker.stop()
    const [bytes] = await fetched(answer)
    t.ok((await unpack(t, bytes as Buffer)).files.has('index.html'))
    t.equal((await sql('select from notifications where download_id = $1', [id])).length, 1, 'told once')
  }
})

t.test('a worker that stops gives back its part at once', async (t) => {
  const me = await member()
  await original(me.id, 'a.jpg', content(1))
  const gate = held()
  const { data } = await request(me)
  const first = working(t, { on: gate.on })
  await gate.reached
  const stopped = first.stop()
  gate.go()
  await stopped
  matchWhole(
    t,
    await sql('select failures, holder from data_export_parts where export_id = $1', [
      parseId('export', data.export_id),
    ]),
    [{ failures: 0, holder: null }],
  )
  working(t)
  await until(me, data.export_id, 'completed')
})

t.test('an export that is removed or whose person is erased ends, under way or completed', async (t) => {
  const ends: [string, (who: Person, id: string) => Promise<unknown>][] = [
    ['removed', (who, id) => call(who, 'DELETE', `${AT}/${id}`)],
    [
      'erased',
      async (who) => {
        await db.inTransaction({}, (tx) => eraseExportsOf(tx, who.id))
        await deleteDownloadObjects({ store }, who.id)
      },
    ],
  ]
  for (const [name, end] of ends) {
    const me = await member()
    await original(me.id, 'a.jpg', content(1))
    const gate = held()
    const { data } = await request(me)
    const slow = working(t, { on: gate.on, options: { leaseSeconds: 1 } })
    await gate.reached
    await end(me, data.export_id)
    gate.go()
    await slow.stop()
    t.equal((await show(me, data.export_id)).status, 404, name)
    t.strictSame(await sql('select * from downloads where user_id = $1', [me.id]), [])
    await slow.tasks?.[0]?.run(0, new AbortController().signal)
    t.strictSame(await sql('select media_id from data_export_entries'), [], 'no name of a file is left')
    await sweepDownloads({ db, store, log: quietLog() })
    t.strictSame(await api.keys(downloadsPrefix(me.id)), [], `${name} under way`)

    const next = (await request(me)).data.export_id
    const worker = working(t)
    const ready = await until(me, next, 'completed')
    await worker.stop()
    await end(me, next)
    t.equal((await call(undefined, 'GET', pathOf(ready.data.parts[0].download_url))).status, 404)
    await sweepDownloads({ db, store, log: quietLog() })
    t.strictSame(await api.keys(downloadsPrefix(me.id)), [], `${name} when it was completed`)
  }
})

t.test('an export expires, and says so', async (t) => {
  const me = await member()
  const { data } = await request(me)
  const worker = working(t)
  await until(me, data.export_id, 'completed')
  await worker.stop()
  await sql(`update data_exports set expires_at = now() where user_id = $1`, [me.id])
  await sql(`update downloads set expires_at = now() where user_id = $1`, [me.id])
  matchWhole(t, (await show(me, data.export_id)).data, { status: 'expired', parts: [] })
  await sweepDownloads({ db, store, log: quietLog() })
  t.strictSame(await api.keys(downloadsPrefix(me.id)), [])
  matchWhole(t, (await call(me, 'GET', AT)).data.exports, [{ status: 'expired' }])
})

t.test('a store that fails is tried again within bounds; an administrator lets the export go on', async (t) => {
  const me = await member()
  await original(me.id, 'a.jpg', content(1))
  let isDown = true
  const on: ObjectStore = {
    ...store,
    get: (key, range, signal) =>
      isDown && key.endsWith('/original')
        ? Promise.reject(new StoreError('Unavailable', 'the store is away'))
        : store.get(key, range, signal),
  }
  const { data } = await request(me)
  const id = parseId('export', data.export_id)
  const { counted } = working(t, { on })
  await eventually('the last attempt', async () => {
    await sql('update data_export_parts set next_attempt_at = now() where export_id = $1', [id])
    return (await show(me, data.export_id)).data.status === 'failed'
  })
  t.equal(counted.filter((name) => name === 'data_export_failures_total').length, MAX_FAILURES)
  t.strictSame(await api.keys(downloadsPrefix(me.id)), [])
  const cli = (...args: string[]) => commandLine(args, { DATABASE_URL: database.url })
  const { out } = await cli('data-exports', 'list', '--state', 'failed')
  matchWhole(t, out.exports, [{ export_id: data.export_id, parts: 1, parts_made: 0, error: /the store is away/ }])
  isDown = false
  t.strictSame((await cli('data-exports', 'retry', data.export_id)).out, { retried: true })
  await until(me, data.export_id, 'completed')
  t.strictSame((await cli('data-exports', 'retry', data.export_id)).out, { retried: false })
})

t.test('three within a day, whatever became of them; requests at once start one', async (t) => {
  const me = await member()
  for (let n = 0; n < 3; n++) {
    const answers = await Promise.all([request(me), request(me), request(me)])
    t.strictSame(answers.map(({ status }) => status).toSorted(), [200, 200, 202])
    t.equal(new Set(answers.map(({ data }) => data.export_id)).size, 1)
    t.equal((await call(me, 'DELETE', `${AT}/${answers[0]?.data.export_id}`)).status, 204)
  }
  const refused = await request(me)
  t.match(refused, { status: 429, code: 'RATE_LIMITED' })
  t.ok(Number(refused.headers.get('retry-after')) > 86_000)
})

t.test('every feature says what a person gets, or why nothing', async (t) => {
  for (const feature of FEATURES) {
    const { export: its } = feature
    const name = Object.keys(feature.tags)[0] ?? 'without tags'
    if ('nothing' in its) t.match(its.nothing, /\w+ \w+/, name)
    else t.ok(its.sections.length > 0, name)
  }
  const names = own.sections.map(({ name }) => name)
  t.equal(new Set(names).size, names.length)
  for (const { name, heading, record } of own.sections) t.ok(heading in record.shape, `${name} has ${heading}`)
})
