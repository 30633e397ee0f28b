import { randomInt } from 'node:crypto'
import t from 'tap'
import { sql } from '../../../../api/db/orm.ts'
import { expireUploads } from '../../../../api/features/media/uploads/release.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { type Answer, fakeMp4, formOf, type Person, startTestApi, uuidOf } from '../../../support/api.ts'
import { quietLog } from '../../../support/quiet-log.ts'

const QUOTA = 100_000
const MAX_OPEN = 10
const settings = { USER_QUOTA_BYTES: String(QUOTA), MAX_OPEN_UPLOADS: String(MAX_OPEN) }
const api = await startTestApi(t, { settings })
const { people, call, database, org, otherOrg, store } = api
const { admin, worker } = database
const me = people.member

// The member of the first organization is one of the second as well: the quota is the person's.
await admin.query(
  `insert into memberships (org_id, user_id, role) select id, $1, 'member' from organizations where name = 'Two'`,
  [me.id],
)

t.beforeEach(async () => {
  await admin.query('delete from upload_chunks')
  await admin.query('delete from uploads')
  await admin.query('delete from media')
  for (const key of await api.keys()) await store.delete(key)
})

const single = (size: number, options: { who?: Person; in?: string; fields?: Record<string, string> } = {}) =>
  call(options.who ?? me, 'POST', `/api/media/${options.in ?? org}/single`, {
    form: formOf(fakeMp4(size), 'clip.mp4', options.fields),
  })
const start = (size: number, options: { who?: Person; in?: string; chunk?: number } = {}) =>
  call(options.who ?? me, 'POST', `/api/media/${options.in ?? org}/upload`, {
    json: {
      filename: 'clip.mp4',
      mime_type: 'video/mp4',
      file_size_bytes: size,
      chunk_size_bytes: options.chunk ?? Math.min(size, 1024 ** 2),
    },
  })
const used = async (who = me): Promise<number> =>
  (await call(who, 'GET', '/api/users/me')).data.storage.used_bytes as number
const count = (answers: Answer[], status: number) => answers.filter((a) => a.status === status).length
const refusedFor = (quota: string, field: string, limit: number) => ({
  status: 422,
  code: 'QUOTA_EXCEEDED',
  body: { error: { details: [{ quota, field, limit }] } },
})
const times = <T>(n: number, make: (i: number) => Promise<T>) =>
  Promise.all(Array.from({ length: n }, (_, i) => make(i)))

t.test('fifty single uploads at once: exactly those that fit succeed, and the others leave nothing', async (t) => {
  const answers = await times(50, (i) => single(9000, { in: i % 2 ? org : otherOrg }))
  t.equal(count(answers, 201), 11)
  for (const answer of answers.filter((a) => a.status !== 201))
    t.match(answer, refusedFor('storage', 'body.file', QUOTA))
  t.equal(await used(), 99_000)
  t.equal((await api.keys()).length, 11)
  t.equal((await admin.query('select from object_intents')).rowCount, 0)
})

t.test('fifty upload starts at once: exactly those that fit succeed', async (t) => {
  const answers = await times(50, (i) => start(30_000, { in: i % 2 ? org : otherOrg }))
  t.equal(count(answers, 201), 3)
  for (const answer of answers.filter((a) => a.status !== 201)) {
    t.match(answer, refusedFor('storage', 'body.file_size_bytes', QUOTA))
  }
  t.equal(await used(), 90_000)
  t.equal((await admin.query('select from uploads')).rowCount, 3)
})

t.test('single uploads and upload starts at once share one quota', async (t) => {
  const answers = await times(40, (i) => (i % 2 ? single(20_000) : start(20_000)))
  t.equal(count(answers, 201), 5)
  t.equal(await used(), QUOTA)
})

t.test('at most so many uploads are open, also when fifty start at once', async (t) => {
  const answers = await times(50, () => start(10))
  t.equal(count(answers, 201), MAX_OPEN)
  for (const answer of answers.filter((a) => a.status !== 201)) {
    t.match(answer, refusedFor('open_uploads', 'body.file_size_bytes', MAX_OPEN))
  }
  t.match(await single(10), { status: 201 }, 'a whole file opens none')
  t.match(await start(10, { who: people.another }), { status: 201 }, 'and others have their own')

  const [id] = answers.filter((a) => a.status === 201).map((a) => a.data.upload_id as string)
  t.equal((await call(me, 'DELETE', `/api/media/${org}/upload/${id}`)).status, 204)
  t.equal((await start(10)).status, 201, 'one that was aborted makes room')
  t.equal((await start(10)).status, 422)
  await admin.query(`update uploads set expires_at = now() - interval '1 minute' where uploader_id = $1`, [me.id])
  await expireUploads(worker, store, { log: quietLog() })
  t.equal((await start(10)).status, 201, 'so do those that have expired')
})

