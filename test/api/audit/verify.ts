import { cp, rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { writeDayFile } from '../../../api/audit/archive/day-file.ts'
import { entryOf } from '../../../api/audit/archive/line.ts'
import { sealOnce } from '../../../api/audit/seal.ts'
import { verify } from '../../../api/audit/verify.ts'
import { standingOf } from '../../../api/audit/verify-plan.ts'
import { coldKeyOf } from '../../../lib/contract/cold-key.ts'
import { formatId, newUuid } from '../../../lib/contract/ids.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import { archiveDay, auditWorld } from '../../support/audit.ts'
import { testStore } from '../../support/conversion-world.ts'
import { testDatabase } from '../../support/database.ts'
import { matchWhole } from '../../support/match-whole.ts'
import { testPersonalData } from '../../support/personal-data.ts'

/** What `audit verify` finds when someone who may write anything to the database changes days that are closed and anchored. */

t.test('anchors count that are of the past of the present timeline', async (t) => {
  // 0 to 100; restored to 60 as 1; then a later backup of 0 was restored, to 90, as 2.
  const now = { timeline: 2, forks: [{ timeline: 2, from: 0, sealed: 90 }] }
  const cases: [timeline: number, sealed: number, standing: string][] = [
    [0, 90, 'counts'],
    [0, 91, 'ended'],
    [1, 61, 'ended'],
    [2, 95, 'counts'],
    [3, 1, 'ahead'],
  ]
  for (const [timeline, sealed, standing] of cases) {
    t.equal(standingOf({ timeline, sealed }, now), standing, `${sealed} of ${timeline}`)
  }
  const chain = {
    timeline: 2,
    forks: [
      { timeline: 1, from: 0, sealed: 60 },
      { timeline: 2, from: 1, sealed: 50 },
    ],
  }
  t.equal(standingOf({ timeline: 0, sealed: 50 }, chain), 'counts')
  t.equal(standingOf({ timeline: 0, sealed: 51 }, chain), 'ended', 'a later restore ends more')
  t.equal(standingOf({ timeline: 0, sealed: 99 }, { timeline: 1, forks: [] }), 'counts', 'nothing says that it ended')
})

/** A log of three closed days and today, two organizations, anchored. */
async function closedLog(t: Test) {
  const database = await testDatabase(t)
  const { store, storeFolder } = await testStore(t)
  const world = auditWorld(database, store)
  await world.beganDaysAgo(3)
  const [org, other] = [newUuid(), newUuid()]
  const ids: string[][] = []
  for (let days = 3; days >= 0; days--) {
    ids[days] = await world.entries(4, { org, days })
    await world.entries(2, { org: other, days })
  }
  await world.seal()
  await world.anchor()
  const [days] = await world.sql(`select array_agg((now() at time zone 'UTC')::date - n order by n)::text[] as days
    from generate_series(0, 3) n`)
  matchWhole(t, await world.verify(), { entries: 24, findings: [], unanchored: 0 })
  return { ...world, admin: database.admin, store, storeFolder, org, ids, day: (ago: number): string => days.days[ago] }
}

t.test('verify names what was tampered with in a closed day', async (t) => {
  const log = await closedLog(t)
  const { admin, org, ids, day, storeFolder } = log
  const name = formatId('organization', org)
  const [third, last] = [ids[1]?.[2] ?? '', ids[1]?.[3] ?? '']
  const yesterday = { day: day(1), org: name }
  const forged = newUuid()
  /** An entry of yesterday with a link behind the last one. */
  const forge = (orgId: string, seq: number) => `
    insert into audit_log (id, org_id, action, resource_type, result, occurred_at, txid, serial) overriding system value
      values ('${forged}', '${orgId}', 'LOGIN', 'session', 'success', '${day(1)} 12:00Z', '900', 2);
    insert into audit_links select '${day(1)}', '${orgId}', ${seq}, e.occurred_at, e.id, sha256(coalesce(
        (select hash from audit_links where day = '${day(1)}' and org_id = '${orgId}' and seq = ${seq - 1}),
        sha256('keepsake audit ${orgId} ${day(1)}')) || audit_canonical(e))
      from audit_log e where id = '${forged}';`
  const moveHead = (orgId: string) => `
    insert into audit_heads select distinct on (org_id) day, org_id, seq, hash from audit_links
        where org_id = '${orgId}' and day = '${day(1)}' order by org_id, seq desc
      on conflict (day, org_id) do update set count = excluded.count, hash = excluded.hash;`
  /** Changes the last entry of a chain, and whatever is computed of it. */
  const rewrite = (ago: number, id: string) => `
    update audit_log set result = 'failure' where id = '${id}';
    update audit_links l set hash = sha256(p.hash || audit_canonical(e)) from audit_links p, audit_log e
      where l.entry_id = '${id}' and e.id = '${id}' and p.org_id = l.org_id and p.day = l.day and p.seq = l.seq - 1;
    update audit_heads h set hash = l.hash from audit_links l where l.entry_id = '${id}' and h.org_id = l.org_id
      and h.day = '${day(ago)}' and l.day = h.day;`
  const stranger = newUuid()
  const partition = `audit_log_${day(1).replaceAll('-', '')}`
  const cases: [what: string, change: string, expected: object[], then?: () => Promise<unknown>][] = [
    [
      'forged with a link',
      forge(org, 5),
      [
        { what: 'link behind the end of its chain', ...yesterday, number: 5 },
        { what: 'differs from anchor', ...yesterday, number: 5 },
      ],
    ],
    [
      'forged with a link and the head',
      forge(org, 5) + moveHead(org),
      [{ what: 'differs from anchor', ...yesterday, number: 5 }],
    ],
    [
      'a forged chain',
      forge(stranger, 1),
      [{ what: 'link behind the end of its chain' }, { what: 'differs from anchor', number: 1 }],
    ],
    [
      'forged with a transaction that has not begun',
      `insert into audit_log (id, action, resource_type, result, occurred_at, txid, serial) overriding system value
        values ('${forged}', 'LOGIN', 'session', 'success', '${day(1)} 12:00Z', '900000000', 2000000)`,
      [{ what: 'entry without link', entry: formatId('audit', forged) }],
    ],
    [
      'the entries of a day removed',
      `alter table audit_log detach partition ${partition}`,
      [
        { what: 'entry missing', number: 1 },
        { what: 'entry missing', number: 1 },
      ],
      () =>
        log.sql(
          `alter table audit_log attach partition ${partition} for values from ('${day(1)} 00:00Z') to ('${day(0)} 00:00Z')`,
        ),
    ],
    [
      'the first day removed',
      `delete from audit_log where occurred_at < '${day(2)} 00:00Z'; delete from audit_links where day = '${day(3)}';
        delete from audit_heads where day = '${day(3)}'; delete from audit_days where day = '${day(3)}'`,
      [
        { what: 'removed since anchor', day: day(3) },
        { what: 'removed since anchor', day: day(3) },
      ],
    ],
    [
      'an address written into a sealed entry',
      `update audit_log set ip_address = '203.0.113.66' where id = '${third}'`,
      [{ what: 'changed or reordered', ...yesterday, number: 3, entry: formatId('audit', third) }],
    ],
  ]
  for (const [what, change, expected, undo] of cases) {
    await tamper(t, { what, change: () => admin.query(change), expected, undo })
  }
  // Whatever makes the sealer anchor a change.
  await tamper(t, {
    what: 'a closed day changed and anchored again',
    change: async () => {
      await admin.query(`${rewrite(1, last)} update audit_days set anchored_at = null where day = '${day(1)}'`)
      await log.anchor()
    },
    expected: [
      { what: 'differs from anchor', ...yesterday, number: 4 },
      { what: 'anchors differ', day: day(1) },
    ],
  })
  await tamper(t, {
    what: 'today changed and anchored again',
    change: async () => {
      await admin.query(rewrite(0, ids[0]?.[3] ?? ''))
      await log.anchorAgain()
    },
    expected: [{ what: 'differs from anchor', day: day(0), org: name, number: 4 }],
  })
  await tamper(t, {
    what: 'made to look restored',
    change: async () => {
      await admin.query(`${rewrite(1, last)} update audit_cursor set sealed = 0`)
      await log.notice()
    },
    expected: [
      { what: 'restore not accepted', sealed: 0, anchored: 24 },
      // All that its digest says is that something has replaced it.
      { what: 'anchor missing', day: day(3) },
      { what: 'anchor missing', day: day(2) },
      { what: 'anchor missing', day: day(1) },
    ],
  })
  await tamper(t, {
    what: 'another timeline',
    change: () => admin.query(`${rewrite(1, last)} update audit_cursor set timeline = 7`),
    expected: [
      { what: 'restore unknown', timeline: 7 },
      { what: 'differs from anchor', ...yesterday, number: 4 },
    ],
  })
  await tamper(t, {
    what: 'an anchor removed from the store',
    change: () => log.store.deletePrefix(`audit/anchors/t0/days/${day(2)}/`),
    expected: [
      { what: 'anchor missing', day: day(2) },
      { what: 'anchor missing', day: day(2) },
    ],
  })

  async function tamper(
    t: Test,
    o: { what: string; change(): Promise<unknown>; expected: object[]; undo?: (() => Promise<unknown>) | undefined },
  ) {
    const tables = ['log', 'links', 'heads', 'days', 'restores', 'cursor']
    await admin.query(tables.map((one) => `create table saved_${one} as select * from audit_${one};`).join(''))
    await cp(storeFolder, `${storeFolder}-saved`, { recursive: true })
    await o.change()
    const findings = await log.findings()
    t.match(findings, o.expected, o.what)
    t.equal(findings.length, o.expected.length, o.what)
    await o.undo?.()
    const restore = (one: string) => `delete from audit_${one};
      insert into audit_${one} ${one === 'log' ? 'overriding system value' : ''} select * from saved_${one};
      drop table saved_${one};`
    await admin.query(tables.map(restore).join(''))
    await rm(storeFolder, { recursive: true })
    await cp(`${storeFolder}-saved`, storeFolder, { recursive: true })
    await rm(`${storeFolder}-saved`, { recursive: true })
    t.strictSame(await log.findings(), [], `${o.what}, undone`)
  }
})

t.test('a day that is closed while the anchors are listed is no finding', async (t) => {
  const database = await testDatabase(t)
  const { store } = await testStore(t)
  const world = auditWorld(database, store)
  await world.beganDaysAgo(3)
  await world.entries(3, { days: 1 })
  // The entries, and not yet the day. A pass that other transactions keep all entries from closes the day at once.
  await world.untilSealable()
  await sealOnce({ db: database.worker, personalData: testPersonalData(database.worker) }, 3)
  const closed = () => world.sql('select day::text from audit_days order by day')
  const before = await closed()
  let lists = 0
  const busy: ObjectStore = {
    ...store,
    async *list(prefix) {
      yield* store.list(prefix)
      if (lists++ > 0) return
      await world.sealNow()
      await world.anchor()
    },
  }
  t.strictSame((await verify({ db: database.worker, store: busy }, {})).findings, [])
  t.ok((await closed()).length > before.length)
  t.strictSame((await verify({ db: database.worker, store }, {})).findings, [])
})

t.test('a day without entries is archived and proved', async (t) => {
  const database = await testDatabase(t)
  const { store } = await testStore(t)
  const log = auditWorld(database, store)
  await log.beganDaysAgo(3)
  await log.entries(1, { days: 3 })
  await log.seal()
  await log.anchor()
  const [{ day }] = await log.sql(`select ((now() at time zone 'UTC')::date - 2)::text as day`)
  const key = (await archiveDay({ db: log.db, store }, day)) ?? ''
  matchWhole(t, await log.sql('select entries::int, members from audit_archives'), [{ entries: 0, members: [] }])
  t.strictSame(await log.findings(), [])
  const packed = await buffer((await store.get(key)).body)
  packed[packed.length - 1] = 1
  await store.put(key, packed, { contentType: 'application/gzip' })
  t.match(await log.findings(), [{ what: 'archive changed', object: key }])
})

t.test('archived days are proved from their objects', async (t) => {
  const log = await closedLog(t)
  const { admin, store, org, day } = log
  // Late: in the chain of today, which stays in the database.
  await log.entries(1, { org, days: 3 })
  await log.seal()
  await log.anchorAgain()
  const deps = { db: log.db, store }
  await archiveDay(deps, day(3))
  const key = (await archiveDay(deps, day(2))) ?? ''
  matchWhole(t, await log.verify(), { entries: 25, archived: 13, findings: [] }, 'while the database has them, too')
  const drop = (ago: number) => {
    const name = day(ago).replaceAll('-', '')
    return admin.query(
      `drop table audit_log_${name}, audit_links_${name}; delete from audit_heads where day = '${day(ago)}'`,
    )
  }
  await drop(3)
  await drop(2)
  matchWhole(t, await log.verify(), { entries: 25, archived: 13, unsealed: 0, findings: [] }, 'once they have left it')
  matchWhole(
    t,
    await log.verify({ from: day(0) }),
    { entries: 7, archived: 1, findings: [] },
    'the late one of an earlier day',
  )

  const packed = await buffer((await store.get(key)).body)
  const find = async (what: string, expected: object[]) => {
    const findings = await log.findings()
    t.match(findings, expected, what)
    t.equal(findings.length, expected.length, what)
  }
  const removed = { what: 'removed since anchor', day: day(2) }
  await admin.query(`create table saved as select * from audit_archives`)
  const undo = async () => {
    await admin.query('delete from audit_archives; insert into audit_archives select * from saved')
    await store.put(key, packed, { contentType: 'application/gzip' })
    t.strictSame(await log.findings(), [])
  }
  await admin.query(
    `update audit_archives set members = jsonb_set(members, '{0,1}', '"${day(2)}T00:00:00.000000Z"')
    where day = $1`,
    [day(2)],
  )
  await find('what readers find people by changed', [{ what: 'archive changed', object: key }, removed, removed])
  await undo()

  const lines = gunzipSync(packed).toString().trim().split('\n').map(entryOf)
  const changed = lines.map((entry, n) => (n === 1 ? { ...entry, result: 'failure' as const } : entry))
  const made = await writeDayFile(store, key, day(2), Readable.from(changed))
  await find('its object changed', [
    { what: 'archive changed' },
    ...(made.bytes === packed.length ? [{ what: 'differs from anchor' }] : [removed, removed]),
  ])
  await admin.query('update audit_archives set bytes = $2, sha256 = $3 where day = $1', [
    day(2),
    made.bytes,
    made.sha256,
  ])
  await find('its object and its manifest changed', [
    { what: 'manifest changed' },
    { what: 'differs from anchor', day: day(2) },
  ])
  await undo()

  await store.copy(key, coldKeyOf(key))
  await store.delete(key)
  t.strictSame(await log.findings(), [], 'its object moved since the backup that was restored')
  await store.delete(coldKeyOf(key))
  await find('its object removed', [{ what: 'archive missing', object: key }, removed, removed])
  await undo()
  await admin.query('delete from audit_archives where day = $1', [day(2)])
  await find('a day that is nowhere', [removed, removed])
})
