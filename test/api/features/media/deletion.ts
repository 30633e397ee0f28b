import t from 'tap'
import { originalKey, outputPrefix } from '../../../../lib/contract/object-keys.ts'
import { fakeMp4, formOf, type Person, pathOf, startApiOn, startTestApi, uuidOf } from '../../../support/api.ts'

const api = await startTestApi(t)
const { people, org, call, database } = api
const { owner, admin, member, another, stranger } = people
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)

async function upload(who: Person = member, fields: Record<string, string> = {}): Promise<string> {
  const form = formOf(fakeMp4(1000), 'clip.mp4', fields)
  return (await call(who, 'POST', `/api/media/${org}/single`, { form })).data.media_id
}
const at = (id: string) => `/api/media/${org}/${id}`
const del = (who: Person, id: string) => call(who, 'DELETE', at(id))
const restore = (who: Person, id: string) => call(who, 'POST', `${at(id)}/restore`)
const show = (who: Person, id: string) => call(who, 'GET', at(id))
const trash = async (who: Person): Promise<string[]> =>
  (await call(who, 'GET', `/api/media/${org}/trash?limit=100`)).data.media.map((m: { media_id: string }) => m.media_id)
const listed = async (who: Person): Promise<string[]> =>
  (await call(who, 'GET', `/api/media/${org}?limit=100`)).data.media.map((m: { media_id: string }) => m.media_id)
const age = (id: string, by: string) =>
  sql('update media set deleted_at = deleted_at - $2::interval where id = $1', [uuidOf('media', id), by])
const events = (id: string, type: string) =>
  sql('select * from outbox where aggregate_id = $1 and type = $2 order by aggregate_version', [
    uuidOf('media', id),
    type,
  ])
const audited = async (id: string) =>
  (
    await sql(
      `select details ->> 'operation' as operation, actor_id from audit_log where resource_id = $1 and action = 'MEDIA_DELETE' order by occurred_at, id`,
      [uuidOf('media', id)],
    )
  ).map((row) => [row.operation, row.actor_id])

/** Makes a Live Photo of an image and a video, as pairing leaves it. */
async function livePhoto(): Promise<{ image: string; video: string }> {
  const [image, video] = [await upload(), await upload()]
  const ids = [uuidOf('media', image), uuidOf('media', video)]
  await sql(`update media set kind = 'image', mime_type = 'image/jpeg' where id = $1`, [ids[0]])
  await sql(
    'update media set paired_media_id = case when id = $1 then $2 else $1 end::uuid where id in ($1, $2)'.replaceAll(
      /\$(\d)/g,
      '$$$1::uuid',
    ),
    ids,
  )
  return { image, video }
}

/** Each row of the table of permissions: who deletes, and who may then do what. */
const RULES: { by: Person; restorers: Person[]; refused: Person[]; deleters: Person[] }[] = [
  { by: member, restorers: [member, admin, owner], refused: [another, stranger], deleters: [member, admin, owner] },
  { by: admin, restorers: [admin, owner], refused: [member, another, stranger], deleters: [member, admin, owner] },
]
for (const { by, restorers, refused, deleters } of RULES) {
  t.test(`deleted by the ${by === member ? 'uploader' : 'administrator'}`, async (t) => {
    const id = await upload()
    for (const who of [another, stranger]) t.match(await del(who, id), { status: 404, code: 'NOT_FOUND' })
    for (const who of restorers) {
      t.equal((await del(by, id)).status, 204)
      t.equal((await show(owner, id)).status, 404)
      for (const other of deleters) t.equal((await del(other, id)).status, 204, 'a repeat')
      for (const other of [another, stranger]) t.equal((await del(other, id)).status, 404)
      for (const other of refused) t.match(await restore(other, id), { status: 404, code: 'NOT_FOUND' })
      t.match(await restore(who, id), { status: 200, data: { media_id: id } })
      t.equal((await show(another, id)).status, 200)
    }
    t.equal((await events(id, 'MediaDeleted')).length, restorers.length, 'a repeat is no deletion')
    t.strictSame(
      await audited(id),
      restorers.flatMap((who) => [
        ['delete', by.id],
        ['restore', who.id],
      ]),
    )
  })
}

t.test('the event of a deletion says what and when, under the version after it', async (t) => {
  const id = await upload()
  await del(admin, id)
  const [row] = await sql('select * from media where id = $1', [uuidOf('media', id)])
  const [event] = await events(id, 'MediaDeleted')
  t.match(event, {
    aggregate_version: row?.version,
    payload: { media_id: id, org_id: org, uploader_id: member.wireId, deleted_at: row?.deleted_at.toISOString() },
  })
  t.equal(row?.deleted_by, admin.id)
})

