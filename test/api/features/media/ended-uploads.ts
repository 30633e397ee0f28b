import t, { type Test } from 'tap'
import { forgetUploads } from '../../../../api/features/media/uploads/forget.ts'
import { deleteOldUploads } from '../../../../api/features/media/uploads/queries.ts'
import { expireUploads } from '../../../../api/features/media/uploads/release.ts'
import { addHold, releaseHold } from '../../../../api/features/retention/holds.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { fakeMp4, startTestApi, uuidOf } from '../../../support/api.ts'
import { eventually } from '../../../support/eventually.ts'
import { subqueriesPerRow } from '../../../support/explain.ts'
import { inTurn } from '../../../support/in-turn.ts'
import { quietLog } from '../../../support/quiet-log.ts'

/** What the database keeps of upload sessions that have ended. */
const api = await startTestApi(t)
const { people, org, call, store, database } = api
const { worker } = database
const { member } = people
const sql = async (text: string, values: unknown[] = []) => (await database.admin.query(text, values)).rows
const bytes = fakeMp4(3000)

async function anUpload(chunkBytes: number) {
  const json = { filename: 'a.mp4', mime_type: 'video/mp4', file_size_bytes: 3000, chunk_size_bytes: chunkBytes }
  const { data } = await call(member, 'POST', `/api/media/${org}/upload`, { json })
  const path = `/api/media/${org}/upload/${data.upload_id}`
  for (let index = 0; index < data.total_chunks; index++) {
    const chunk = bytes.subarray(index * chunkBytes, (index + 1) * chunkBytes)
    t.equal((await call(member, 'PUT', `${path}/${index}`, { bytes: chunk })).status, 200)
  }
  const id = uuidOf('upload', data.upload_id)
  return {
    ...{ id, path },
    get: () => call(member, 'GET', path),
    abort: () => call(member, 'DELETE', path),
    merge: (more = {}) =>
      call(member, 'POST', `/api/media/${org}/merge`, { json: { upload_id: data.upload_id, ...more } }),
    chunks: async () => (await sql('select from upload_chunks where upload_id = $1', [id])).length,
    exists: async () => (await sql('select from uploads where id = $1', [id])).length === 1,
  }
}
type AnUpload = Awaited<ReturnType<typeof anUpload>>

const expire = async () => {
  await sql(`update uploads set expires_at = now() where state = 'open'`)
  await expireUploads(worker, store, { log: quietLog() })
}
const letPass = (time: string) =>
  sql('update uploads set storage_released_at = storage_released_at - $1::interval', [time])

const ENDS: [string, (upload: AnUpload) => Promise<unknown>, string][] = [
  ['is merged', (upload) => upload.merge(), 'completed'],
  ['is aborted', (upload) => upload.abort(), 'aborted'],
  ['is refused by the merge', (upload) => upload.merge({ checksum_sha256: '0'.repeat(64) }), 'aborted'],
  ['expires', expire, 'expired'],
]
for (const [layout, chunkBytes] of [
  ['staged', 1000],
  ['multipart', 3000],
] as const) {
  for (const [how, end, status] of ENDS) {
    t.test(`${layout}: when a session ${how}, its chunks are forgotten, and a week later the session`, async (t) => {
      const upload = await anUpload(chunkBytes)
      const total = 3000 / chunkBytes
      t.equal(await upload.chunks(), total)
      await end(upload)
      // A merge does not wait for the end of its chunks.
      await eventually('the end of the chunks', async () => (await upload.chunks()) === 0)
      const isMerged = status === 'completed'
      t.match((await upload.get()).data, {
        ...{ status, total_chunks: total, received_chunks: isMerged ? total : 0 },
        received_ranges: isMerged ? [[0, total - 1]] : [],
      })
      await letPass('6 days 23 hours')
      t.equal(await forgetUploads(worker), 0)
      await isRepeatable(t, upload, how.includes('refused') ? 'refused' : status)
      await letPass('1 hour')
      t.equal(await forgetUploads(worker), 1)
      t.notOk(await upload.exists())
      for (const answer of [upload.get(), upload.abort()]) t.equal((await answer).code, 'NOT_FOUND')
      t.match(await upload.merge(), {
        status: 404,
        body: { error: { details: [{ field: 'body.upload_id', issue: 'does not exist' }] } },
      })
    })
  }
}

async function isRepeatable(t: Test, upload: AnUpload, end: string): Promise<void> {
  const again = await upload.merge()
  if (end !== 'completed') return void t.equal(again.code, end === 'refused' ? 'CHECKSUM_MISMATCH' : 'UPLOAD_EXPIRED')
  t.equal(again.status, 200)
  t.equal((await call(member, 'GET', `/api/media/${org}/${again.data.media_id}`)).status, 200)
}

t.test('a media item stays when its session is forgotten, and so does what its person stores', async (t) => {
  const upload = await anUpload(1000)
  const { media_id: mediaId } = (await upload.merge()).data
  await eventually('the end of the chunks', async () => (await upload.chunks()) === 0)
  const used = async () => (await call(member, 'GET', '/api/users/me')).data.storage
  const before = await used()
  await letPass('7 days')
  t.equal(await forgetUploads(worker), 1)
  t.match((await call(member, 'GET', `/api/media/${org}/${mediaId}`)).data, { media_id: mediaId })
  t.strictSame(await used(), before)
})

t.test('a session stays while it is open, while something is stored of it, and under a hold', async (t) => {
  const [open, unreleased, held] = [await anUpload(1000), await anUpload(1000), await anUpload(1000)]
  for (const { abort } of [unreleased, held]) t.equal((await abort()).status, 204)
  await sql('update uploads set storage_released_at = null where id = $1', [unreleased.id])
  await letPass('8 days')
  const placed = await addHold(worker, { kind: 'person', subject: member.id, reason: 'case', placedBy: 'court' })
  t.equal(await forgetUploads(worker), 0)
  await releaseHold(worker, placed.id)
  t.equal(await forgetUploads(worker), 1)
  t.strictSame(await Promise.all([open, unreleased, held].map(({ exists }) => exists())), [true, true, false])
  await expire()
  await letPass('8 days')
  t.equal(await forgetUploads(worker), 2)
})

t.test('a hold that commits while sessions are forgotten is seen', async (t) => {
  const upload = await anUpload(1000)
  t.equal((await upload.abort()).status, 204)
  await letPass('8 days')
  // As `addHold` does: no purge is in its last transaction meanwhile.
  const hold = {
    text: `with alone as (select pg_advisory_xact_lock(7305811243)) insert into legal_holds
      (id, kind, subject, reason, placed_by) select $1, 'person', $2, 'case', 'court' from alone`,
    values: [newUuid(), member.id],
  }
  t.strictSame(await inTurn(database, hold, () => forgetUploads(worker)), [0])
  t.ok(await upload.exists())
  await sql('delete from legal_holds')
  t.equal(await forgetUploads(worker), 1)
})

t.test('two workers share the sessions, and no more go at a time than asked for', async (t) => {
  const uploads = []
  for (let n = 0; n < 5; n++) uploads.push(await anUpload(3000))
  for (const { abort } of uploads) t.equal((await abort()).status, 204)
  await letPass('8 days')
  const some = await worker.inTransaction({}, async (tx) => {
    await subqueriesPerRow(tx)
    return deleteOldUploads(tx, 2)
  })
  t.equal(some, 2)
  const [one = 0, two = 0] = await Promise.all([forgetUploads(worker), forgetUploads(worker)])
  t.equal(one + two, 3)
  t.strictSame(await sql('select from uploads'), [])
})
