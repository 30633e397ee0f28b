import { spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import t from 'tap'
import { LATEST } from '../../../api/audit/anchors.ts'
import { noticeRestore } from '../../../api/audit/restores.ts'
import { addHold, releaseHold } from '../../../api/features/retention/holds.ts'
import { deleteOrphans, type OnFolder } from '../../../api/orphans/orphans.ts'
import { coldKeyOf } from '../../../lib/contract/cold-key.ts'
import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import {
  auditDayKey,
  coldOriginalKey,
  downloadPrefix,
  highlightPrefix,
  manifestKey,
  mediaPrefix,
  originalKey,
  outputPrefix,
  retentionReportKey,
  stagedChunkKey,
  stagingPrefix,
  trackKey,
} from '../../../lib/contract/object-keys.ts'
import { type ObjectStore, StoreError } from '../../../lib/runtime/object-store/object-store.ts'
import { openObjectStore, StoreConfig } from '../../../lib/runtime/object-store/open.ts'
import { ageObjects } from '../../support/aged-objects.ts'
import { commandLine } from '../../support/command-line.ts'
import { testDatabase } from '../../support/database.ts'

const folder = await mkdtemp(join(tmpdir(), 'keepsake-orphans-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
const { url, worker: db, admin } = await testDatabase(t)
const places = { STORE_FOLDER: join(folder, 'hot'), STORE_COLD_FOLDER: join(folder, 'cold') }
const env = { DATABASE_URL: url, STORE_KIND: 'folder', ...places }
const store = await openObjectStore(StoreConfig.parse(env))

const orphans = (...options: string[]) => commandLine(['objects', 'orphans', ...options], env)
const put = async (...keys: string[]) => {
  for (const key of keys) await store.put(key, `of ${key}`, { contentType: 'text/plain' })
}
async function keys(): Promise<string[]> {
  const found: string[] = []
  for await (const { key } of store.list('')) found.push(key)
  return found
}
const empty = async () => {
  for (const root of ['audit/', 'downloads/', 'erasures/', 'org/', 'retention/', 'tracks/'])
    await store.deletePrefix(root)
}

/** As if everything had been written so many hours ago. */
const age = async (hours: number, below?: string) => {
  for (const place of Object.values(places)) await ageObjects(place, hours, below)
}

/** Rows without all that they would refer to. */
const bare = new pg.Client({ connectionString: url, options: '-c session_replication_role=replica' })
await bare.connect()
t.teardown(() => bare.end())
async function insert(table: string, row: Record<string, unknown>): Promise<void> {
  const names = Object.keys(row)
  const values = names.map((_, i) => `$${i + 1}`)
  await bare.query(`insert into ${table} (${names}) values (${values})`, Object.values(row))
}

const [org, user] = [newUuid(), newUuid()]
const soon = new Date(Date.now() + 86_400_000)
const aMedia = (id: Uuid, orgId = org) =>
  insert('media', {
    ...{ id, org_id: orgId, uploader_id: user, original_filename: 'a.mp4', mime_type: 'video/mp4', kind: 'video' },
    file_size_bytes: 1,
  })
const anUpload = (id: Uuid, mediaId: Uuid, released: Date | null) =>
  insert('uploads', {
    ...{
      id,
      org_id: org,
      uploader_id: user,
      media_id: mediaId,
      state: released ? 'expired' : 'open',
      layout: 'staged',
    },
    ...{ filename: 'a.mp4', mime_type: 'video/mp4', file_size_bytes: 1, chunk_size_bytes: 1, total_chunks: 1 },
    ...{ expires_at: soon, absolute_expires_at: soon, storage_released_at: released },
  })
const aFilm = (id: Uuid) =>
  insert('highlights', {
    ...{ id, org_id: org, created_by: user, title: 'Film', transition: 'cut', orientation: 'auto', fill: 'blur' },
    ...{ ken_burns: true, show_title: true, captions: 'none', skip_broken: true, estimated_duration_sec: 1 },
  })
const aDay = (day: string, objectKey: string, more: Record<string, unknown> = {}) =>
  insert('audit_archives', {
    ...{ day, tier: 'warm', object_key: objectKey, entries: 0, late: 0, bytes: 1, sha256: '', members: '[]' },
    ...{ previous_sha256: '', manifest_sha256: '', ...more },
  })

/** A folder of each kind for everything that can govern it. */
async function governed(): Promise<string[]> {
  const id = Array.from({ length: 20 }, () => newUuid()) as Uuid[]
  const at = (n: number) => id[n] as Uuid
  await aMedia(at(0))
  await insert('object_intents', { media_id: at(1), org_id: org })
  await anUpload(at(3), at(2), null)
  await insert('purged_media', { media_id: at(4), org_id: org, next_look_at: soon })
  await aFilm(at(5))
  await insert('downloads', { id: at(6), user_id: user, kind: 'data', files: 1, bytes: 1, expires_at: soon })
  await insert('removed_downloads', { id: at(7), user_id: user })
  await insert('data_exports', { id: at(8), user_id: user, state: 'making' })
  await insert('audit_exports', { id: at(9), user_id: user, format: 'csv', filters: '{}', until: soon })
  await insert('music_tracks', {
    ...{ id: at(10), title: 'Song', license: 'CC0', licence: 'CC0', attribution: 'X' },
    ...{ duration_sec: 60, mime_type: 'audio/mpeg', file_size_bytes: 1 },
  })
  const [hot, left, begun] = [11, 12, 13].map((n) => auditDayKey('2026-01-01', at(n))) as [string, string, string]
  await aDay('2026-01-01', coldKeyOf(hot), { left_key: left })
  await insert('audit_day_attempts', { id: at(13), day: '2026-01-02', lease_token: at(13), object_key: begun })
  await insert('retention_runs', {
    ...{ run: 'trash-1', policy: 'trash', policy_uid: 'x', target: 'MediaTrash', slot: soon, dry_run: true },
  })
  const made = [
    originalKey(org, at(0)),
    coldOriginalKey(org, at(0)),
    originalKey(org, at(1)),
    originalKey(org, at(2)),
    stagedChunkKey(org, at(3), 0),
    manifestKey(outputPrefix(org, at(4), 1)),
    `${highlightPrefix(org, at(5))}v1/master.m3u8`,
    ...[6, 7, 8, 9].map((n) => `${downloadPrefix(user, at(n))}1-1/photos.zip`),
    trackKey(at(10)),
    ...[coldKeyOf(hot), left, begun],
    retentionReportKey('trash-1'),
  ]
  // What no row governs, and nothing here may touch.
  made.push('erasures/key', `erasures/ledger/${'a'.repeat(64)}`, 'audit/anchors/t1/days/x.json')
  made.push(`org/${org}/avatars/${at(14)}/x`, `downloads/${user}/x`, 'tracks/readme')
  await put(...made)
  return made.sort()
}

t.test('what has a row or an intent stays, and what is young, the only copy or of no known kind', async (t) => {
  const kept = await governed()
  const [media, released, staged, film, zip, track, copied, original] = Array.from({ length: 8 }, newUuid) as [
    Uuid,
    Uuid,
    Uuid,
    Uuid,
    Uuid,
    Uuid,
    Uuid,
    Uuid,
  ]
  await anUpload(newUuid(), released, new Date())
  // A day of the audit log that was archived again after the restore, and its object of before.
  const [day, copy] = [auditDayKey('2026-02-01', original), auditDayKey('2026-02-01', copied)]
  for (const key of [day, copy]) await store.put(key, 'entries', { contentType: 'application/gzip' })
  const bytes = Buffer.byteLength('entries')
  await aDay('2026-02-01', day, { bytes, sha256: hash('sha256', 'entries') })
  // Other entries of a day, as many bytes; a day that the database does not know; and one whose object is gone.
  const [other, unknown, gone] = ['2026-02-01', '2026-03-01', '2026-04-01'].map((one) =>
    auditDayKey(one, newUuid()),
  ) as [string, string, string]
  for (const key of [other, unknown, coldKeyOf(gone)])
    await store.put(key, 'Entries', { contentType: 'application/gzip' })
  await aDay('2026-04-01', gone, { bytes, sha256: hash('sha256', 'Entries') })
  await put(originalKey(org, media), coldOriginalKey(org, media), manifestKey(outputPrefix(org, media, 1)))
  await put(manifestKey(outputPrefix(org, released, 1)), stagedChunkKey(org, staged, 0), stagedChunkKey(org, staged, 1))
  await put(
    `${highlightPrefix(org, film)}v1/master.m3u8`,
    `${downloadPrefix(user, zip)}1-1/photos.zip`,
    trackKey(track),
  )
  await put(retentionReportKey('trash-0'))
  await age(25)
  const young = [originalKey(org, newUuid()), `${downloadPrefix(user, newUuid())}data`] as const
  await put(...young)
  // One that got something today is young as a whole.
  const grown = newUuid()
  await put(originalKey(org, grown))
  await age(25, mediaPrefix(org, grown))
  await put(manifestKey(outputPrefix(org, grown, 1)))

  const before = await keys()
  const gonePaths = [
    [mediaPrefix(org, media), 3],
    [mediaPrefix(org, released), 1],
    [stagingPrefix(org, staged), 2],
    [highlightPrefix(org, film), 1],
    [downloadPrefix(user, zip), 1],
    [`tracks/${track}/`, 1],
    [copy, 1],
    [retentionReportKey('trash-0'), 1],
  ] as const
  const byFolder = (a: string[], b: string[]) => ((a[0] ?? '') < (b[0] ?? '') ? -1 : 1)
  const statesOf = (lines: { folder: string; state: string; objects: number }[]) =>
    lines.map(({ folder, state, objects }) => [folder, state, String(objects)]).sort(byFolder)
  const orphaned = gonePaths.map(([path, objects]) => [path, 'orphan', String(objects)])
  const doubtful = [
    ...[other, unknown, coldKeyOf(gone)].map((path) => [path, 'kept', '1']),
    ...[mediaPrefix(org, grown)].map((path) => [path, 'young', '2']),
    ...young.map((key) => [key.slice(0, key.lastIndexOf('/') + 1), 'young', '1']),
  ]
  const looked = await orphans()
  t.equal(looked.code, 0, looked.err)
  t.strictSame(statesOf(looked.lines), [...orphaned, ...doubtful].sort(byFolder))
  t.match(looked.out, {
    with_row: { folders: 16 },
    orphans: { folders: 8, objects: 11 },
    young: { folders: 3, objects: 4 },
    held: { folders: 0 },
    kept: { folders: 3, objects: 3 },
    // Below a prefix that has kinds; the ledger and the anchors are not even listed.
    unknown: { objects: 3 },
    refused: undefined,
  })
  t.ok(Date.now() - Date.parse(looked.out.orphans.since) > 86_400_000)
  t.strictSame(await keys(), before, 'a look changes nothing')

  const done = await orphans('--delete')
  t.equal(done.code, 0, done.err)
  t.match(done.out, { orphans: { folders: 8 }, deleted: { folders: 8, objects: 11, bytes: done.out.orphans.bytes } })
  t.strictSame(
    statesOf(done.lines),
    gonePaths.map(([path, objects]) => [path, 'deleted', String(objects)]).sort(byFolder),
  )
  const isGone = (key: string) => gonePaths.some(([path]) => key.startsWith(path))
  const left = await keys()
  t.strictSame(
    left,
    before.filter((key) => !isGone(key)),
  )
  for (const key of kept) t.ok(left.includes(key), key)
  const { rows } = await admin.query(`select action, resource_type, details from audit_log`)
  t.strictSame(rows, [
    {
      action: 'ADMIN_ACTION',
      resource_type: 'object_store',
      details: {
        operation: 'delete objects without rows',
        folders: 8,
        objects: 11,
        bytes: done.out.deleted.bytes,
        most: false,
      },
    },
  ])

  const again = await orphans('--delete')
  t.match(again, { code: 0, lines: [], out: { deleted: { folders: 0 } } })
  t.equal((await admin.query('select from audit_log')).rowCount, 1, 'nothing to do is no entry')
  t.equal((await orphans('--most')).code, 2, 'no deletion without being asked to')
})

t.test('another database deletes nothing', async (t) => {
  await empty()
  const [media, first, second] = [newUuid(), newUuid(), newUuid()]
  await aMedia(media)
  await put(...[media, first, second].map((id) => originalKey(org, id)))
  await age(25)
  const before = await keys()

  const refused = await orphans('--delete')
  t.match(refused, { code: 3, lines: [], err: /2 of 3 media items in the object store have no row.*--most/ })
  t.match((await orphans()).out, { orphans: { folders: 2 }, refused: /--most/ }, 'and a look says so')

  const { url: other } = await testDatabase(t)
  for (const options of [['--delete'], ['--delete', '--most']]) {
    const { code, err } = await commandLine(['objects', 'orphans', ...options], { ...env, DATABASE_URL: other })
    t.equal(code, 3)
    t.match(err, /None of the 3 media items in the object store has a row/, options.join(' '))
  }

  // A backup that was restored to look something up: few rows are missing, and no worker runs on it.
  await put(...[newUuid(), newUuid()].map((id) => `tracks/${id}/audio`))
  await store.put(LATEST, JSON.stringify({ timeline: 1, sealed: 1_000_000, at: new Date().toISOString() }), {
    contentType: 'application/json',
  })
  t.match(await orphans('--delete', '--most'), { code: 3, err: /anchors of a later audit log/ })
  t.strictSame(
    (await keys()).filter((key) => key.startsWith('org/')),
    before,
  )
  // What the worker does when it starts on the database that is to go on.
  await noticeRestore({ db, store })
  t.match((await orphans('--delete', '--most')).out, { deleted: { folders: 2, objects: 2 } })
  t.strictSame(
    (await keys()).filter((key) => key.startsWith('org/')),
    [originalKey(org, media)],
  )
})

t.test('a legal hold keeps what may be of its person, event or organization', async (t) => {
  await empty()
  const [held, free, event, member, guest, left, closed] = Array.from({ length: 7 }, () => newUuid()) as [
    ...[Uuid, Uuid, Uuid, Uuid, Uuid, Uuid, Uuid],
  ]
  for (const [id, name] of [
    [held, 'Held'],
    [free, 'Free'],
  ])
    await insert('organizations', { id, name })
  for (const id of [member, guest, left, closed]) await insert('users', { id, issuer: 'i', subject: id })
  for (const user_id of [guest, left]) await insert('memberships', { org_id: free, user_id, role: 'member' })
  await insert('reactions', {
    ...{
      id: newUuid(),
      org_id: held,
      event_id: event,
      target_type: 'meta',
      target_id: event,
      user_id: left,
      emoji: '🎉',
    },
    audience: 'event',
  })
  await insert('memberships', { org_id: held, user_id: member, role: 'member' })
  await insert('events', { id: event, org_id: held, owner_id: member, title: 'E', start_at: soon })
  await insert('event_participants', {
    event_id: event,
    org_id: held,
    user_id: guest,
    status: 'accepted',
    joined_at: soon,
  })
  const [zip, [a, b, c]] = [newUuid(), [newUuid(), newUuid(), newUuid()]] as const
  for (const id of [a, b, c]) await aMedia(id, free)
  await put(...[a, b, c].map((id) => originalKey(free, id)))
  const paths = [mediaPrefix(held, newUuid()), highlightPrefix(held, newUuid()), downloadPrefix(member, zip)]
  const [ofOrg, ofFilm, ofMember] = paths as [string, string, string]
  await put(...paths.map((path) => `${path}x`))
  await age(25)

  const table: [kind: 'organization' | 'event' | 'person', subject: Uuid, held: string[]][] = [
    ['organization', held, [ofOrg, ofFilm]],
    ['event', event, [ofOrg, ofFilm]],
    ['person', member, [ofOrg, ofFilm, ofMember]],
    ['person', guest, [ofOrg, ofFilm]],
    // Who has left the organization, and who has no membership any more because the account was closed.
    ['person', left, [ofOrg, ofFilm]],
    ['person', closed, [ofOrg, ofFilm]],
  ]
  for (const [kind, subject, expected] of table) {
    const { id } = await addHold(db, { kind, subject, reason: 'case', placedBy: 'court' })
    const { lines } = await orphans()
    const heldOf = lines.filter(({ state }) => state === 'held').map(({ folder }) => folder)
    t.strictSame(heldOf.sort(), expected.sort(), kind)
    await releaseHold(db, id)
  }
  const { id } = await addHold(db, { kind: 'event', subject: event, reason: 'case', placedBy: 'court' })
  t.match((await orphans('--delete')).out, { held: { folders: 2 }, deleted: { folders: 1 } })
  t.equal(await store.head(`${ofMember}x`), undefined)
  await releaseHold(db, id)
  t.match((await orphans('--delete')).out, { held: { folders: 0 }, deleted: { folders: 2 } }, 'its end lets it go')
})

/** Five orphans and as many media items, and a store in which something happens just before a folder is looked at again. */
async function busyScene(happens: (path: string, nth: number) => Promise<unknown>) {
  await empty()
  const paths = Array.from({ length: 5 }, () => mediaPrefix(org, newUuid())).sort()
  // Later in the list.
  const [ids, later] = [[] as Uuid[], Date.now() + 60_000]
  for (let n = 0; n < 5; n++) ids.push(newUuid(later))
  for (const id of ids) await aMedia(id, newUuid())
  await put(...ids.map((id) => originalKey(org, id)))
  await put(...paths.flatMap((path) => [`${path}original`, `${path}v1/master.m3u8`]))
  await age(25)
  let nth = 0
  const busy: ObjectStore = {
    ...store,
    async *list(prefix) {
      if (paths.includes(prefix)) await happens(prefix, nth++)
      yield* store.list(prefix)
    },
  }
  const told: string[] = []
  const onFolder: OnFolder = ({ path }, state) => told.push(`${state} ${paths.indexOf(path)}`)
  const run = (more: Partial<ObjectStore> = {}) =>
    deleteOrphans({ db, store: { ...busy, ...more } }, { window: 2, most: false }, onFolder)
  return {
    paths,
    told,
    run,
    left: async () => (await keys()).filter((key) => paths.some((one) => key.startsWith(one))),
  }
}

t.test('a row, an object or a hold that comes meanwhile keeps its folder', async (t) => {
  const holds: Uuid[] = []
  const { told, run, left, paths } = await busyScene(async (path, nth) => {
    if (nth === 1) await aMedia(path.split('/')[3] as Uuid)
    if (nth === 2) await put(`${path}v1/thumb.webp`)
    if (nth === 4) {
      await insert('organizations', { id: org, name: 'Held' })
      const row = { kind: 'organization', subject: org, reason: 'case', placedBy: 'court' } as const
      holds.push((await addHold(db, row)).id)
    }
  })
  const { deleted } = await run()
  t.match(deleted, { folders: 2, objects: 4 })
  t.strictSame(told, ['deleted 0', 'deleted 3'])
  t.strictSame(
    new Set((await left()).map((key) => paths.findIndex((path) => key.startsWith(path)))),
    new Set([1, 2, 4]),
  )
  for (const id of holds) await releaseHold(db, id)
})

t.test('a run that dies is repeated, two at once do the same, and a lock keeps one folder', async (t) => {
  const dying = await busyScene(async () => {})
  await t.rejects(
    dying.run({
      async deletePrefix(prefix) {
        if (prefix !== dying.paths[2]) return store.deletePrefix(prefix)
        await store.delete(`${prefix}original`)
        throw new Error('the process dies')
      },
    }),
    /dies/,
  )
  t.equal((await dying.left()).length, 5, 'in the middle of a folder')
  t.match((await dying.run()).deleted, { folders: 3, objects: 5 })
  t.strictSame(await dying.left(), [])

  const twice = await busyScene(async () => {})
  await Promise.all([twice.run(), twice.run()])
  t.strictSame(await twice.left(), [])

  const locked = await busyScene(async () => {})
  const { deleted, locked: kept } = await locked.run({
    async deletePrefix(prefix) {
      if (prefix === locked.paths[1]) throw new StoreError('Locked', 'locked for a year')
      return store.deletePrefix(prefix)
    },
  })
  t.match([deleted, kept], [{ folders: 4 }, { folders: 1, objects: 2 }])
  t.ok(locked.told.includes('locked 1'))
  t.equal((await locked.left()).length, 2)
})

t.test('a process that is killed between two folders leaves the others to the next one', async (t) => {
  const { left, run } = await busyScene(async () => {})
  const program = fileURLToPath(new URL('../../support/dying-orphans.ts', import.meta.url))
  const child = spawn(process.execPath, [program, url, places.STORE_FOLDER, 'orphans.deleted:2'], { stdio: 'inherit' })
  t.strictSame(await once(child, 'exit'), [null, 'SIGKILL'])
  t.equal((await left()).length, 6)
  t.match((await run()).deleted, { folders: 3, objects: 6 })
  t.strictSame(await left(), [])
  const { rows } = await admin.query(
    `select details->'folders' as folders from audit_log order by occurred_at desc limit 2`,
  )
  t.strictSame(rows, [{ folders: 3 }, { folders: 5 }], 'the log has both')
})

t.test('what was not counted is left to the next run', async (t) => {
  // Rows that vanish while it runs: the database is being replaced.
  const rows: string[] = []
  const { run, left } = await busyScene(async (_, nth) => {
    if (nth === 0) rows.push(...(await bare.query('delete from media where org_id <> $1 returning id', [org])).rows)
  })
  t.match((await run()).deleted, { folders: 5 })
  t.ok(rows.length >= 5)
  t.strictSame(await left(), [])
  t.equal((await keys()).filter((key) => key.endsWith('/original')).length, 5)
})
