import t from 'tap'
import { countKeysByMaster, shredPersonKeys } from '../../../api/audit/key-queries.ts'
import { AuditKeys, openMasterKeys } from '../../../api/audit/master-keys.ts'
import { monthOf, openPersonalData, type PersonalData } from '../../../api/audit/personal-data.ts'
import { type AuditEntry, insertAudit } from '../../../api/audit/queries.ts'
import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { startTestApi } from '../../support/api.ts'
import { commandLine } from '../../support/command-line.ts'
import { eventually } from '../../support/eventually.ts'
import { matchWhole } from '../../support/match-whole.ts'
import { AUDIT_KEYS, testPersonalData } from '../../support/personal-data.ts'

/** What the audit log says about people is readable under their keys alone. */
const api = await startTestApi(t)
const { db, worker, admin } = api.database
const keys = testPersonalData(db)
const ADDRESS = '192.0.2.55'

async function write(actorId: Uuid | null, o: { keys?: PersonalData; personal?: AuditEntry['personal'] } = {}) {
  const context = {
    requestId: 'req_1',
    clientRequestId: null,
    ip: ADDRESS,
    userAgent: 'Firefox',
    personalData: o.keys ?? keys,
  }
  const about = { orgId: null, actorId, action: 'LOGIN', resourceId: null, result: 'success', context } as const
  return db.inTransaction({}, (tx) => insertAudit(tx, { ...about, ...(o.personal && { personal: o.personal }) }))
}
async function boxOf(id: Uuid) {
  const { rows } = await admin.query('select * from audit_log where id = $1', [id])
  const [row] = rows
  return { entryId: id, personId: row.actor_id, personal: row.personal, keyVersion: row.key_version, row }
}
const opened = async (id: Uuid, by: PersonalData = keys) => (await by.decrypt([await boxOf(id)]))[0]

t.test(
  'an entry of a request holds address, agent and names encrypted, and nothing of them in plain text',
  async (t) => {
    const actor = newUuid()
    const id = await write(actor, { personal: { device_name: 'Phone of Zoë' } })
    t.strictSame(await opened(id), {
      state: 'open',
      personal: { ipAddress: ADDRESS, userAgent: 'Firefox', details: { device_name: 'Phone of Zoë' } },
    })
    const { row } = await boxOf(id)
    t.match(row, { ip_address: null, user_agent: null, key_version: new Date().getUTCFullYear() })
    const text = JSON.stringify({ ...row, personal: row.personal.toString('latin1') })
    for (const plain of [ADDRESS, 'Firefox', 'Phone']) t.notOk(text.includes(plain), plain)
  },
)

t.test('so does one of the API, also of a caller who is not signed in', async (t) => {
  const { member } = api.people
  const created = await api.call(member, 'POST', `/api/orgs/${api.org}/events`, {
    json: { title: 'A day out', start_at: '2026-11-21T09:30:00Z' },
    headers: { 'user-agent': 'Keepsake/1.0' },
  })
  t.equal(created.status, 201)
  const { rows } = await admin.query(`select id from audit_log where actor_id = $1 and action = 'EVENT_CREATE'`, [
    member.id,
  ])
  t.match(await opened(rows[0].id), { personal: { ipAddress: '127.0.0.1', userAgent: 'Keepsake/1.0' } })
  const unknown = await write(null)
  t.match(await opened(unknown), { state: 'open' })
  t.equal((await boxOf(unknown)).keyVersion, monthOf(new Date()), 'whose keys change every month')
})

t.test('a box opens in its own entry, for its own person, alone', async (t) => {
  const [one, two, actor] = [newUuid(), newUuid(), newUuid()]
  const box = await boxOf(await write(actor))
  await write(one)
  const moved = [
    { ...box, entryId: two },
    { ...box, personId: one },
    { ...box, personal: Buffer.concat([box.personal.subarray(0, 20), Buffer.from([0]), box.personal.subarray(21)]) },
    { ...box, personal: Buffer.alloc(3) },
  ]
  t.strictSame(
    (await keys.decrypt(moved)).map(({ state }) => state),
    moved.map(() => 'damaged'),
  )
  t.strictSame(await keys.decrypt([{ ...box, personal: null, keyVersion: null }]), [{ state: 'none' }])
})

