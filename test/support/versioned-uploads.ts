import { Readable } from 'node:stream'
import type { Test } from 'tap'
import { eraseAuditExportsOf } from '../../api/features/audit-log/export-commands.ts'
import { startExporter } from '../../api/features/audit-log/exporter.ts'
import { expireSessions, forgetIntents } from '../../api/features/media/uploads/release.ts'
import { newUuid } from '../../lib/contract/ids.ts'
import { originalKey } from '../../lib/contract/object-keys.ts'
import { systemClock } from '../../lib/runtime/clock.ts'
import { MIN_PART_BYTES, type ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { fakeMp4, formOf, startTestApi, uuidOf } from './api.ts'
import { eventually } from './eventually.ts'
import { testPersonalData } from './personal-data.ts'
import { quietLog } from './quiet-log.ts'

interface Versions {
  /** In a bucket with versions. */
  store: ObjectStore
  /** Versions, delete markers and multipart uploads that were not completed, with their keys. */
  leftBelow(prefix: string): Promise<unknown[]>
}

/** What the API and the worker remove from a bucket with versions where no purge looks again. */
export async function nothingLeftInVersions(t: Test, { store, leftBelow }: Versions): Promise<void> {
  const { call, people, org, database } = await startTestApi(t, { store })
  const orgId = uuidOf('organization', org)
  const left = () => leftBelow(`org/${orgId}/`)

  t.test('a whole file that is refused once it is stored leaves no version', async (t) => {
    const pairId = newUuid()
    const form = () => formOf(fakeMp4(50_000), 'a.mov', { live_photo_pair_id: pairId })
    const first = await call(people.member, 'POST', `/api/media/${org}/single`, { form: form() })
    t.equal(first.status, 201)
    const second = await call(people.member, 'POST', `/api/media/${org}/single`, { form: form() })
    t.strictSame([second.status, second.code], [409, 'CONFLICT'])
    t.strictSame(await left(), [originalKey(orgId, uuidOf('media', first.data.media_id))], 'the first alone')
    t.equal((await database.admin.query('select from object_intents')).rowCount, 0)
    await store.deletePrefix(`org/${orgId}/`)
  })

  t.test('a session that ends without a media item leaves no version and no delete marker', async (t) => {
    const bytes = fakeMp4(3000)
    const begin = async (chunkBytes: number) => {
      const json = {
        filename: 'a.mp4',
        mime_type: 'video/mp4',
        file_size_bytes: bytes.length,
        chunk_size_bytes: chunkBytes,
        checksum_sha256: '0'.repeat(64),
      }
      const { upload_id: id } = (await call(people.member, 'POST', `/api/media/${org}/upload`, { json })).data
      const path = `/api/media/${org}/upload/${id}`
      for (let at = 0; at < bytes.length; at += chunkBytes) {
        const sent = await call(people.member, 'PUT', `${path}/${at / chunkBytes}`, {
          bytes: bytes.subarray(at, at + chunkBytes),
        })
        t.equal(sent.status, 200)
      }
      return { id, path }
    }
    // One part, and staged chunks.
    for (const chunkBytes of [3000, 1000]) {
      const refused = await begin(chunkBytes)
      const merge = { json: { upload_id: refused.id } }
      t.equal((await call(people.member, 'POST', `/api/media/${org}/merge`, merge)).code, 'CHECKSUM_MISMATCH')
      t.strictSame(await left(), [])
      const aborted = await begin(chunkBytes)
      t.not((await left()).length, 0)
      t.equal((await call(people.member, 'DELETE', aborted.path)).status, 204)
      t.strictSame(await left(), [])
      await begin(chunkBytes)
      await database.admin.query(`update uploads set expires_at = now() where state = 'open'`)
      t.match(await expireSessions(database.worker, store, { log: quietLog() }), { expired: 1, released: 1 })
      t.strictSame(await left(), [])
    }
  })

  t.test('a process that is killed in the middle of a whole file leaves no part', async (t) => {
    const key = originalKey(orgId, newUuid())
    await database.admin.query(
      `insert into object_intents (media_id, org_id, created_at) values ($1, $2, now() - interval '4 hours')`,
      [key.split('/').at(-2), orgId],
    )
    const id = await store.createMultipart(key, { contentType: 'video/mp4' })
    const part = Readable.from([Buffer.alloc(MIN_PART_BYTES)])
    await store.putPart(key, id, 1, part, { size: MIN_PART_BYTES })
    t.strictSame(await left(), [key])
    t.equal(await forgetIntents(database.worker, store, { log: quietLog() }), 1)
    t.strictSame(await left(), [])
    t.equal((await database.admin.query('select from object_intents')).rowCount, 0)
  })

  t.test('an export of the audit log that is erased while its file is stored leaves no version', async (t) => {
    const root = people.platformAdmin
    const stored = Promise.withResolvers<void>()
    const erased = Promise.withResolvers<void>()
    const slow: ObjectStore = {
      ...store,
      async put(...given) {
        const info = await store.put(...given)
        stored.resolve()
        await erased.promise
        return info
      },
    }
    t.equal((await call(root, 'POST', '/admin/audit/export', { json: { format: 'jsonl' } })).status, 201)
    const db = database.worker
    const personalData = testPersonalData(db)
    const exporter = startExporter({ db, store: slow, personalData, log: quietLog(), clock: systemClock })
    t.teardown(() => exporter.stop())
    await stored.promise
    const below = () => leftBelow(`downloads/${root.id}/`)
    t.equal((await below()).length, 1)
    await db.inTransaction({}, (tx) => eraseAuditExportsOf(tx, root.id))
    erased.resolve()
    await eventually('the end of the file', async () => (await below()).length === 0)
  })
}
