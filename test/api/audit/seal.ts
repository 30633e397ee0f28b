import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { insertAudit } from '../../../api/audit/queries.ts'
import { sealOnce } from '../../../api/audit/seal.ts'
import { closableNow, listUnsealed, measureSeal, takeCursor } from '../../../api/audit/seal-queries.ts'
import { startSealer } from '../../../api/audit/sealer.ts'
import { sql } from '../../../api/db/orm.ts'
import { formatId, newUuid } from '../../../lib/contract/ids.ts'
import { StoreError } from '../../../lib/runtime/object-store/object-store.ts'
import { auditWorld } from '../../support/audit.ts'
import { testStore } from '../../support/conversion-world.ts'
import { testDatabase } from '../../support/database.ts'
import { eventually } from '../../support/eventually.ts'
import { matchWhole } from '../../support/match-whole.ts'
import { quickStart } from '../../support/quick-start.ts'
import { quietLog } from '../../support/quiet-log.ts'

/** The seal of the audit log: nothing is skipped, doubled or reordered, whatever happens meanwhile; `verify` proves it. */
const database = await testDatabase(t)
const { db, admin } = database
const { store, storeFolder } = await testStore(t)
const world = auditWorld(database, store)
const entry = (orgId = newUuid()) => ({
  orgId,
  actorId: newUuid(),
  action: 'EVENT_CREATE' as const,
  resourceId: null,
  result: 'success' as const,
  context: null,
})

const gaps = async () => {
  const [row] = await world.sql(`select count(*)::int as links, count(distinct (occurred_at, entry_id))::int as entries,
    (select count(*)::int from (select seq - lag(seq, 1, 0::bigint) over (partition by day, org_id order by seq) as step
      from audit_links) steps where step <> 1) as gaps,
    (select sealed::int from audit_cursor) as sealed from audit_links`)
  return row
}

t.test('two sealers beside writers that roll back, wait and use savepoints', async (t) => {
  const orgs = Array.from({ length: 4 }, () => newUuid())
  let isDone = false
  let committed = 0
  const sealing = [1, 2].map(async () => {
    while (!isDone) if ((await sealOnce(world, 50)) !== 'more') await sleep(5)
  })
  /** Whether and how the savepoint of a transaction ends, by its fate. */
  const SAVEPOINTS = ['rollback to s', 'release s', 'release s']
  const write = (fate: number, org: string | undefined) =>
    db.inTransaction({}, async (tx) => {
      const one = () => insertAudit(tx, entry(org))
      await one()
      const savepoint = SAVEPOINTS[fate]
      if (savepoint) {
        await tx.execute(sql`savepoint s`)
        await one()
        await tx.execute(sql.raw(savepoint))
      }
      if (fate === 5) await sleep(150)
      if (fate === 7 || fate === 8) throw new Error('changed my mind')
      return savepoint === 'release s' ? 2 : 1
    })
  const writer = async (w: number) => {
    for (let i = 0; i < 40; i++) {
      const entries = await write((i * 7 + w * 3) % 20, orgs[(i + w) % 4]).catch(() => 0)
      committed += entries
    }
  }
  await Promise.all(Array.from({ length: 12 }, (_, w) => writer(w)))
  isDone = true
  await Promise.all(sealing)
  await world.seal()
  t.strictSame(await gaps(), { links: committed, entries: committed, gaps: 0, sealed: committed })
  t.equal(await world.unsealed(), 0)
  matchWhole(t, await world.verify(), { entries: committed, unsealed: 0, findings: [] })
})

t.test('an entry waits for a transaction that still runs, and keeps its place behind it', async (t) => {
  const org = newUuid()
  const begun = Promise.withResolvers<void>()
  const end = Promise.withResolvers<void>()
  let ofLong = ''
  const long = db.inTransaction({}, async (tx) => {
    ofLong = await insertAudit(tx, entry(org))
    begun.resolve()
    await end.promise
  })
  await begun.promise
  const later = await db.inTransaction({}, (tx) => insertAudit(tx, entry(org)))
  await world.sealNow()
  matchWhole(t, await world.verify(), { unsealed: 1, findings: [] }, 'the visible one waits, and is no forgery')
  t.ok((await database.worker.read({}, measureSeal)) > 0)
  end.resolve()
  await long
  await world.seal()
  t.strictSame(
    await world.sql('select entry_id from audit_links where org_id = $1 order by seq', [org]),
    [ofLong, later].map((id) => ({ entry_id: id })),
  )
  t.equal(await database.worker.read({}, measureSeal), 0)
})

