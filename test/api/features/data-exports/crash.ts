import t from 'tap'
import { contentsOf } from '../../../../api/features/data-exports/contents.ts'
import { documentOf } from '../../../../api/features/data-exports/document.ts'
import { ownMediaData } from '../../../../api/features/media/own-data.ts'
import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { downloadsPrefix, renderPrefix } from '../../../../lib/contract/object-keys.ts'
import { testStore } from '../../../support/conversion-world.ts'
import { anOriginal, unpack } from '../../../support/data-exports.ts'
import { testDatabase } from '../../../support/database.ts'
import { dyingWorkers } from '../../../support/worker-process.ts'

// The worker as it runs in a pod, killed at each step of an export; Postgres and the object store live on.
// The processes take most of the time.
const database = await testDatabase(t)
const { admin } = database
const place = await testStore(t)
const { store } = place
const { start, died } = await dyingWorkers(t, database, place, 'data-exports')
const sql = (text: string, values: unknown[] = []) => admin.query(text, values).then((r) => r.rows)
const orgId = newUuid()
await sql(`insert into organizations (id, name) values ($1, 'Friends')`, [orgId])

async function anExport(): Promise<{ id: Uuid; userId: Uuid }> {
  const [id, userId] = [newUuid(), newUuid()]
  await sql(`insert into users (id, issuer, subject, email) values ($1, 'i', $2, $3)`, [
    userId,
    userId,
    `${userId}@example.org`,
  ])
  for (const name of ['a.jpg', 'b.jpg']) {
    await anOriginal({ admin, store }, { orgId, userId, name, content: Buffer.alloc(10_000_000, name) })
  }
  await sql(`insert into data_exports (id, user_id, state) values ($1, $2, 'planning')`, [id, userId])
  return { id, userId }
}
const endLeases = () =>
  Promise.all([
    sql(`update data_exports set lease_until = now() where lease_until is not null`),
    sql(`update data_export_parts set lease_until = now() where lease_until is not null`),
  ])

/** Of an event of which it has two originals and two films. */
async function anEventExport(): Promise<{ id: Uuid; userId: Uuid }> {
  const [id, userId, event, album] = [newUuid(), newUuid(), newUuid(), newUuid()]
  await sql(`insert into users (id, issuer, subject, email) values ($1, 'i', $2, $3)`, [
    userId,
    userId,
    `${userId}@example.org`,
  ])
  await sql(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [orgId, userId])
  await sql(
    `insert into events (id, org_id, owner_id, title, start_at) values ($1, $2, $3, 'Reunion', '2026-07-04T18:00:00Z')`,
    [event, orgId, userId],
  )
  await sql(`insert into albums (id, org_id, owner_id, event_id, title) values ($1, $2, $3, $4, 'Album')`, [
    album,
    orgId,
    userId,
    event,
  ])
  for (const [n, name] of ['a.jpg', 'b.jpg'].entries()) {
    const media = await anOriginal({ admin, store }, { orgId, userId, name, content: name })
    await sql(
      `insert into album_media (album_id, media_id, org_id, position, listed, added_by) values ($1, $2, $3, $4, true, $5)`,
      [album, media, orgId, n, userId],
    )
  }
  for (const title of ['One', 'Two']) await aFilm({ userId, album, title })
  await sql(
    `insert into data_exports (id, user_id, state, event_id, org_id, event_title, event_owner_id)
      values ($1, $2, 'planning_event', $3, $4, 'Reunion', $2)`,
    [id, userId, event, orgId],
  )
  return { id, userId }
}

async function aFilm({ userId, album, title }: { userId: Uuid; album: Uuid; title: string }): Promise<void> {
  const film = newUuid()
  const prefix = renderPrefix(orgId, film, 1)
  await sql(
    `insert into highlights (id, org_id, created_by, album_id, title, transition, orientation, fill, ken_burns, show_title,
       captions, skip_broken, estimated_duration_sec, status, output_prefix, hls_master)
      values ($1, $2, $3, $4, $5, 'cut', 'auto', 'blur', true, true, 'none', true, 9, 'completed', $6, 'master.m3u8')`,
    [film, orgId, userId, album, title, prefix],
  )
  for (const name of ['master.m3u8', 'v/0.m4s']) {
    await store.put(prefix + name, Buffer.from(`${title} ${name}`), { contentType: 'application/octet-stream' })
  }
}

type Death = [string, string, { state: string; parts: { state: string; attempts: number }[] }]
const WAITING = { state: 'waiting', attempts: 0 }