t.test('what is refused is removed and counts for nothing, also under an Idempotency-Key', async (t) => {
  t.equal((await single(60_000)).status, 201)
  const refused = await call(me, 'POST', `/api/media/${org}/single`, {
    form: formOf(fakeMp4(50_000)),
    headers: { 'idempotency-key': 'one' },
  })
  t.match(refused, refusedFor('storage', 'body.file', QUOTA))
  t.equal((await api.keys()).length, 1)
  await admin.query('delete from media')
  const again = await call(me, 'POST', `/api/media/${org}/single`, {
    form: formOf(fakeMp4(50_000)),
    headers: { 'idempotency-key': 'one' },
  })
  t.equal(again.status, 201, 'the refusal was not kept')
})

t.test('when the storage is full, both ways of uploading are refused', async (t) => {
  t.equal((await single(QUOTA)).status, 201)
  t.match(await single(50), refusedFor('storage', 'body.file', QUOTA))
  t.match(await start(1), refusedFor('storage', 'body.file_size_bytes', QUOTA))
})

t.test('the trash counts until it is purged; what is purged comes back', async (t) => {
  t.equal((await single(QUOTA)).status, 201)
  await admin.query('update media set deleted_at = now()')
  t.equal(await used(), QUOTA)
  t.equal((await single(50)).status, 422)
  await admin.query('delete from media')
  t.equal(await used(), 0)
  t.equal((await single(50)).status, 201)
})

t.test('a merge moves bytes from the upload to the media item, and is never refused', async (t) => {
  const bytes = fakeMp4(60_000)
  const { data } = await start(bytes.length)
  t.equal(await used(), 60_000)
  const put = await call(me, 'PUT', `/api/media/${org}/upload/${data.upload_id}/0`, { bytes })
  t.equal(put.status, 200)
  t.equal((await single(40_000)).status, 201)
  t.equal(await used(), QUOTA, 'a chunk that arrives costs nothing more')
  const merged = await call(me, 'POST', `/api/media/${org}/merge`, { json: { upload_id: data.upload_id } })
  t.equal(merged.status, 201)
  t.equal(await used(), QUOTA)
  t.match((await admin.query('select * from user_storage where user_id = $1', [me.id])).rows, [
    { media_bytes: String(QUOTA), upload_bytes: '0', open_uploads: 0 },
  ])
})

const leave = (who = me, from = otherOrg) => call(who, 'DELETE', `/api/organizations/${from}/members/me`)
const join = (who: Person, to = otherOrg) =>
  admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [
    uuidOf('organization', to),
    who.id,
  ])

t.test('what a user stores in an organization counts only while the user is a member', async (t) => {
  t.equal((await single(QUOTA - 1000, { in: otherOrg })).status, 201)
  t.equal((await single(1000)).status, 201)
  t.equal((await single(50)).status, 422)
  t.equal((await leave()).status, 204)
  t.equal(await used(), 1000)
  t.equal((await single(1000)).status, 201, 'the user could not free it')
  await join(me)
  t.equal(await used(), QUOTA + 1000, 'it counts again with a new membership')
  t.equal((await single(50)).status, 422)
  t.equal((await leave()).status, 204)
  await admin.query('delete from media where org_id = $1', [uuidOf('organization', otherOrg)])
  t.equal(await used(), 2000, 'a purge after the membership takes nothing off')
  await join(me)
  t.equal(await used(), 2000)
})

t.test('the open uploads of a user end with the membership', async (t) => {
  const chunk = fakeMp4(30_000)
  const { data } = await start(60_000, { in: otherOrg, chunk: chunk.length })
  const path = `/api/media/${otherOrg}/upload/${data.upload_id}`
  t.equal((await call(me, 'PUT', `${path}/0`, { bytes: chunk })).status, 200)
  t.equal((await start(30_000)).status, 201, 'elsewhere')
  const merging = (await start(1000, { in: otherOrg })).data.upload_id
  await admin.query(
    `update uploads set state = 'merging', merge_lease_holder = gen_random_uuid(),
      merge_lease_until = clock_timestamp() + interval '1 minute' where id = $1`,
    [uuidOf('upload', merging)],
  )
  t.equal((await api.keys()).length, 1)
  t.equal((await leave()).status, 204)
  const stateOf = async (id: string) =>
    (await admin.query('select state from uploads where id = $1', [uuidOf('upload', id)])).rows[0].state
  t.equal(await stateOf(data.upload_id), 'aborted')
  t.equal(await stateOf(merging), 'merging', 'a merge under way finds out by itself')
  t.equal(await used(), 30_000)
  await expireUploads(worker, store, { log: quietLog() })
  t.strictSame(await api.keys(), [], 'what had arrived is gone')
  await join(me)
  t.equal((await call(me, 'GET', path)).data.status, 'aborted')
  t.equal(await used(), 31_000)
})

t.test('a file of a size that nobody may have says so, not that the quota is full', async (t) => {
  t.match(await start(11 * 1024 ** 3), { status: 422, code: 'FILE_TOO_LARGE' })
})

