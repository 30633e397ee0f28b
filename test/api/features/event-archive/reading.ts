import t from 'tap'
import { findToRender } from '../../../../api/features/highlights/render/queries.ts'
import { highlightRenderFor } from '../../../../api/features/highlights/render/render-spec.ts'
import { transcodeJobFor } from '../../../../api/features/media/conversion/transcode-spec.ts'
import { findOriginalKeys } from '../../../../api/features/media/own-data-queries.ts'
import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { coldOriginalKey, originalKey } from '../../../../lib/contract/object-keys.ts'
import { fakeMp4, formOf, pathOf, startTestApi, uuidOf } from '../../../support/api.ts'
import { highlightWorld } from '../../../support/highlights.ts'

/** Every reader of an original finds it in the cold tier: links, Jobs, exports. */
const api = await startTestApi(t)
const { people, org, call, store, database } = api
const { create } = highlightWorld(api)
const orgId = uuidOf('organization', org)
const BYTES = fakeMp4(10_000)

async function upload(): Promise<{ id: Uuid; wireId: string; link: string }> {
  const { data } = await call(people.member, 'POST', `/api/media/${org}/single`, { form: formOf(BYTES, 'a.mp4') })
  const shown = await call(people.member, 'GET', `/api/media/${org}/${data.media_id}`)
  return { id: uuidOf('media', data.media_id), wireId: data.media_id, link: pathOf(shown.data.original_url) }
}
const tier = (id: Uuid, to: string) =>
  database.admin.query('update media set original_tier = $2 where id = $1', [id, to])
async function move(id: Uuid): Promise<void> {
  await store.put(coldOriginalKey(orgId, id), BYTES, { contentType: 'video/mp4' })
  await tier(id, 'both')
  await store.delete(originalKey(orgId, id))
  await tier(id, 'cold')
}
const get = (link: string, headers = {}) => call(undefined, 'GET', link, { headers })

t.test('a link to an original survives the move, and a new one is the same', async (t) => {
  const { id, wireId, link } = await upload()
  await move(id)
  const whole = await get(link)
  t.equal(whole.status, 200)
  t.ok(whole.body.equals(BYTES))
  t.match(whole.headers.get('content-disposition'), /attachment/)
  const part = await get(link, { Range: 'bytes=100-199' })
  t.equal(part.status, 206)
  t.ok(part.body.equals(BYTES.subarray(100, 200)))
  const shown = await call(people.member, 'GET', `/api/media/${org}/${wireId}`)
  t.match(shown.data.original_url, /\/original$/)
  t.ok((await get(pathOf(shown.data.original_url))).body.equals(BYTES))
  t.equal((await get(link.replace(/original$/, 'cold/original'))).status, 404, 'no link names the tier')
})

t.test('a request that has read the row before the move finds the original after it', async (t) => {
  const { id, link } = await upload()
  const { get: read } = store
  let moved = false
  t.intercept(store, 'get', {
    value: async (...given: Parameters<typeof read>) => {
      if (!moved) {
        moved = true
        await move(id)
      }
      return read.call(store, ...given)
    },
  })
  const answer = await get(link)
  t.equal(answer.status, 200)
  t.ok(answer.body.equals(BYTES))
})

t.test('a link finds an original that has moved since the backup that was restored', async (t) => {
  const { id, link } = await upload()
  await move(id)
  await tier(id, 'hot')
  t.ok((await get(link)).body.equals(BYTES))
  const part = await get(link, { Range: 'bytes=100-199' })
  t.equal(part.status, 206)
  t.ok(part.body.equals(BYTES.subarray(100, 200)))
  await store.delete(coldOriginalKey(orgId, id))
  t.equal((await get(link)).status, 404)
})

t.test('Jobs and exports read the cold original', async (t) => {
  const { id, wireId } = await upload()
  await database.admin.query(`update media set upload_status = 'completed' where id = $1`, [id])
  const made = await create({ media_ids: [wireId] })
  await move(id)
  const cold = coldOriginalKey(orgId, id)
  const job = transcodeJobFor({ id, orgId, generation: 2, originalTier: 'cold', fileSizeBytes: 5 }, 'media')
  t.equal(job.spec.inputs[0]?.sourceKey, cold)
  const highlight = uuidOf('highlight', made.data.highlight_id)
  await database.admin.query('update highlights set render_admitted_at = now() where id = $1', [highlight])
  const row = await database.worker.read({}, (tx) => findToRender(tx, highlight))
  t.ok(row)
  if (row) t.match(highlightRenderFor(row, 'media').spec, { items: [{ sourceKey: cold }] })
  const keys = await database.worker.read({}, (tx) => findOriginalKeys(tx, [id, newUuid()]))
  t.strictSame([...keys], [[id, cold]])
})