t.test('a transaction with more entries than a pass takes is sealed in several', async (t) => {
  const org = newUuid()
  await world.entries(25, { org })
  await world.seal(10)
  t.strictSame(await world.sql('select count::int from audit_heads where org_id = $1', [org]), [{ count: 25 }])
})

t.test('a pass locks no partition of a day that is sealed', async (t) => {
  const locked = (daysLater: number) =>
    world.db.inTransaction({}, async (tx) => {
      const cursor = await takeCursor(tx)
      if (!cursor) throw new Error('another sealer works')
      const now = new Date(Date.parse(cursor.closedUntil) + daysLater * 86_400_000).toISOString()
      await listUnsealed(tx, { ...cursor, closedUntil: now.slice(0, 10), now }, 10)
      const { rows } = await tx.execute<{ n: number }>(sql`select count(distinct relation)::int as n from pg_locks l
        join pg_inherits i on i.inhrelid = l.relation and i.inhparent = 'audit_log'::regclass
        where l.pid = pg_backend_pid()`)
      return rows[0]?.n ?? 0
    })
  const all = await locked(0)
  t.ok(all > 10, `${all} partitions`)
  t.ok((await locked(12)) < all)
})

t.test('days stay open while an entry of the week before them waits for a transaction that does not end', async (t) => {
  const later = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10)
  const closable = () =>
    world.db.inTransaction({}, async (tx) => {
      const cursor = await takeCursor(tx)
      if (!cursor) throw new Error('another sealer works')
      return closableNow(tx, { ...cursor, closable: later(30) })
    })
  await world.seal()
  t.equal(await closable(), later(30), 'all is sealed')
  const endless = await admin.connect()
  try {
    await endless.query('begin; select pg_current_xact_id()')
    await db.inTransaction({}, (tx) => insertAudit(tx, entry()))
    t.equal(await sealOnce(world), 'done')
    t.equal(await closable(), later(6))
  } finally {
    await endless.query('rollback')
    endless.release()
  }
  await world.seal()
  t.equal(await closable(), later(30))
})

t.test('the days on which a person did something are noted once', async (t) => {
  const one = entry()
  for (let i = 0; i < 3; i++) await db.inTransaction({}, (tx) => insertAudit(tx, one))
  await world.seal()
  t.strictSame(
    await world.sql(
      `select day = (now() at time zone 'UTC')::date as today from audit_actor_days where actor_id = $1`,
      [one.actorId],
    ),
    [{ today: true }],
  )
})

// `moved` is the last line of the transaction that seals.
for (const point of ['moved', 'sealed', 'anchored']) {
  t.test(`a sealer that is killed (audit.${point}) loses and doubles nothing`, async (t) => {
    if (point === 'anchored') await admin.query(`update audit_days set anchored_at = null`)
    await world.entries(5, { org: newUuid() })
    const program = fileURLToPath(new URL('../../support/dying-sealer.ts', import.meta.url))
    // `sealed` and `anchored` are reached by a pass that closes a day: in the first minutes of a day, not yesterday.
    if (point === 'sealed' || point === 'anchored') {
      await admin.query(`update audit_cursor set closed_until = closed_until - 2`)
      await admin.query(`delete from audit_days where day > (select closed_until from audit_cursor)`)
    }
    const child = spawn(process.execPath, [program, database.url, storeFolder, `audit.${point}`], {
      env: { PATH: process.env['PATH'], ...quickStart() },
      stdio: 'inherit',
    })
    t.teardown(() => void child.kill('SIGKILL'))
    t.strictSame(await once(child, 'exit'), [null, 'SIGKILL'])
    await world.seal()
    await world.anchor()
    const after = await gaps()
    t.equal(after.links, after.entries)
    t.equal(after.links, after.sealed)
    t.equal(after.gaps, 0)
    t.equal(await world.unsealed(), 0)
    t.strictSame(await world.findings(), [])
  })
}