t.test('restore of what is not deleted shows it to those who may delete it', async (t) => {
  const id = await upload()
  const [before] = await sql('select version from media where id = $1', [uuidOf('media', id)])
  for (const who of [member, admin, owner]) t.match(await restore(who, id), { status: 200, data: { media_id: id } })
  for (const who of [another, stranger]) t.equal((await restore(who, id)).status, 404)
  const [after] = await sql('select version from media where id = $1', [uuidOf('media', id)])
  t.equal(after?.version, before?.version)
  t.strictSame(await audited(id), [])
})

t.test('after 30 days by the clock of the database nothing brings it back', async (t) => {
  const id = await upload()
  await del(member, id)
  await age(id, '29 days 23 hours 59 minutes')
  t.ok((await trash(member)).includes(id))
  t.equal((await del(member, id)).status, 204)
  t.equal((await restore(member, id)).status, 200)
  await del(member, id)
  await age(id, '30 days')
  t.notOk((await trash(member)).includes(id))
  t.notOk((await trash(owner)).includes(id))
  for (const who of [member, owner]) {
    t.match(await restore(who, id), { status: 422, code: 'RESTORE_WINDOW_EXPIRED' })
    t.match(await del(who, id), { status: 404, code: 'NOT_FOUND' })
  }
  t.match(await restore(another, id), { status: 404, code: 'NOT_FOUND' })
})

t.test('while it is being purged nothing brings it back', async (t) => {
  const id = await upload()
  await del(member, id)
  await sql('update media set purging_at = now() where id = $1', [uuidOf('media', id)])
  t.match(await restore(member, id), { status: 422, code: 'RESTORE_WINDOW_EXPIRED' })
  t.match(await del(member, id), { status: 404, code: 'NOT_FOUND' })
  t.notOk((await trash(member)).includes(id))
})

t.test('links stop at once, on every replica, and work again after a restore', async (t) => {
  const replica = await startApiOn(t, {
    database,
    identity: api.identity,
    store: api.store,
    settings: { LINK_KEYS: JSON.stringify(api.config.LINK_KEYS) },
  })
  const id = await upload()
  const uuid = uuidOf('media', id)
  const prefix = outputPrefix(orgId, uuid, 1)
  for (const name of ['master.m3u8', '360p.m3u8', '360p_0.ts'])
    await api.store.put(`${prefix}${name}`, 'x', { contentType: 'text/plain' })
  await sql(
    `update media set output_prefix = $2, hls_master = 'master.m3u8', upload_status = 'completed' where id = $1`,
    [uuid, prefix],
  )
  const { data } = await show(member, id)
  const master = pathOf(data.variants.hls_master_url)
  const paths = [
    pathOf(data.original_url),
    master,
    master.replace('master', '360p'),
    master.replace('master.m3u8', '360p_0.ts'),
  ]
  const statuses = async (wanted: number) => {
    for (const url of [api.publicUrl, replica.publicUrl]) {
      for (const path of paths) {
        for (const headers of [{}, { range: 'bytes=0-0' }] as Record<string, string>[]) {
          const { status } = await fetch(`${url}${path}`, { headers, redirect: 'manual' })
          if (status !== wanted && status !== wanted + 6) return `${path.slice(-20)}: ${status}`
        }
      }
    }
    return 'all'
  }
  t.equal(await statuses(200), 'all')
  await del(member, id)
  t.equal(await statuses(404), 'all')
  t.notOk((await listed(member)).includes(id))
  t.equal((await call(member, 'GET', `${at(id)}/metadata`)).status, 404)
  await restore(member, id)
  t.equal(await statuses(200), 'all')
  t.ok((await listed(member)).includes(id))
})

t.test('the trash shows each what they uploaded or deleted, and administrators all', async (t) => {
  await sql('update media set deleted_at = null, deleted_by = null, purging_at = null')
  const [mine, theirs, moderated] = [await upload(member), await upload(another), await upload(member)]
  const ofAdmin = await upload(admin)
  await del(member, mine)
  await del(another, theirs)
  await del(admin, moderated)
  await del(admin, ofAdmin)
  t.strictSame(await trash(member), [moderated, mine])
  t.strictSame(await trash(another), [theirs])
  t.strictSame(await trash(admin), [ofAdmin, moderated, theirs, mine])
  t.strictSame(await trash(owner), [ofAdmin, moderated, theirs, mine])
  const { data } = await call(member, 'GET', `/api/media/${org}/trash`)
  const [item] = data.media
  t.equal(Date.parse(item.purge_at) - Date.parse(item.deleted_at), 30 * 24 * 3600 * 1000)
  t.match(item, { org_id: org, uploader_id: member.wireId, upload_status: 'processing', variants: {} })
  t.match(await call(member, 'PUT', `/api/media/${org}/trash`), { status: 405 })
  t.equal((await call(stranger, 'GET', `/api/media/${org}/trash`)).status, 404)
})

