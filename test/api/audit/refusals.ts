import t from 'tap'
import { openRefusals } from '../../../api/audit/refusals.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import { testDatabase } from '../../support/database.ts'
import { matchWhole } from '../../support/match-whole.ts'
import { testPersonalData } from '../../support/personal-data.ts'
import { quietLog } from '../../support/quiet-log.ts'

const { db, admin } = await testDatabase(t)
const log = quietLog()
const context = {
  requestId: 'req_1',
  clientRequestId: null,
  ip: '192.0.2.1',
  userAgent: null,
  personalData: testPersonalData(db),
}
const refusal = (orgId = newUuid()) => ({
  orgId,
  actorId: newUuid(),
  action: 'ACCESS_DENIED' as const,
  resourceId: null,
  context,
  details: { permission: 'media.read' },
})
const entries = async (orgId: string) =>
  (await admin.query('select result, details from audit_log where org_id = $1 order by occurred_at', [orgId])).rows

t.test('the first refusal is written at once, a thousand repeats are one more entry', async (t) => {
  const refusals = openRefusals({ db, log })
  const one = refusal()
  await refusals.record('a', one)
  matchWhole(t, await entries(one.orgId), [{ result: 'denied', details: { permission: 'media.read' } }])
  await Promise.all(Array.from({ length: 1000 }, () => refusals.record('a', one)))
  t.equal((await entries(one.orgId)).length, 1)
  await refusals.close()
  t.strictSame((await entries(one.orgId))[1]?.details, { permission: 'media.read', repeated: 1000 })
  t.equal((await entries(one.orgId)).length, 2)
})

t.test('of many at once the first is written once', async (t) => {
  const refusals = openRefusals({ db, log })
  const one = refusal()
  await Promise.all(Array.from({ length: 50 }, () => refusals.record('b', one)))
  t.equal((await entries(one.orgId)).length, 1)
  await refusals.close()
  t.equal((await entries(one.orgId))[1]?.details.repeated, 49)
})

t.test('windows that end while many refuse at once lose no count and write nothing twice', async (t) => {
  const refusals = openRefusals({ db, log }, { windowMs: 20 })
  const one = refusal()
  let made = 0
  for (let round = 0; round < 5; round++) {
    await Promise.all(Array.from({ length: 20 }, () => refusals.record('c', one)))
    made += 20
    await new Promise((resolve) => setTimeout(resolve, 30))
  }
  await refusals.close()
  const told = (await entries(one.orgId)).map((e) => e.details.repeated ?? 1)
  t.equal(
    told.reduce((sum, n) => sum + n, 0),
    made,
  )
  t.ok(told.length > 2 && told.length <= made, `${told.length} entries`)
})

t.test('however many keys, memory holds only the latest, and nothing counted is lost', async (t) => {
  const refusals = openRefusals({ db, log }, { most: 3 })
  const one = refusal()
  for (const key of ['1', '1', '2', '3', '4', '5']) await refusals.record(key, one)
  const repeated = (await entries(one.orgId)).filter((e) => e.details.repeated === 1)
  t.equal(repeated.length, 1, 'the first key made room')
  await refusals.close()
  t.equal((await entries(one.orgId)).length, 6)
})

t.test('a refusal that could not be written is written with the next one', async (t) => {
  let isAway = true
  const away: typeof db = {
    ...db,
    inTransaction: (scope, work) => (isAway ? Promise.reject(new Error('away')) : db.inTransaction(scope, work)),
  }
  const refusals = openRefusals({ db: away, log })
  const one = refusal()
  await refusals.record('d', one)
  t.equal((await entries(one.orgId)).length, 0)
  isAway = false
  await refusals.record('d', one)
  t.equal((await entries(one.orgId)).length, 1)
  await refusals.close()
})