t.test('days change under load, and no change fails', async (t) => {
  const org = newUuid()
  await db.inTransaction({}, (tx) => insertAudit(tx, entry(org)))
  // A boundary of partitions that is near stands for midnight. It is drawn once the table is locked, however long that took.
  await world.sql(`do $$
    declare boundary timestamptz; day date; today text;
    begin
      lock table audit_log in access exclusive mode;
      boundary := clock_timestamp() + interval '3 seconds';
      day := boundary at time zone 'UTC';
      today := 'audit_log_' || to_char(day, 'YYYYMMDD');
      execute format('alter table audit_log detach partition %I', today);
      execute format('alter table audit_log attach partition %I for values from (%L) to (%L)', today,
        day::timestamp at time zone 'UTC', boundary);
      execute format('create table audit_log_night partition of audit_log for values from (%L) to (%L)', boundary,
        (day + 1)::timestamp at time zone 'UTC');
    end $$`)
  const night = async () => (await world.sql('select count(*)::int as n from audit_log_night'))[0].n as number
  // One of the day, however late the others begin.
  let written = 1
  let isOver = false
  await Promise.all([
    ...Array.from({ length: 8 }, async () => {
      for (; !isOver; written++) await db.inTransaction({}, (tx) => insertAudit(tx, entry(org)))
    }),
    (async () => {
      while (!isOver) if ((await sealOnce(world)) !== 'more') await sleep(10)
    })(),
    eventually('entries of the night', async () => (await night()) > 200, 120_000, 100).finally(() => {
      isOver = true
    }),
  ])
  await world.seal()
  const n = await night()
  t.ok(n > 0 && n < written)
  t.strictSame(await world.sql('select count::int from audit_heads where org_id = $1', [org]), [{ count: written }])
  t.strictSame(await world.findings(), [])
})

t.test('what a version before encryption writes is encrypted before it is sealed', async (t) => {
  const [id, actor] = [newUuid(), newUuid()]
  await world.sql(
    `insert into audit_log (id, actor_id, action, resource_type, result, ip_address, user_agent)
      values ($1, $2, 'LOGIN', 'session', 'success', '192.0.2.9', 'Firefox')`,
    [id, actor],
  )
  await world.seal()
  const [row] = await world.sql('select * from audit_log where id = $1', [id])
  t.match(row, { ip_address: null, user_agent: null })
  const box = { entryId: id, personId: actor, personal: row.personal, keyVersion: row.key_version }
  t.strictSame(await world.personalData.decrypt([box]), [
    { state: 'open', personal: { ipAddress: '192.0.2.9', userAgent: 'Firefox' } },
  ])
  t.strictSame(await world.findings(), [])
})

t.test('plain text of many people is sealed in passes that few keys hold up', async (t) => {
  await world.sql(
    `insert into audit_log (id, actor_id, action, resource_type, result, user_agent)
      select gen_random_uuid(), gen_random_uuid(), 'LOGIN', 'session', 'success', 'Firefox' from generate_series(1, 510)`,
  )
  await sealOnce(world)
  t.ok((await world.unsealed()) > 0)
  await world.seal()
  t.equal(await world.unsealed(), 0)
  t.match(await world.sql('select count(*)::int as n from audit_log where user_agent is not null'), [{ n: 0 }])
  t.strictSame(await world.findings(), [])
})

t.test('without the object store a sealer begins nothing, but goes on with what it has compared', async (t) => {
  let isDown = true
  const get: typeof store.get = (...given) => {
    if (isDown) throw new StoreError('Unavailable', 'down')
    return store.get(...given)
  }
  const outages = () => logged.length
  const logged: unknown[] = []
  const log = quietLog()
  const sealer = startSealer(
    {
      ...world,
      store: { ...store, get },
      log: Object.assign(log, { warn: (line: unknown) => void logged.push(line) }),
    },
    { pollMs: 10 },
  )
  t.teardown(() => sealer.stop())
  await world.entries(1)
  await eventually('two attempts', () => outages() > 1)
  t.equal(await world.unsealed(), 1, 'the database could be older than its anchors')
  isDown = false
  await eventually('the seal', async () => (await world.unsealed()) === 0)
  isDown = true
  await world.entries(1)
  await eventually('the seal without the store', async () => (await world.unsealed()) === 0)
})