t.test('many processes that meet a person at once use one key', async (t) => {
  const actor = newUuid()
  const processes = Array.from({ length: 6 }, () => testPersonalData(db))
  const ids = await Promise.all(processes.flatMap((own) => [write(actor, { keys: own }), write(actor, { keys: own })]))
  for (const id of ids) t.match(await opened(id, testPersonalData(db)), { state: 'open' })
  const { rows } = await admin.query('select count(*)::int as n from audit_keys where person_id = $1', [actor])
  t.strictSame(rows, [{ n: 1 }])
})

t.test('the key outlives a change that is rolled back', async (t) => {
  const [actor, own] = [newUuid(), testPersonalData(db)]
  const context = { requestId: 'r', clientRequestId: null, ip: ADDRESS, userAgent: null, personalData: own }
  const about = { orgId: null, actorId: actor, action: 'LOGIN', resourceId: null, result: 'success', context } as const
  await t.rejects(
    db.inTransaction({}, async (tx) => {
      await insertAudit(tx, about)
      throw new Error('changed my mind')
    }),
  )
  t.match(await opened(await write(actor, { keys: own }), testPersonalData(db)), { state: 'open' })
})

t.test('where all connections wait for keys, the keys come', async (t) => {
  const own = testPersonalData(db)
  const ids = await Promise.all(Array.from({ length: 60 }, () => write(newUuid(), { keys: own })))
  t.equal(ids.length, 60)
})

t.test('shredding ends reading in every process, and no key of the person is made again', async (t) => {
  const { owner } = api.people
  const id = await write(owner.id)
  const of = () =>
    admin.query(`select id, personal from audit_log where actor_id = $1 order by serial desc limit 1`, [owner.id])
  const create = (n: number) =>
    api.call(owner, 'POST', `/api/orgs/${api.org}/events`, {
      json: { title: `${n}`, start_at: '2026-11-21T09:30:00Z' },
    })
  await create(0)
  t.ok((await of()).rows[0].personal, 'the API has the key at hand')
  const rolledBack = worker.inTransaction({}, async (tx) => {
    await shredPersonKeys(tx, owner.id)
    throw new Error('changed my mind')
  })
  await t.rejects(rolledBack)
  t.match(await opened(id, testPersonalData(db)), { state: 'open' })

  await worker.inTransaction({}, (tx) => shredPersonKeys(tx, owner.id))
  await worker.inTransaction({}, (tx) => shredPersonKeys(tx, owner.id))
  t.strictSame(await opened(id, testPersonalData(db)), { state: 'erased' })
  keys.forget(owner.id)
  t.strictSame(await opened(id), { state: 'erased' })
  // The API hears of it at once, long before its cache ends.
  let n = 0
  await eventually('an entry without personal data', async () => {
    n += 1
    await create(n)
    return (await of()).rows[0].personal === null
  })
  const { rows } = await admin.query('select version from audit_keys where person_id = $1', [owner.id])
  t.strictSame(rows, [{ version: 0 }])
})

t.test('while a person is erased nothing waits, and what is written holds nothing of the person', async (t) => {
  const actor = newUuid()
  await worker.inTransaction({}, async (tx) => {
    await shredPersonKeys(tx, actor)
    t.equal((await boxOf(await write(actor, { keys: testPersonalData(db) }))).personal, null)
  })
})

t.test('a key is read again after a time, and memory holds only the latest', async (t) => {
  const asked: string[] = []
  const masters = openMasterKeys(AuditKeys.parse(JSON.parse(AUDIT_KEYS)))
  const counting: Pick<typeof db, 'aside'> = {
    aside(work) {
      asked.push('x')
      return db.aside(work)
    },
  }
  const own = openPersonalData({ db: counting, masters, most: 2 })
  const askedBy = async (writing: Promise<unknown>) => {
    const before = asked.length
    await writing
    return asked.length > before
  }
  const [a, b] = [newUuid(), newUuid()]
  t.equal(await askedBy(write(a, { keys: own })), true)
  t.equal(await askedBy(write(a, { keys: own })), false, 'from memory')
  t.equal(await askedBy(write(b, { keys: own })), true)
  t.equal(await askedBy(write(a, { keys: own })), true, 'the third key had made room')
  const forgetful = openPersonalData({ db: counting, masters, cacheMs: 0 })
  t.equal(await askedBy(write(a, { keys: forgetful })), true)
  t.equal(await askedBy(write(a, { keys: forgetful })), true, 'after its time')
})