/** In their order: each worker gets to the next one. What is left then of the export, and of its part. */
const DEATHS: Death[] = [
  ['in the plan', 'export.batch-planned', { state: 'planning', parts: [WAITING] }],
  ['after the plan', 'export.planned', { state: 'making', parts: [WAITING] }],
  ['before the first byte', 'export.part-claimed', { state: 'making', parts: [{ state: 'waiting', attempts: 1 }] }],
  ['with pieces in the store', 'export.piece-sent:1', { state: 'making', parts: [{ state: 'waiting', attempts: 2 }] }],
  ['before the row', 'export.uploaded', { state: 'making', parts: [{ state: 'waiting', attempts: 3 }] }],
  ['before the mail', 'export.committed', { state: 'completed', parts: [{ state: 'made', attempts: 4 }] }],
]
t.test('killed at any line, the next worker goes on, and the export is completed once', async (t) => {
  const { id, userId } = await anExport()
  for (const [name, failpoint, left] of DEATHS) {
    await died(t, start(t, { KEEPSAKE_FAILPOINT: failpoint }))
    t.match(await sql('select state from data_exports where id = $1', [id]), [{ state: left.state }], name)
    t.match(await sql('select state, attempts from data_export_parts where export_id = $1', [id]), left.parts, name)
    await endLeases()
  }
  const keys: string[] = []
  for await (const { key } of store.list(downloadsPrefix(userId))) keys.push(key)
  t.strictSame(
    keys,
    (await sql('select key from data_export_parts where export_id = $1', [id])).map(({ key }) => key),
    'one archive, and nothing of the workers before',
  )
  const { body } = await store.get(keys[0] ?? '')
  const { files } = await unpack(t, Buffer.concat(await body.toArray()))
  for (const one of ['a.jpg', 'b.jpg']) {
    t.ok(files.get(`2026/2026-07/${one}`)?.equals(Buffer.alloc(10_000_000, one)), one)
  }
  const document = JSON.parse(String(files.get('data.json')))
  t.strictSame(documentOf(contentsOf([ownMediaData]).own).parse(document), document)
  t.match(await sql('select files, bytes::int from downloads where id = $1', [id]), [{ files: 1 }])
  t.equal((await sql('select * from notifications where download_id = $1', [id])).length, 1, 'told once')
  // All that was written below the prefix is that archive: the open uploads of the dead workers are gone.
  t.equal(await store.deletePrefix(downloadsPrefix(userId)), 1)
})

/** What an event has more, or in other states; two deaths with one film each. */
const DEATHS_OF_EVENTS: Death[] = [
  ['behind a film', 'export.film-planned', { state: 'planning_event', parts: [WAITING] }],
  ['behind the next one', 'export.film-planned', { state: 'planning_event', parts: [WAITING] }],
  ['before the row', 'export.uploaded', { state: 'making_event', parts: [{ state: 'waiting', attempts: 1 }] }],
  ['before the mail', 'export.committed', { state: 'completed', parts: [{ state: 'made', attempts: 2 }] }],
]
t.test('the same of an event: each film is in it once', async (t) => {
  const { id, userId } = await anEventExport()
  for (const [name, failpoint, left] of DEATHS_OF_EVENTS) {
    await died(t, start(t, { KEEPSAKE_FAILPOINT: failpoint }))
    t.match(await sql('select state from data_exports where id = $1', [id]), [{ state: left.state }], name)
    t.match(await sql('select state, attempts from data_export_parts where export_id = $1', [id]), left.parts, name)
    await endLeases()
  }
  const [part] = await sql('select key, files from data_export_parts where export_id = $1', [id])
  t.equal(part?.files, 6)
  const { body } = await store.get(part?.key)
  const { files } = await unpack(t, Buffer.concat(await body.toArray()))
  t.strictSame([...files.keys()].filter((path) => /^(?:2026|films)/.test(path)).toSorted(), [
    '2026/2026-07-04 Reunion/a.jpg',
    '2026/2026-07-04 Reunion/b.jpg',
    'films/One/master.m3u8',
    'films/One/v/0.m4s',
    'films/Two/master.m3u8',
    'films/Two/v/0.m4s',
  ])
  t.equal((await sql('select * from notifications where download_id = $1', [id])).length, 1, 'told once')
  t.equal(await store.deletePrefix(downloadsPrefix(userId)), 1, 'nothing is left of the workers before')
})
