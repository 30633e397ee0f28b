import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { carryOut as carryOutErasure } from '../../../../api/features/erasure/saga.ts'
import { withdrawMedia } from '../../../../api/features/media/deletion/erasure-queries.ts'
import { deletionStateOf } from '../../../../api/features/media/deletion/plan.ts'
import { purgeDue, purgeOf } from '../../../../api/features/media/deletion/purge.ts'
import { lockWithCounterpart, markRestored } from '../../../../api/features/media/deletion/queries.ts'
import { mediaTrash } from '../../../../api/features/media/deletion/trash-target.ts'
import { addHold } from '../../../../api/features/retention/holds.ts'
import { carryOut } from '../../../../api/features/retention/run.ts'
import { changesOf } from '../../../../api/requests/change.ts'
import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { mediaPrefix } from '../../../../lib/contract/object-keys.ts'
import { startConversionTest } from '../../../support/conversion-world.ts'
import { aRun } from '../../../support/retention.ts'

/** A restore, a run, the worker's sweep, a hold and an erasure at the same instant: one of them has the item, and whole. */
const { database, place, world, base } = await startConversionTest(t)
const { admin, worker: db } = database
const { store } = place
const { org, user } = world
const deps = { db, store, log: base.log, signal: new AbortController().signal, waitMs: 5, pauseMs: () => 1 }

async function trashed(): Promise<Uuid> {
  const id = await world.upload()
  await world.writeOutput(id)
  await admin.query(
    `update media set upload_status = 'completed', deleted_at = now() - interval '31 days', deleted_by = uploader_id where id = $1`,
    [id],
  )
  return id
}
const run = () => carryOut(deps, mediaTrash, aRun('MediaTrash'))
const sweep = () => purgeDue(base)
const hold = () => addHold(db, { kind: 'person', subject: user, reason: 'case', placedBy: 'court' })
/** As the command does, without the window of time: that keeps the two apart by an hour. */
const restore = (id: Uuid) =>
  database.db.inTransaction({ org }, async (tx) => {
    const { row, all = [] } = (await lockWithCounterpart(tx, org, id)) ?? {}
    if (!row || deletionStateOf({ ...row, isPastRestore: false }) !== 'in-trash') return
    const { audit } = changesOf(tx, { orgId: org, actorId: user, context: null })
    for (const one of await markRestored(tx, all, { givesUpPairId: false })) {
      await audit('MEDIA_DELETE', one, { operation: 'restore' })
    }
  })
const erasureId = newUuid()
await admin.query(`insert into erasures (id, user_id, asked_by) values ($1, $2, 'user')`, [erasureId, user])
async function erase(): Promise<void> {
  await db.inTransaction({}, (tx) => withdrawMedia(tx, { erasureId, userId: user }, 100))
  await purgeOf(base, user)
}

const objects = async (id: Uuid) => {
  let n = 0
  for await (const _ of store.list(mediaPrefix(org, id))) n += 1
  return n
}
const operations = async (id: Uuid): Promise<string[]> =>
  (
    await admin.query(
      `select details ->> 'operation' as operation from audit_log
        where resource_id = $1 and details ->> 'operation' in ('purge', 'restore')
          or details ->> 'operation' = 'add hold' order by serial`,
      [id],
    )
  ).rows.map(({ operation }) => operation)

t.afterEach(async () => {
  await admin.query(
    'delete from legal_holds; delete from media; delete from purged_media; delete from erasure_resources',
  )
})

/** What became of the item; everything there is says the same. */
async function outcomeOf(t: Test, id: Uuid, before: number): Promise<'kept' | 'restored' | 'purged'> {
  const row = await world.row(id)
  const said = (await operations(id)).slice(before)
  const purges = said.filter((one) => one === 'purge').length
  t.equal(purges, row ? 0 : 1, 'an entry of a purge, and one, if the row is gone')
  t.equal(await world.count(id, 'MediaPurged'), purges, 'and an event')
  // Nothing is purged after the entry of a hold.
  if (said.includes('add hold') && purges > 0) t.ok(said.indexOf('purge') < said.indexOf('add hold'))
  if (row?.['deleted_at']) return 'kept'
  t.equal(await objects(id), row ? 3 : 0, 'all objects or none')
  return row ? 'restored' : 'purged'
}

const ACTS = { run, sweep, hold, restore, erase }
type Act = keyof typeof ACTS
for (const acts of [
  ['restore', 'run'],
  ['run', 'sweep'],
  ['hold', 'run'],
  ['hold', 'sweep', 'run'],
  ['hold', 'erase'],
  ['run', 'erase'],
  ['restore', 'run', 'sweep', 'hold', 'erase'],
] satisfies Act[][]) {
  t.test(`${acts.join(' × ')}: one of them has it, and the audit log says which`, async (t) => {
    const outcomes = new Map<string, number>()
    for (let round = 0; round < 8; round++) {
      await admin.query('delete from legal_holds')
      const before = (await operations(user)).length
      const id = await trashed()
      await Promise.all(
        acts.map(async (act, i) => {
          await sleep(((round * 7 + i * 3) % 4) * 2)
          await ACTS[act](id)
        }),
      )
      const outcome = await outcomeOf(t, id, before)
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    }
    t.comment(JSON.stringify([...outcomes]))
  })
}

t.test('an erasure of a person under a hold waits, and nothing of theirs goes', async (t) => {
  const id = await trashed()
  const ran: string[] = []
  const step = (name: string, phase: 'access' | 'files') => ({
    ...{ name, phase, does: '' },
    run: async () => {
      ran.push(name)
      return { counts: {} }
    },
  })
  const steps = [step('a.access', 'access'), step('a.files', 'files')]
  const carry = () => carryOutErasure({ ...base, bus: { erase: async () => 0 }, config: {} }, steps, erasureId)
  await hold()
  t.match(await carry(), { againAfterMs: Number })
  t.strictSame(ran, ['a.access'])
  t.equal(await objects(id), 3)
  await admin.query('delete from legal_holds')
  t.equal(await carry(), undefined)
  t.strictSame(ran, ['a.access', 'a.files'])
})