t.test('the index finds the entries of an address, by the network of IPv6, and changes with the month', async (t) => {
  const id = await write(newUuid())
  const month = monthOf(new Date())
  const [index] = await keys.addressIndexes(ADDRESS, [month])
  t.ok((await boxOf(id)).row.address_index.equals(index))
  t.not((await keys.addressIndexes('192.0.2.56', [month]))[0]?.equals(index as Buffer), true)
  const [one, two] = [
    await keys.addressIndexes('2001:db8::1', [month]),
    await keys.addressIndexes('2001:db8::2', [month]),
  ]
  t.strictSame(one, two)
  t.strictSame(await keys.addressIndexes(ADDRESS, [200001]), [], 'no key, no entries')
})

t.test('a new master key takes over, and the command says when the old one may go', async (t) => {
  const id = await write(newUuid())
  const old = JSON.parse(AUDIT_KEYS)
  const ring = { current: 'm2', keys: { ...old.keys, m2: Buffer.alloc(32, 5).toString('base64url') } }
  const before = (await worker.read({}, countKeysByMaster)).get('m1') ?? 0
  t.ok(before > 5)
  const env = { DATABASE_URL: api.database.url, AUDIT_KEYS: JSON.stringify(ring) }
  const { code, out } = await commandLine(['audit', 'rewrap'], env)
  t.equal(code, 0)
  matchWhole(t, out, {
    rewrapped: before,
    current: 'm2',
    keys: { m2: before },
    unused: ['m1'],
    note: /^Remove m1 from AUDIT_KEYS once/,
  })
  t.match((await commandLine(['audit', 'rewrap'], env)).out, { rewrapped: 0 })
  const rotated = (keys: object) =>
    openPersonalData({ db, masters: openMasterKeys(AuditKeys.parse({ current: 'm2', keys })) })
  t.match(await opened(id, rotated({ m2: ring.keys.m2 })), { state: 'open' }, 'without the old one')
  await t.rejects(opened(id, testPersonalData(db)), /AUDIT_KEYS has no key m2/)
})

t.test('rings that cannot work are refused', async (t) => {
  const good = Buffer.alloc(32, 1).toString('base64url')
  t.ok(AuditKeys.safeParse({ current: 'a', keys: { a: good } }).success)
  for (const ring of [
    { current: 'b', keys: { a: good } },
    { current: 'a', keys: { a: Buffer.alloc(31).toString('base64url') } },
    { current: 'a', keys: { a: Buffer.alloc(33).toString('base64url') } },
    { current: 'A', keys: { A: good } },
  ]) {
    t.notOk(AuditKeys.safeParse(ring).success, JSON.stringify(ring))
  }
})

t.test('audit verify prints what it proved, and refuses what is no day', async (t) => {
  const env = { DATABASE_URL: api.database.url, STORE_KIND: 'folder', STORE_FOLDER: api.config.STORE_FOLDER ?? '' }
  matchWhole(t, await commandLine(['audit', 'verify'], env), { code: 0, out: { entries: 0, findings: [] } })
  t.match(await commandLine(['audit', 'verify', '--from', '2026-02-30'], env), { code: 2, err: /is not a day/ })
  await admin.query(`insert into audit_log (id, action, resource_type, result, txid, serial) overriding system value
    values (gen_random_uuid(), 'LOGIN', 'session', 'success', '3', 0)`)
  const { code, out, err } = await commandLine(['audit', 'verify'], env)
  matchWhole(
    t,
    { code, out, err },
    { code: 4, out: { findings: [{ what: 'entry without link' }] }, err: /is not what was sealed/ },
  )
})
