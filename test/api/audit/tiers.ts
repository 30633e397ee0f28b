import t, { type Test } from 'tap'
import { auditDays } from '../../../api/audit/archive/audit-target.ts'
import { writeDay } from '../../../api/audit/archive/write-day.ts'
import type { HandleDeps } from '../../../api/retention/target.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import type { RetentionRun } from '../../../lib/contract/retention.ts'
import { auditWorld } from '../../support/audit.ts'
import { testStore } from '../../support/conversion-world.ts'
import { testDatabase } from '../../support/database.ts'
import { matchWhole } from '../../support/match-whole.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { aRun, shiftClock, startRetention } from '../../support/retention.ts'

const RULES: RetentionRun['rules'] = [
  { after: 'P90D', action: 'moveToTier', tier: 'warm' },
  { after: 'P2Y', action: 'moveToTier', tier: 'cold' },
  { after: 'P7Y', action: 'purge' },
]
const PAST = '89 days'

/** Three days of entries, closed and anchored, in a log that began then. */
async function agedLog(t: Test) {
  const database = await testDatabase(t)
  const { store, storeFolder } = await testStore(t)
  const log = auditWorld(database, store)
  await log.beganDaysAgo(3)
  for (const days of [3, 2, 1]) await log.entries(4, { days })
  await log.seal()
  await log.anchorAgain()
  const { admin } = database
  const [{ days }] = await log.sql(
    `select array_agg((now() at time zone 'UTC')::date::text) as days from (select 1) one`,
  )
  const dayOf = (ago: number) => new Date(Date.parse(days[0]) - ago * 86_400_000).toISOString().slice(0, 10)
  const tables = async () => {
    const rows = await log.sql(`select relname from pg_class where relname ~ '^audit_log_\\d+$' and relkind = 'r'
      and to_date(right(relname, 8), 'YYYYMMDD') < (now() at time zone 'UTC')::date order by 1`)
    return rows.map(({ relname }) => relname.slice(-2))
  }
  const tiers = () => log.sql(`select tier, left_key from audit_archives order by day`)
  const total = { moved: 0, purged: 0, bytes: 0 }
  const deps: HandleDeps = {
    db: database.worker,
    store,
    log: quietLog(),
    signal: new AbortController().signal,
    pace: async () => {},
    async count(_, { moved = 0, purged = 0, bytes = 0 }) {
      total.moved += moved
      total.purged += purged
      total.bytes += bytes
    },
  }
  async function due(rules = RULES) {
    const [{ at }] = await log.sql('select app_now()::text as at')
    return { at, rules }
  }
  /** As the program does, in this process, until nothing is due. */
  async function run(rules = RULES): Promise<string[]> {
    const steps: string[] = []
    for (;;) {
      const [token, about] = [newUuid(), await due(rules)]
      const { items } = await database.worker.inTransaction({}, (tx) =>
        auditDays.claim(tx, about, { limit: 2, seconds: 60, token }),
      )
      if (items.length === 0) return steps
      for (const item of items) {
        const { step } = item as { step: string }
        steps.push(`${step} ${await auditDays.handle(deps, item, { token, due: about })}`)
      }
    }
  }
  return { ...log, ...database, store, storeFolder, admin, dayOf, tables, tiers, deps, due, run, total }
}

