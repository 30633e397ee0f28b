import t from 'tap'
import { expireUploads } from '../../../../api/features/media/uploads/release.ts'
import { sweepStaging } from '../../../../api/features/media/uploads/staging.ts'
import { STAGING_LOOKS } from '../../../../api/features/media/uploads/staging-queries.ts'
import { ERASE_STEPS } from '../../../../api/features.ts'
import { claimLooks } from '../../../../api/worker/runs/looks-queries.ts'
import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { stagedChunkKey, stagingPrefix } from '../../../../lib/contract/object-keys.ts'
import { type Answer, aPerson, fakeMp4, type Person, startTestApi, uuidOf } from '../../../support/api.ts'
import { testCluster } from '../../../support/conversion-world.ts'
import { eraseDeps, eraseWhole } from '../../../support/erasure.ts'
import { subqueriesPerRow } from '../../../support/explain.ts'
import { quietLog } from '../../../support/quiet-log.ts'

/** Staged chunks that are under way when their session ends. */
const api = await startTestApi(t)
const { people, org, call, store, database } = api
const { worker } = database
const orgId = uuidOf('organization', org)
const cluster = testCluster(t)
const log = quietLog()
const sql = async (text: string, values: unknown[] = []) => (await database.admin.query(text, values)).rows
const staged = (...uploads: { id: Uuid }[]) =>
  Promise.all(uploads.map(({ id }) => api.keys(stagingPrefix(orgId, id)))).then((keys) => keys.flat())
const bytes = fakeMp4(3000)

async function aMember(): Promise<Person> {
  const person = await aPerson(api)
  await sql('insert into memberships (org_id, user_id, role) values ($1, $2, $3)', [orgId, person.id, 'member'])
  return person
}

async function begin(who: Person) {
  const json = { filename: 'a.mp4', mime_type: 'video/mp4', file_size_bytes: 3000, chunk_size_bytes: 1000 }
  const { data } = await call(who, 'POST', `/api/media/${org}/upload`, { json })
  const path = `/api/media/${org}/upload/${data.upload_id}`
  const put = (index: number) =>
    call(who, 'PUT', `${path}/${index}`, { bytes: bytes.subarray(index * 1000, index * 1000 + 1000) })
  return { id: uuidOf('upload', data.upload_id), wireId: data.upload_id, path, put }
}

/** Sends a chunk, and calls `meanwhile` when all of it has arrived, before the store has it. */
async function underWay(meanwhile: () => Promise<unknown>, send: () => Promise<Answer>): Promise<Answer> {
  const { put } = store
  let isFirst = true
  store.put = async (...given) => {
    if (isFirst) {
      isFirst = false
      await meanwhile()
    }
    return put.apply(store, given)
  }
  try {
    return await send()
  } finally {
    store.put = put
  }
}

const LEAVES: [string, (person: Person) => Promise<unknown>][] = [
  ['leaves', ({ id }) => sql('delete from memberships where user_id = $1', [id])],
  ['stays', async () => {}],
]
const ENDS: [string, (upload: Awaited<ReturnType<typeof begin>>, person: Person) => Promise<unknown>][] = [
  ['is aborted', (upload, person) => call(person, 'DELETE', upload.path)],
  [
    'expires',
    async ({ id }) => {
      await sql('update uploads set expires_at = now() where id = $1', [id])
      await expireUploads(worker, store, { log })
    },
  ],
  [
    'is merged',
    async ({ wireId, put }, person) => {
      for (const index of [0, 1, 2]) await put(index)
      await call(person, 'POST', `/api/media/${org}/merge`, { json: { upload_id: wireId } })
      await expireUploads(worker, store, { log })
    },
  ],
]
for (const [how, end] of ENDS) {
  for (const [whether, leave] of LEAVES) {
    t.test(`a chunk under way when its session ${how} is removed, when its person ${whether}`, async (t) => {
      const person = await aMember()
      const upload = await begin(person)
      const answer = await underWay(
        async () => {
          await end(upload, person)
          const [row] = await sql('select storage_released_at as at from uploads where id = $1', [upload.id])
          t.not(row.at, null, 'nothing else looks there')
          await leave(person)
        },
        () => upload.put(1),
      )
      t.equal(answer.status >= 400, true)
      t.strictSame(await staged(upload), [])
    })
  }
}

