import t from 'tap'
import { documentOf } from '../../../../api/features/data-exports/document.ts'
import { sectionsOf } from '../../../../api/features/data-exports/worker.ts'
import { FEATURES } from '../../../../api/features.ts'
import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { downloadsPrefix } from '../../../../lib/contract/object-keys.ts'
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
const { start, died } = await dyingWorkers(t, database, place)
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

/** In their order: each worker gets to the next one. What is left then of the export, and of its part. */
const DEATHS: [string, string, { state: string; parts: { state: string; attempts: number }[] }][] = [
  ['in the plan', 'export.batch-planned', { state: 'planning', parts: [{ state: 'waiting', attempts: 0 }] }],
  ['after the plan', 'export.planned', { state: 'making', parts: [{ state: 'waiting', attempts: 0 }] }],
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
  t.strictSame(documentOf(sectionsOf(FEATURES.map((feature) => feature.export))).parse(document), document)
  t.match(await sql('select files, bytes::int from downloads where id = $1', [id]), [{ files: 1 }])
  t.equal((await sql('select * from notifications where download_id = $1', [id])).length, 1, 'told once')
  // All that was written below the prefix is that archive: the open uploads of the dead workers are gone.
  t.equal(await store.deletePrefix(downloadsPrefix(userId)), 1)
})