t.test('a day leaves the database, goes cold and ends, and the log is proved all the time', async (t) => {
  const log = await agedLog(t)
  t.strictSame(await log.run(), [], 'nothing is due')
  await shiftClock(log.admin, PAST)
  const before = await log.verify()
  t.match(before, { entries: 12, findings: [] })
  const { worker } = log
  t.match(await worker.read({}, async (tx) => auditDays.countDue(tx, await log.due())), { due: 2, held: 0 })
  const listed = await worker.read({}, async (tx) =>
    auditDays.list(tx, await log.due(), { after: undefined, limit: 9 }),
  )
  matchWhole(t, listed.lines, [
    { id: log.dayOf(3), action: 'moveToTier' },
    { id: log.dayOf(2), action: 'moveToTier' },
  ])
  t.strictSame(await log.run(), ['archive done', 'archive done'])
  t.strictSame(await log.tables(), [log.dayOf(1).slice(-2)], 'the tables are gone')
  matchWhole(t, await log.tiers(), [{ tier: 'warm' }, { tier: 'warm' }])
  t.match(await log.verify(), { entries: 12, archived: 8, findings: [] })

  await shiftClock(log.admin, '2 years 2 days')
  t.strictSame((await log.run()).sort(), ['archive done', ...Array(3).fill('chill done')])
  const cold = await log.sql('select tier, object_key, left_key from audit_archives order by day')
  matchWhole(t, cold, Array(3).fill({ tier: 'cold', object_key: /\/cold\//, left_key: null }))
  t.match(await log.verify(), { entries: 12, archived: 12, findings: [] })
  for (const { object_key } of cold) t.ok(await log.store.head(object_key))
  const keys: string[] = []
  for await (const { key } of log.store.list('audit/days/')) keys.push(key)
  t.equal(keys.length, 3, 'and nothing else')

  await shiftClock(log.admin, '7 years 2 days')
  t.strictSame(await log.run(), Array(3).fill('purge done'))
  for (const { object_key } of cold) t.notOk(await log.store.head(object_key))
  matchWhole(t, await log.tiers(), Array(3).fill({ tier: 'purged', left_key: null }))
  await log.seal()
  t.match(await log.verify(), { purged: 3, findings: [] })
  const entries = await log.sql(`select details from audit_log where details->>'operation' = 'purge audit day'`)
  matchWhole(t, entries, Array(3).fill({ details: { entries: 4, manifest_sha256: /^[0-9a-f]{64}$/ } }))
  t.match(log.total, { moved: 6, purged: 3 })
})

t.test('a day that someone marks as purged before its time is found', async (t) => {
  const log = await agedLog(t)
  await writeDay({ db: log.worker, store: log.store }, { day: log.dayOf(3), tier: 'warm' })
  await log.sql(`update audit_archives set tier = 'purged'`)
  t.match((await log.verify()).findings, [{ what: 'purged early', day: log.dayOf(3) }])
})

t.test('a day with late entries outlives the chain that they are in', async (t) => {
  const log = await agedLog(t)
  await log.entries(1, { days: 3 })
  await log.seal()
  await log.anchorAgain()
  await shiftClock(log.admin, '7 years 2 days')
  const steps = await log.run()
  t.equal(steps.filter((step) => step === 'purge done').length, 2)
  matchWhole(t, await log.tiers(), [{ tier: 'cold' }, { tier: 'purged' }, { tier: 'purged' }])
  await shiftClock(log.admin, '7 years 45 days')
  t.strictSame(
    (await log.run()).filter((step) => step.startsWith('purge')),
    ['purge done'],
  )
})

t.test('no policy purges what is younger than a year, or moves what is younger than 90 days', async (t) => {
  const log = await agedLog(t)
  await shiftClock(log.admin, '80 days')
  const rules: RetentionRun['rules'] = [
    { after: 'P1D', action: 'moveToTier', tier: 'warm' },
    { after: 'P3D', action: 'purge' },
  ]
  t.strictSame(await log.run(rules), [])
  await shiftClock(log.admin, '300 days')
  t.strictSame(await log.run(rules), Array(3).fill('archive done'))
})

t.test('killed at any step, the next run ends it, and each day once', async (t) => {
  const log = await agedLog(t)
  const { storeFolder, url: databaseUrl } = log
  const days = (clock: string) => shiftClock(log.admin, clock)
  const die = async (failpoint: string) => {
    await log.sql(`update audit_day_leases set lease_at = now()`)
    const run = aRun('AuditLog', { rules: RULES, confirmed: true, batchSize: 1 })
    const child = await startRetention(t, { databaseUrl, storeFolder, run, failpoint })
    t.equal(await child.ended, 'SIGKILL', `${failpoint} ${child.output()}`)
    await log.sql(`update audit_day_leases set lease_at = now()`)
    t.strictSame((await log.verify()).findings, [], failpoint)
  }
  await days(PAST)
  for (const step of ['audit.day-written', 'audit-tier.switched', 'audit-tier.detached', 'audit-tier.dropped']) {
    await die(step)
  }
  await log.run()
  t.strictSame(await log.tables(), [log.dayOf(1).slice(-2)])
  await days('2 years 2 days')
  await log.run([{ after: 'P90D', action: 'moveToTier', tier: 'warm' }])
  for (const step of ['audit-tier.copied', 'audit-tier.chilled', 'audit-tier.tidied']) await die(step)
  await log.run()
  await days('7 years 2 days')
  for (const step of ['audit-tier.purged', 'audit-tier.tidied']) await die(step)
  await log.run()
  await log.seal()
  matchWhole(t, await log.tiers(), Array(3).fill({ tier: 'purged', left_key: null }))
  t.match(await log.verify(), { purged: 3, findings: [] })
  const [{ n }] = await log.sql(
    `select count(*)::int as n from audit_log where details->>'operation' = 'purge audit day'`,
  )
  t.equal(n, 3)
  const keys: string[] = []
  for await (const { key } of log.store.list('audit/days/')) keys.push(key)
  t.strictSame(keys, [])
})

t.test('two processes at once never move one day twice', async (t) => {
  const log = await agedLog(t)
  await shiftClock(log.admin, PAST)
  const [one, two] = await Promise.all([log.run(), log.run()])
  t.strictSame([...one, ...two], Array(2).fill('archive done'))
  t.equal(log.total.moved, 2)
})

t.test('who cannot have the lock of the log leaves the day for later, and changes wait for no one', async (t) => {
  const log = await agedLog(t)
  await shiftClock(log.admin, PAST)
  const reader = await log.admin.connect()
  await reader.query('begin')
  await reader.query('select count(*) from audit_log')
  const running = log.run()
  await log.entries(1)
  await reader.query('commit')
  reader.release()
  t.strictSame(await running, ['archive done', 'archive done'])
})