t.test('either half of a Live Photo stands for both, also while others ask for the other half', async (t) => {
  for (const [first, second] of [
    ['image', 'video'],
    ['video', 'image'],
  ] as const) {
    const photo = await livePhoto()
    t.equal((await del(member, photo[first])).status, 204)
    for (const id of Object.values(photo)) t.equal((await show(member, id)).status, 404)
    const shown = await trash(member)
    t.strictSame([shown.includes(photo.image), shown.includes(photo.video)], [true, false])
    for (const id of Object.values(photo)) t.equal((await events(id, 'MediaDeleted')).length, 1)
    t.match(await restore(member, photo[second]), { status: 200, data: { media_id: photo[second] } })
    for (const id of Object.values(photo)) t.equal((await show(member, id)).status, 200)
  }
  const photo = await livePhoto()
  for (let round = 0; round < 8; round++) {
    const answers = await Promise.all([
      del(member, photo.image),
      restore(member, photo.video),
      del(admin, photo.video),
      restore(admin, photo.image),
    ])
    // The uploader may not restore what the administrator was first to delete.
    for (const { status } of answers) t.ok([200, 204, 404].includes(status), String(status))
    const rows = await sql('select deleted_at, deleted_by from media where id = any($1)', [
      Object.values(photo).map((id) => uuidOf('media', id)),
    ])
    t.strictSame(rows[0], rows[1], 'never half of it')
  }
})

t.test('a half that was paired while the deletion waited is not forgotten', async (t) => {
  const photo = await livePhoto()
  const [image, video] = [uuidOf('media', photo.image), uuidOf('media', photo.video)]
  await sql('update media set paired_media_id = null where id = any($1)', [[image, video]])
  const pairing = await database.admin.connect()
  try {
    await pairing.query('begin')
    await pairing.query('update media set paired_media_id = $2 where id = $1', [image, video])
    await pairing.query('update media set paired_media_id = $2 where id = $1', [video, image])
    const deleting = del(member, photo.video)
    for (;;) {
      const [waits] = await sql(
        `select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      if (waits?.n > 0) break
    }
    await pairing.query('commit')
    t.equal((await deleting).status, 204)
  } finally {
    pairing.release()
  }
  for (const id of Object.values(photo)) t.equal((await show(member, id)).status, 404)
})

t.test('many deletions and restores at the same instant: each event has its own version, none is lost', async (t) => {
  const id = await upload()
  const answers = await Promise.all(
    Array.from({ length: 24 }, (_, i) => (i % 2 ? del(member, id) : restore(member, id))),
  )
  for (const { status } of answers) t.ok([200, 204].includes(status), String(status))
  const operations = (await audited(id)).map(([operation]) => operation)
  const deletions = operations.filter((operation) => operation === 'delete').length
  t.equal((await events(id, 'MediaDeleted')).length, deletions)
  t.ok(Math.abs(deletions - (operations.length - deletions)) <= 1, 'they take turns')
  const [row] = await sql('select version, deleted_at from media where id = $1', [uuidOf('media', id)])
  t.equal(row?.version, 1 + operations.length)
  t.equal(row?.deleted_at !== null, deletions > operations.length - deletions)
})

t.test('the trash counts against the storage of the uploader', async (t) => {
  const used = async () => (await call(another, 'GET', '/api/users/me')).data.storage.used_bytes
  const id = await upload(another)
  const before = await used()
  await del(another, id)
  t.equal(await used(), before)
  t.ok(await api.store.head(originalKey(orgId, uuidOf('media', id))))
})

t.test('a dry run of the permissions finds what is in the trash', async (t) => {
  const id = await upload()
  await del(admin, id)
  const explain = async (who: Person, action: string) =>
    (
      await call(people.platformAdmin, 'POST', '/admin/permissions/explain', {
        json: { user_id: who.wireId, org_id: org, action, resource_id: id },
      })
    ).data
  t.match(await explain(member, 'media.delete'), { allowed: true })
  t.match(await explain(member, 'media.restore'), { allowed: false, reason: 'rule_not_met', facts: { deleter: false } })
  t.match(await explain(admin, 'media.restore'), { allowed: true, facts: { deleter: true } })
  t.match(await explain(member, 'media.read'), { allowed: false, reason: 'no_such_resource' })
})