t.test('an open session keeps the chunks of a person who has left, until it ends', async (t) => {
  const person = await aMember()
  const upload = await begin(person)
  t.equal((await upload.put(1)).status, 200)
  const answer = await underWay(
    () => sql('delete from memberships where user_id = $1', [person.id]),
    () => upload.put(1),
  )
  t.equal(answer.status, 404)
  t.strictSame(await staged(upload), [stagedChunkKey(orgId, upload.id, 1)])
  await sql('insert into memberships (org_id, user_id, role) values ($1, $2, $3)', [orgId, person.id, 'member'])
  t.equal((await call(person, 'DELETE', upload.path)).status, 204)
  t.strictSame(await staged(upload), [])
})

t.test('an erasure leaves nothing of a chunk that is stored before it forgets the session', async (t) => {
  const person = await aMember()
  const upload = await begin(person)
  const [stored, emptied] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const sending = underWay(
    () => {
      stored.resolve()
      return emptied.promise
    },
    () => upload.put(0),
  )
  await stored.promise
  const json = { user_id: person.wireId, confirm: true }
  const asked = await call(people.platformAdmin, 'POST', '/gdpr/anonymize', { json })
  const watched = {
    ...store,
    async deletePrefix(prefix: string) {
      const deleted = await store.deletePrefix(prefix)
      if (prefix.includes('/staging/')) {
        emptied.resolve()
        await sending
      }
      return deleted
    },
  }
  await eraseWhole(
    eraseDeps(api, cluster, { store: watched }),
    uuidOf('anonymization', asked.data.anonymization_id),
    ERASE_STEPS,
  )
  t.equal((await sending).status >= 400, true)
  t.strictSame(await sql('select from uploads where uploader_id = $1', [person.id]), [])
  t.strictSame(await staged(upload), [])
})

t.test('a chunk whose process died is found, whether its session is there or was erased', async (t) => {
  await sql('delete from released_staging')
  const [one, two] = [await aMember(), await aMember()]
  const [aborted, erased] = [await begin(one), await begin(two)]
  t.equal((await call(one, 'DELETE', aborted.path)).status, 204)
  const json = { user_id: two.wireId, confirm: true }
  const asked = await call(people.platformAdmin, 'POST', '/gdpr/anonymize', { json })
  await eraseWhole(eraseDeps(api, cluster), uuidOf('anonymization', asked.data.anonymization_id), ERASE_STEPS)
  const late = [aborted, erased].map(({ id }) => stagedChunkKey(orgId, id, 0))
  for (const key of late) await store.put(key, 'late', { contentType: 'text/plain' })
  t.equal(await sweepStaging({ db: worker, store, log }), 0, 'not before it is time')
  await sql('update released_staging set next_look_at = now()')
  t.equal(await sweepStaging({ db: worker, store, log }), 2)
  t.strictSame(await staged(aborted, erased), [])
})

t.test('looks are claimed once, end after four that found nothing, and begin again after a find', async (t) => {
  await sql('delete from released_staging')
  await sql(
    `insert into released_staging (upload_id, org_id, next_look_at)
      select gen_random_uuid(), $1, now() - make_interval(mins => 6 - n) from generate_series(1, 5) n`,
    [orgId],
  )
  const claim = (limit: number) =>
    worker.inTransaction({}, async (tx) => {
      await subqueriesPerRow(tx)
      return (await claimLooks(tx, STAGING_LOOKS, { limit, leaseSeconds: 60 })).map(({ uploadId }) => uploadId)
    })
  const both = await Promise.all([claim(2), claim(2)])
  t.strictSame(
    both.map((ids) => ids.length),
    [2, 2],
  )
  t.equal(new Set([...both.flat(), ...(await claim(2))]).size, 5)
  t.strictSame(await claim(2), [])

  await sql('delete from released_staging')
  const id = newUuid()
  await sql('insert into released_staging values ($1, $2, 3, now())', [id, orgId])
  await store.put(stagedChunkKey(orgId, id, 0), 'late', { contentType: 'text/plain' })
  t.equal(await sweepStaging({ db: worker, store, log }), 1)
  const left = () => sql('select looks from released_staging where upload_id = $1', [id])
  t.strictSame(await left(), [{ looks: 0 }])
  let looks = 0
  for (; (await left()).length > 0; looks++) {
    await sql('update released_staging set next_look_at = now()')
    t.equal(await sweepStaging({ db: worker, store, log }), 0)
  }
  t.equal(looks, 4)
})
