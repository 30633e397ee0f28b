import t, { type Test } from 'tap'
import { sweepAttempts } from '../../../api/audit/archive/attempts.ts'
import { auditDays } from '../../../api/audit/archive/audit-target.ts'
import type { DueDay } from '../../../api/audit/archive/tier-queries.ts'
import { verify } from '../../../api/audit/verify.ts'
import { untoldPurges } from '../../../api/audit/verify-plan.ts'
import type { HandleDeps } from '../../../api/retention/target.ts'
import { formatId, newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import type { RetentionRun } from '../../../lib/contract/retention.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import { archiveDay, auditWorld } from '../../support/audit.ts'
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
  matchWhole(t, before, { entries: 12, findings: [] })
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
  matchWhole(t, await log.verify(), { entries: 12, archived: 8, findings: [] })

  await shiftClock(log.admin, '2 years 2 days')
  t.strictSame((await log.run()).sort(), ['archive done', ...Array(3).fill('chill done')])
  const cold = await log.sql('select tier, object_key, left_key from audit_archives order by day')
  matchWhole(t, cold, Array(3).fill({ tier: 'cold', object_key: /\/cold\//, left_key: null }))
  matchWhole(t, await log.verify(), { entries: 12, archived: 12, findings: [] })
  for (const { object_key } of cold) t.ok(await log.store.head(object_key))
  const keys: string[] = []
  for await (const { key } of log.store.list('audit/days/')) keys.push(key)
  t.equal(keys.length, 3, 'and nothing else')

  await shiftClock(log.admin, '7 years 2 days')
  t.strictSame(await log.run(), Array(3).fill('purge done'))
  for (const { object_key } of cold) t.notOk(await log.store.head(object_key))
  matchWhole(t, await log.tiers(), Array(3).fill({ tier: 'purged', left_key: null }))
  await log.seal()
  matchWhole(t, await log.verify(), { purged: 3, findings: [] })
  const entries = await log.sql(`select details from audit_log where details->>'operation' = 'purge audit day'`)
  matchWhole(t, entries, Array(3).fill({ details: { entries: 4, manifest_sha256: /^[0-9a-f]{64}$/ } }))
  t.match(log.total, { moved: 6, purged: 3 })
})

t.test('a day that someone marks as purged before its time is found', async (t) => {
  const log = await agedLog(t)
  await archiveDay({ db: log.worker, store: log.store }, log.dayOf(3))
  await log.sql(`update audit_archives set tier = 'purged'`)
  t.match((await log.verify()).findings, [{ what: 'purged early', day: log.dayOf(3) }])
})

t.test('a day that someone marks as purged after a year is found', async (t) => {
  const log = await agedLog(t)
  await shiftClock(log.admin, '91 days')
  await log.run()
  await shiftClock(log.admin, '500 days')
  await log.sql(`update audit_archives set tier = 'purged', members = '[]' where day = $1`, [log.dayOf(2)])
  await log.sql(`select audit_forget_day($1::date)`, [log.dayOf(2)])
  const insertPurgeEntry = (manifest: string) =>
    log.sql(
      `insert into audit_log (id, action, resource_type, result, details)
        values (gen_random_uuid(), 'ADMIN_ACTION', 'audit_log', 'success',
          jsonb_build_object('operation', 'purge audit day', 'day', $1::text, 'manifest_sha256', $2::text))`,
      [log.dayOf(2), manifest],
    )
  const isHidden = [{ what: 'purged without entry', day: log.dayOf(2) }]
  t.strictSame(await log.findings(), isHidden)
  t.strictSame(await log.findings({ from: log.dayOf(2), to: log.dayOf(2) }), isHidden)
  t.strictSame(await log.findings({ to: log.dayOf(3) }), [], 'it is not of these days')
  await insertPurgeEntry('0'.repeat(64))
  t.strictSame(await log.findings(), isHidden, 'an entry about another day')
  const [{ manifest }] = await log.sql('select manifest_sha256 as manifest from audit_archives where day = $1', [
    log.dayOf(2),
  ])
  await insertPurgeEntry(manifest)
  t.strictSame(await log.findings(), [])
})

/** Two days were purged. The entries about them are in an archived day of the next year, and others are archived, too. */
async function purgedLog(t: Test) {
  const log = await agedLog(t)
  await shiftClock(log.admin, '7 years 2 days')
  await log.run()
  const [soon, later, last] = [log.dayOf(0), log.dayOf(-390), log.dayOf(-400)]
  for (const [day, next] of [
    [later, log.dayOf(-391)],
    [last, log.dayOf(-401)],
  ] as const) {
    const name = day.replaceAll('-', '')
    await log.sql(
      `create table audit_log_${name} partition of audit_log for values from ('${day} 00:00Z') to ('${next} 00:00Z')`,
    )
    await log.sql(`create table audit_links_${name} partition of audit_links for values from ('${day}') to ('${next}')`)
  }
  await log.sql(`update audit_log set occurred_at = occurred_at + interval '400 days'
    where details->>'operation' = 'purge audit day'`)
  for (const days of [0, -390]) await log.entries(1, { days })
  await log.seal()
  const keys: string[] = []
  for (const day of [soon, later, last]) {
    keys.push((await archiveDay({ db: log.worker, store: log.store }, day)) ?? '')
    const name = day.replaceAll('-', '')
    if (day !== soon) await log.sql(`drop table audit_log_${name}, audit_links_${name}`)
  }
  /** Runs `work` before the first read of an object. Returns what was read, too. */
  async function findings(work: (key: string) => Promise<unknown> = async () => {}) {
    const read = new Set<string>()
    const store = {
      ...log.store,
      list: (prefix: string) => log.store.list(prefix),
      async get(...given: Parameters<ObjectStore['get']>) {
        if (given[0].startsWith('audit/days/')) {
          if (read.size === 0) await work(given[0])
          // In whichever tier it is looked for.
          read.add(given[0].replace('/cold/', '/'))
        }
        return log.store.get(...given)
      },
    }
    const report = await verify({ db: log.worker, store }, { from: log.dayOf(3), to: log.dayOf(2) })
    t.equal(report.purged, 2)
    return { findings: report.findings, read: [...read] }
  }
  const hidden = [3, 2].map((ago) => ({ what: 'purged without entry', day: log.dayOf(ago) }))
  return { log, findings, hidden, keys, last }
}

t.test('the entry about a purge is found in an archived day behind the range, the latest first', async (t) => {
  const { log, findings, hidden, keys, last } = await purgedLog(t)
  const [, later, key = ''] = keys
  t.strictSame(await findings(), { findings: [], read: [key] })
  await log.store.delete(key)
  t.strictSame(
    await findings(),
    { findings: [{ what: 'archive missing', day: last, object: key }, ...hidden], read: [key, later] },
    'and not in a day of the same year',
  )
})

t.test('a day behind the range that leaves while it is searched hides no purge', async (t) => {
  const { log, findings, keys, last } = await purgedLog(t)
  const to = 'audit/days/elsewhere'
  const moved = await findings(async (key) => {
    await log.store.copy(key, to)
    await log.sql('update audit_archives set object_key = $2 where day = $1', [last, to])
    await log.store.delete(key)
  })
  t.strictSame(moved, { findings: [], read: [keys[2], to] })
  const purged = await findings(async (key) => {
    await log.sql(`update audit_archives set tier = 'purged', members = '[]' where day = $1`, [last])
    await log.sql(
      `insert into audit_log (id, action, resource_type, result, details)
        select gen_random_uuid(), 'ADMIN_ACTION', 'audit_log', 'success',
          jsonb_build_object('operation', 'purge audit day', 'day', day, 'manifest_sha256', manifest_sha256)
        from audit_archives where day = $1`,
      [last],
    )
    await log.store.delete(key)
  })
  t.strictSame(purged, { findings: [], read: [to] })
})

t.test('the entry about a purge may be gone once days of a year later were purged', async (t) => {
  const days = ['2020-01-01', '2020-06-01', '2021-01-01', '2021-06-02']
  t.strictSame(untoldPurges(days, new Set(days)), [])
  t.strictSame(untoldPurges(days, new Set(['2021-06-02'])), ['2021-01-01'])
  t.strictSame(untoldPurges(days, new Set(['2020-06-01', '2021-01-01'])), ['2021-06-02'])
  t.strictSame(untoldPurges(days, new Set()), days, 'none excuses another that has no entry itself')
})

t.test('a person who is not found by a day is a finding, wherever the day lies', async (t) => {
  const log = await agedLog(t)
  const noted = await log.sql('select actor_id, day::text as day from audit_actor_days order by day')
  const missing = (from: readonly { day: string; actor_id: Uuid }[]) =>
    from.map(({ day, actor_id }) => ({ what: 'actor missing', day, actors: 1, actor: formatId('user', actor_id) }))
  await log.entries(1)
  matchWhole(t, await log.verify(), { unsealed: 1, findings: [] }, 'the sealer has not reached the one of today')
  await log.sql('delete from audit_actor_days')
  t.strictSame(await log.findings(), missing(noted))
  await shiftClock(log.admin, PAST)
  t.strictSame(await log.run(), ['archive done', 'archive done'])
  t.strictSame(await log.findings(), missing(noted), 'two days in the object store')
  t.strictSame(await log.findings({ from: log.dayOf(1) }), missing(noted.slice(2)))
  for (const { actor_id, day } of noted) await log.sql('insert into audit_actor_days values ($1, $2)', [actor_id, day])
  t.strictSame(await log.findings(), [])
})

t.test('a proof of the log finds nothing wrong with days that move meanwhile', async (t) => {
  const log = await agedLog(t)
  await log.entries(1, { days: 3 })
  await log.seal()
  await log.anchorAgain()
  /** Runs it once, before the first call. */
  const once = (work: () => Promise<unknown>) => {
    let done: Promise<unknown> | undefined
    return () => (done ??= work())
  }
  const proveWhile = async (what: string, at: 'head' | 'get' | 'connect') => {
    const first = once(log.run)
    const store = {
      ...log.store,
      list: (prefix: string) => log.store.list(prefix),
      async head(key: string) {
        if (at === 'head' && key.startsWith('audit/days/')) await first()
        return log.store.head(key)
      },
      async get(...given: Parameters<ObjectStore['get']>) {
        if (at === 'get' && given[0].startsWith('audit/days/')) await first()
        return log.store.get(...given)
      },
    }
    // The chains of a day are read on a connection of their own.
    const connect = async () => {
      if (at === 'connect') await first()
      return log.worker.pool.connect()
    }
    const db = { ...log.worker, pool: { connect } as typeof log.worker.pool }
    const report = await verify({ db, store }, {})
    t.strictSame(report.findings, [], what)
    return report
  }
  await shiftClock(log.admin, PAST)
  t.match(await proveWhile('out of the database', 'connect'), { entries: 13 })
  await shiftClock(log.admin, '2 years 2 days')
  t.match(await proveWhile('to the cold tier', 'head'), { entries: 13, archived: 13 })
  await shiftClock(log.admin, '7 years 2 days')
  t.match(await proveWhile('to their end', 'get'), { purged: 2, entries: 5 })
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
  matchWhole(t, await log.verify(), { purged: 3, findings: [] })
  const [{ n }] = await log.sql(
    `select count(*)::int as n from audit_log where details->>'operation' = 'purge audit day'`,
  )
  t.equal(n, 3)
  await sweepAttempts({ db: log.worker, store: log.store })
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

t.test('a process that stood still for longer than its lease cannot touch what another one has archived', async (t) => {
  const log = await agedLog(t)
  await shiftClock(log.admin, PAST)
  const due = await log.due()
  const claim = async () => {
    const token = newUuid()
    const claimed = await log.worker.inTransaction({}, (tx) =>
      auditDays.claim(tx, due, { limit: 1, seconds: 60, token }),
    )
    return { token, item: claimed.items[0] as DueDay }
  }
  const keys = async () => {
    const found: string[] = []
    for await (const { key } of log.store.list('audit/days/')) found.push(key)
    return found
  }
  const endLeases = () => log.sql('update audit_day_leases set lease_at = now()')
  const archived = (day: string) => log.sql('select object_key from audit_archives where day = $1', [day])
  /** Stands still at the first call of a method of the store, until it is told to go on. */
  function stuckAt(method: 'put' | 'head') {
    const [there, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const original = log.store[method] as (...given: unknown[]) => Promise<unknown>
    const store = {
      ...log.store,
      list: (prefix: string) => log.store.list(prefix),
      async [method](...given: unknown[]) {
        there.resolve()
        await gate.promise
        return original(...given)
      },
    } as unknown as ObjectStore
    return { store, there: there.promise, goOn: gate.resolve }
  }

  await t.test('before it writes: the table is gone when it reads on', async (t) => {
    const { token, item } = await claim()
    const stuck = stuckAt('put')
    const stale = auditDays.handle({ ...log.deps, store: stuck.store }, item, { token, due })
    await stuck.there
    await endLeases()
    const other = await claim()
    t.equal(other.item.day, item.day)
    t.equal(await auditDays.handle(log.deps, other.item, { token: other.token, due }), 'done')
    const before = await archived(item.day)
    stuck.goOn()
    t.equal(await stale, 'lost')
    t.strictSame(await archived(item.day), before)
    matchWhole(t, await log.verify(), { entries: 12, findings: [] })
    t.strictSame(await keys(), [before[0].object_key], 'and its own object is gone')
    t.strictSame(await log.sql('select from audit_day_attempts'), [])
  })

  await t.test('after it wrote: what the sweep gave up never becomes the object of the day', async (t) => {
    const { token, item } = await claim()
    const [there, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    let transactions = 0
    const db: HandleDeps['db'] = {
      ...log.worker,
      async inTransaction(...given) {
        transactions += 1
        // The first one notes the attempt, the second one makes its object the day's.
        if (transactions === 2) {
          there.resolve()
          await gate.promise
        }
        return log.worker.inTransaction(...given)
      },
    }
    const stale = auditDays.handle({ ...log.deps, db }, item, { token, due })
    await there.promise
    const sweep = () => sweepAttempts({ db: log.worker, store: log.store })
    await sweep()
    t.equal((await keys()).length, 2, 'while its lease lasts it is left alone')
    await endLeases()
    await sweep()
    t.equal((await keys()).length, 1, 'nobody else has taken the day, and its token is still there')
    gate.resolve()
    t.equal(await stale, 'lost')
    t.strictSame(await archived(item.day), [])
    t.strictSame(await log.run(), ['archive done'])
    matchWhole(t, await log.verify(), { entries: 12, findings: [] })
  })
})

t.test('a file that has not what the chains and the anchor of its day say is refused', async (t) => {
  const log = await agedLog(t)
  await shiftClock(log.admin, PAST)
  const sweep = async () => {
    await log.sql('update audit_day_leases set lease_at = now(), lease_token = null')
    await sweepAttempts({ db: log.worker, store: log.store })
  }
  const isEmpty = async (what: string) => {
    t.strictSame(await log.sql('select from audit_archives'), [], what)
    for await (const { key } of log.store.list('audit/days/')) t.fail(`${what} ${key}`)
  }
  const day = log.dayOf(3)
  await log.sql(`create table saved as select * from audit_heads`)
  await log.sql(`delete from audit_heads where day = $1`, [day])
  await t.rejects(log.run(), { message: `the chains of ${day} are not those of its anchor` })
  await sweep()
  await isEmpty('without the ends of its chains')
  await log.sql(`insert into audit_heads select * from saved where day = $1`, [day])
  await log.sql(
    `delete from audit_log where id = (select min(id::text)::uuid from audit_log
    where (occurred_at at time zone 'UTC')::date = $1)`,
    [day],
  )
  await t.rejects(log.run(), {
    message: /^the file of .* has 3 entries, 0 of them late; the log has 3, with 4 in 4 links/,
  })
  await sweep()
  await isEmpty('with an entry less')
  t.strictSame(
    await log.tables(),
    [3, 2, 1].map((ago) => log.dayOf(ago).slice(-2)),
  )
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
