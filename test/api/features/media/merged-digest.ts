import { createHash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { openMergedDigests } from '../../../../api/features/media/uploads/merged-digest.ts'
import { originalKey } from '../../../../lib/contract/object-keys.ts'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import { fakeMp4, type Person, startTestApi, uuidOf } from '../../../support/api.ts'
import { eventually } from '../../../support/eventually.ts'

/** How often the bytes of a merged upload are read, for requests that repeat the merge with a checksum. */
const api = await startTestApi(t)
const { people, org, call, store } = api
const { member, another } = people
const orgId = uuidOf('organization', org)
const wrong = '0'.repeat(64)

/** Keys of the objects that were read as a whole. */
const read: string[] = []
const { get } = store
store.get = (key, range, signal) => {
  if (!range) read.push(key)
  return get(key, range, signal)
}

const merge = (upload_id: string, checksum?: string, who: Person = member) =>
  call(who, 'POST', `/api/media/${org}/merge`, {
    json: { upload_id, ...(checksum !== undefined && { checksum_sha256: checksum }) },
  })

/** A file whose chunks have arrived. */
async function anUpload(who: Person = member) {
  const bytes = fakeMp4(3000)
  const json = { filename: 'a.mp4', mime_type: 'video/mp4', file_size_bytes: bytes.length, chunk_size_bytes: 3000 }
  const { upload_id: id } = (await call(who, 'POST', `/api/media/${org}/upload`, { json })).data
  await call(who, 'PUT', `/api/media/${org}/upload/${id}/0`, { bytes })
  return { id, checksum: createHash('sha256').update(bytes).digest('hex') }
}

/** Merged without a checksum. */
async function merged(who: Person = member) {
  const { id, checksum } = await anUpload(who)
  const { media_id } = (await merge(id, undefined, who)).data
  const mediaId = uuidOf('media', media_id)
  return { id, checksum, orgId, mediaId, uploaderId: who.id, key: originalKey(orgId, mediaId) }
}

t.test('the merge that has a checksum reads the file, and no repeat does', async (t) => {
  const { id, checksum } = await anUpload()
  read.length = 0
  t.equal((await merge(id, checksum)).status, 201)
  t.equal(read.length, 1)
  const repeats = await Promise.all(Array.from({ length: 40 }, () => merge(id, checksum)))
  t.strictSame(new Set(repeats.map(({ status }) => status)), new Set([200]))
  t.strictSame([(await merge(id, wrong)).code, (await merge(id, checksum)).status], ['CHECKSUM_MISMATCH', 200])
  t.equal(read.length, 1)
})

t.test('a file that was merged without a checksum is read once, however many repeats have one', async (t) => {
  const { id, checksum, key } = await merged()
  read.length = 0
  const [right, others] = await Promise.all([
    Promise.all(Array.from({ length: 20 }, () => merge(id, checksum))),
    Promise.all(Array.from({ length: 20 }, () => merge(id, wrong))),
  ])
  t.strictSame(new Set(right.map(({ status }) => status)), new Set([200]))
  t.strictSame(new Set(others.map(({ code }) => code)), new Set(['CHECKSUM_MISMATCH']))
  t.strictSame([(await merge(id, checksum)).status, (await merge(id, wrong)).code], [200, 'CHECKSUM_MISMATCH'])
  t.strictSame(read, [key])
})

t.test('a media item that was purged has no bytes to compare', async (t) => {
  const [first, second] = [await merged(), await merged()]
  // The row goes last: between the two the object is missing already.
  await store.delete(first.key)
  t.equal((await merge(first.id, first.checksum)).status, 200)
  await api.database.admin.query('delete from media where id = $1', [second.mediaId])
  t.equal((await merge(second.id, wrong)).status, 200)
})

t.test('the files of one user are read one after the other, and do not hold up those of another user', async (t) => {
  const [one, two, theirs] = [await merged(), await merged(), await merged(another)]
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  const begun: string[] = []
  const slow: ObjectStore = {
    ...store,
    async get(key) {
      begun.push(key)
      if (key !== theirs.key) await released
      return get(key)
    },
  }
  let looked = 0
  const { read } = api.database.db
  const db: typeof api.database.db = {
    ...api.database.db,
    read: (scope, work) =>
      read(scope, work).finally(() => {
        looked += 1
      }),
  }
  const digestOf = openMergedDigests({ db, store: slow })
  const own = [digestOf(one), digestOf(two)]
  t.equal(await digestOf(theirs), theirs.checksum)
  await eventually('all know that their digest is not known', async () => looked === 3 || undefined)
  await setImmediate()
  t.equal(begun.length, 2, 'that of the other user, and one of the two')
  release()
  t.strictSame(await Promise.all(own), [one.checksum, two.checksum])
  t.equal(begun.length, 3)
})

t.test('a reading that failed is begun anew by the next request', async (t) => {
  const file = await merged()
  let fails = true
  const failing: ObjectStore = { ...store, get: async (key) => (fails ? Promise.reject(new Error('away')) : get(key)) }
  const digestOf = openMergedDigests({ db: api.database.db, store: failing })
  await Promise.all([t.rejects(digestOf(file), { message: 'away' }), t.rejects(digestOf(file), { message: 'away' })])
  fails = false
  t.equal(await digestOf(file), file.checksum)
})