/** The counters as they should be. */
const RECOUNT = `select u.id,
    coalesce((select sum(file_size_bytes) from media where uploader_id = u.id), 0)::text media_bytes,
    coalesce((select sum(file_size_bytes) from uploads where uploader_id = u.id and state in ('open', 'merging')), 0)::text
      upload_bytes,
    (select count(*)::int from uploads where uploader_id = u.id and state in ('open', 'merging')) open_uploads
  from users u order by u.id`
const COUNTERS = `select u.id, coalesce(media_bytes, 0)::text media_bytes, coalesce(upload_bytes, 0)::text upload_bytes,
    coalesce(open_uploads, 0) open_uploads
  from users u left join user_storage s on s.user_id = u.id order by u.id`

const BY_ORGANIZATION = 'select user_id, org_id, bytes::text, open_uploads from storage_in_organizations order by 1, 2'
const RECOUNT_BY_ORGANIZATION = `select user_id, org_id, sum(bytes)::text bytes, sum(is_open)::int open_uploads from (
    select uploader_id user_id, org_id, file_size_bytes bytes, 0 is_open from media
    union all select uploader_id, org_id, file_size_bytes, 1 from uploads where state in ('open', 'merging')
  ) stored group by 1, 2 having sum(bytes) > 0 order by 1, 2`

t.test(
  'after everything that can happen to rows, also at once and rolled back, a recount equals the counters',
  async (t) => {
    const owners = [me.id, people.another.id, people.owner.id]
    const orgIds = [org, otherOrg].map((one) => uuidOf('organization', one))
    const any = `(select id from media order by random() limit 3)`
    const anyUpload = `(select id from uploads order by random() limit 3)`
    const acts: (() => [string, unknown[]])[] = [
      () => [
        `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes)
       select gen_random_uuid(), $1, u, 'f', 'video/mp4', 'video', $2 from unnest($3::uuid[]) u, generate_series(1, 3)`,
        [orgIds[randomInt(2)], randomInt(1000), owners],
      ],
      () => [
        `insert into uploads (id, org_id, uploader_id, media_id, layout, filename, mime_type, file_size_bytes,
         chunk_size_bytes, total_chunks, expires_at, absolute_expires_at, state)
       select gen_random_uuid(), $1, u, gen_random_uuid(), 'staged', 'f', 'video/mp4', $2, 1, 1, now(), now(), state
       from unnest($3::uuid[]) u, unnest(array['open', 'merging', 'completed', 'aborted']) state`,
        [orgIds[randomInt(2)], randomInt(1000), owners],
      ],
      () => [`delete from media where id in ${any}`, []],
      () => [`delete from uploads where id in ${anyUpload}`, []],
      () => [`update media set deleted_at = now(), version = version + 1 where id in ${any}`, []],
      () => [`update media set file_size_bytes = $1 where id in ${any}`, [randomInt(1000)]],
      () => [`update media set uploader_id = $1 where id in ${any}`, [owners[randomInt(3)]]],
      ...['open', 'merging', 'completed', 'aborted', 'expired'].map((state) => (): [string, unknown[]] => [
        `update uploads set state = $1 where id in ${anyUpload}`,
        [state],
      ]),
      () => [
        `update uploads set uploader_id = $1, file_size_bytes = 7 where id in ${anyUpload}`,
        [owners[randomInt(3)]],
      ],
      () => [`update uploads set expires_at = now() where id in ${anyUpload}`, []],
    ]
    let undone = 0
    await times(5, async () => {
      const client = await admin.connect()
      for (let i = 0; i < 60; i++) {
        const [text, values] = acts[randomInt(acts.length)]?.() ?? ['', []]
        await client.query('begin')
        try {
          await client.query(text, values)
          if (randomInt(4) === 0) throw new Error('rolled back')
          await client.query('commit')
        } catch {
          // Also deadlocks: several rows of several people in random order.
          undone += 1
          await client.query('rollback')
        }
      }
      client.release()
    })
    t.ok(undone > 20 && undone < 250, `${undone} of 300 were undone`)
    t.strictSame((await admin.query(COUNTERS)).rows, (await admin.query(RECOUNT)).rows)
    t.strictSame((await admin.query(BY_ORGANIZATION)).rows, (await admin.query(RECOUNT_BY_ORGANIZATION)).rows)
  },
)

t.test('the API’s role can read the counters and change nothing of them', async (t) => {
  const { db } = database
  const scope = { org: uuidOf('organization', org), user: me.id }
  for (const statement of [
    `update user_storage set media_bytes = 0`,
    `insert into user_storage (user_id) values ('${newUuid()}')`,
    'delete from user_storage',
    `select charge_user('${me.id}', 1, 1, 1)`,
    `select charge_in('${me.id}', '${newUuid()}', 1, 1)`,
    'select from storage_in_organizations',
  ]) {
    await t.rejects(
      db.inTransaction(scope, (tx) => tx.execute(sql.raw(statement))),
      { cause: { message: /permission denied/ } },
      statement,
    )
  }
})