t.test('verify names what was tampered with', async (t) => {
  const org = newUuid()
  const name = formatId('organization', org)
  const ids = await world.entries(9, { org })
  await world.seal()
  await admin.query('update audit_cursor set anchored_at = null')
  await world.anchor()
  t.strictSame(await world.findings(), [])
  const id = (n: number) => ids[n - 1] ?? ''
  const shown = (n: number) => formatId('audit', id(n))
  const other = newUuid()
  const cases: [what: string, change: string, expected: object[]][] = [
    [
      'changed',
      `update audit_log set result = 'failure' where id = '${id(3)}'`,
      [{ what: 'changed or reordered', org: name, number: 3, entry: shown(3) }],
    ],
    [
      'an entry removed',
      `delete from audit_log where id = '${id(4)}'`,
      [{ what: 'entry missing', org: name, number: 4, entry: shown(4) }],
    ],
    [
      'two swapped',
      [
        [id(5), other],
        [id(6), id(5)],
        [other, id(6)],
      ]
        .map(([is, becomes]) => `update audit_links set entry_id = '${becomes}' where entry_id = '${is}'`)
        .join(';'),
      [{ what: 'changed or reordered', org: name, number: 5, entry: shown(6) }],
    ],
    [
      'entry and link removed',
      `delete from audit_log where id = '${id(7)}'; delete from audit_links where entry_id = '${id(7)}'`,
      [{ what: 'link missing', org: name, number: 7 }],
    ],
    [
      'forged with an old transaction',
      `insert into audit_log (id, action, resource_type, result, txid, serial) overriding system value
        values ('${other}', 'LOGIN', 'session', 'success', '900', 2)`,
      [{ what: 'entry without link', entry: formatId('audit', other) }],
    ],
    [
      'the end removed, and the head moved back',
      `delete from audit_log where id = '${id(9)}'; delete from audit_links where entry_id = '${id(9)}';
        update audit_heads h set count = 8, hash = l.hash from audit_links l
          where h.org_id = '${org}' and l.org_id = h.org_id and l.day = h.day and l.seq = 8`,
      [{ what: 'removed since anchor', org: name, number: 9 }],
    ],
    [
      'a whole chain removed',
      `delete from audit_log where org_id = '${org}'; delete from audit_links where org_id = '${org}';
        delete from audit_heads where org_id = '${org}'`,
      [{ what: 'removed since anchor', org: name, number: 9 }],
    ],
    [
      'the last entry changed, and everything computed anew',
      `update audit_log set result = 'failure' where id = '${id(9)}';
        update audit_links l set hash = sha256(p.hash || audit_canonical(e)) from audit_links p, audit_log e
          where l.entry_id = '${id(9)}' and e.id = '${id(9)}' and p.org_id = l.org_id and p.day = l.day and p.seq = 8;
        update audit_heads h set hash = l.hash from audit_links l where l.entry_id = '${id(9)}' and h.org_id = l.org_id
          and h.day = l.day`,
      [{ what: 'differs from anchor', org: name, number: 9 }],
    ],
    ['a cursor set back', 'update audit_cursor set sealed = sealed - 1', [{ what: 'anchor ahead of the log' }]],
  ]
  for (const [what, change, expected] of cases) {
    const save = await admin.query(`create table saved_log as select * from audit_log;
      create table saved_links as select * from audit_links; create table saved_heads as select * from audit_heads;
      create table saved_cursor as select * from audit_cursor`)
    t.ok(save)
    await admin.query(change)
    t.match(await world.findings(), expected, what)
    t.equal((await world.findings()).length, expected.length, what)
    await admin.query(`delete from audit_log; delete from audit_links; delete from audit_heads; delete from audit_cursor;
      insert into audit_log overriding system value select * from saved_log;
      insert into audit_links select * from saved_links; insert into audit_heads select * from saved_heads;
      insert into audit_cursor select * from saved_cursor;
      drop table saved_log, saved_links, saved_heads, saved_cursor`)
    t.strictSame(await world.findings(), [], `${what}, undone`)
  }
})
