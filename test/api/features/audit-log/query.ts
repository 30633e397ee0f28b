import t from 'tap'
import { markCold } from '../../../../api/audit/archive/tier-queries.ts'
import { shredPersonKeys } from '../../../../api/audit/key-queries.ts'
import { readLog } from '../../../../api/features/audit-log/read.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { startTestApi } from '../../../support/api.ts'
import { archiveDay } from '../../../support/audit.ts'
import { addEntries, daysAgo, makePastDays, sealAll } from '../../../support/audit-log.ts'
import { eventually } from '../../../support/eventually.ts'
import { matchWhole } from '../../../support/match-whole.ts'
import { testPersonalData } from '../../../support/personal-data.ts'

const api = await startTestApi(t)
const { call, people, database, store } = api
const { admin, worker, db } = database
const root = people.platformAdmin
await makePastDays(admin, 120)
const personalData = testPersonalData(db)

/** One page. */
const query = (json: object = {}) => call(root, 'POST', '/admin/audit/query', { json })
/** The same, once it has a total: the API leaves it out where counting takes too long. */
const counted = (json: object) =>
  eventually('a total', async () => {
    const { data } = await query(json)
    return data.total !== null && data
  })
const idsOf = (logs: readonly { audit_id: string }[]) => logs.map(({ audit_id: id }) => id)
const shown = (ids: readonly Uuid[]) => ids.map((id) => formatId('audit', id))
const dayOf = (days: number) => daysAgo(days).slice(0, 10)
/** All pages, with what happens between two of them. */
async function walk(json: object, between: (page: number) => Promise<void> = async () => {}) {
  const ids: string[] = []
  const tiers = new Set<string>()
  for (let [cursor, page] = [undefined as string | undefined, 1]; ; page++) {
    const { status, body, data } = await query({ ...json, ...(cursor && { cursor }) })
    if (status !== 200) throw new Error(JSON.stringify(body))
    ids.push(...idsOf(data.logs))
    for (const tier of data.tiers_searched) tiers.add(tier)
    if (!data.has_more) return { ids, tiers: [...tiers].sort() }
    cursor = data.next_cursor
    await between(page)
  }
}

/** A person with an entry in each of these days, from the latest to the earliest. */
async function person(days: readonly number[], more: object = {}) {
  const actorId = newUuid()
  const given = days.map((n) => ({ actorId, at: daysAgo(n), ...more }))
  return { actorId, wire: formatId('user', actorId), ids: await addEntries(admin, given) }
}

t.test(
  'only platform administrators query, and each query is an entry without the address that it asks for',
  async (t) => {
    for (const who of [people.owner, people.stranger]) {
      t.equal((await call(who, 'POST', '/admin/audit/query', { json: { limit: 'many' } })).status, 404)
    }
    const of = newUuid()
    t.equal((await query({ actor_id: formatId('user', of), ip_address: '203.0.113.9', limit: 7 })).status, 200)
    const { rows } = await admin.query(
      `select action, resource_type, details from audit_log where actor_id = $1 and action = 'ADMIN_ACTION'`,
      [root.id],
    )
    t.strictSame(rows, [
      {
        action: 'ADMIN_ACTION',
        resource_type: 'audit_log',
        details: {
          operation: 'query audit log',
          filter_actor_id: formatId('user', of),
          filter_ip_address: true,
          limit: 7,
          is_first_page: true,
          entries: 0,
        },
      },
    ])
  },
)

t.test('what is not a filter is a 400 that names the field', async (t) => {
  for (const [json, field] of [
    [{ limit: 0 }, 'body.limit'],
    [{ limit: 201 }, 'body.limit'],
    [{ actor_id: 'org_1' }, 'body.actor_id'],
    [{ action: ['NOTHING'] }, 'body.action.0'],
    [{ result: 'maybe' }, 'body.result'],
    [{ ip_address: '300.1.1.1' }, 'body.ip_address'],
    [{ from: 'yesterday' }, 'body.from'],
    [{ from: '2026-01-02T00:00:00Z', to: '2026-01-02T00:00:00Z' }, 'body.to'],
    [{ resource_id: 'x' }, 'body.resource_id'],
  ] as const) {
    const { status, body } = await query(json)
    t.equal(status, 400, field)
    t.equal(body.error.details[0].field, field)
  }
  const unknown = await query({ cursor: 'cursor_x' })
  t.strictSame([unknown.code, unknown.body.error.details[0].field], ['INVALID_CURSOR', 'body.cursor'])
  const { wire } = await person([3, 4])
  await sealAll(admin)
  const first = await query({ actor_id: wire, limit: 1 })
  t.equal((await query({ limit: 1, cursor: first.data.next_cursor })).code, 'INVALID_CURSOR', 'of another filter')
})

t.test('a membership is shown by the public id of its user', async (t) => {
  const [actorId, userId] = [newUuid(), newUuid()]
  await addEntries(admin, [{ actorId, at: daysAgo(2), resourceType: 'membership', resourceId: userId }])
  await sealAll(admin)
  const { data } = await query({ actor_id: formatId('user', actorId) })
  t.match(data.logs, [{ resource_type: 'membership', resource_id: formatId('user', userId) }])
})

t.test('every filter finds what it names, and nothing else', async (t) => {
  const [actorId, orgId, resourceId] = [newUuid(), newUuid(), newUuid()]
  const personal = await personalData.encrypt(
    { entryId: newUuid(), personId: actorId },
    { ipAddress: '2001:db8:1:2::7', userAgent: 'Camera', details: { device_name: 'Phone' } },
  )
  t.ok(personal)
  const [id, plain] = [newUuid(), newUuid()]
  const box = await personalData.encrypt(
    { entryId: id, personId: actorId },
    { ipAddress: '2001:db8:1:2::7', userAgent: 'Camera', details: { device_name: 'Phone' } },
  )
  await addEntries(admin, [
    {
      id,
      actorId,
      orgId,
      at: daysAgo(2, '10:00:00.123456'),
      action: 'MEDIA_DELETE',
      resourceType: 'media',
      resourceId,
      result: 'failure',
      details: { operation: 'purge' },
      personal: box?.personal ?? null,
      keyVersion: box?.keyVersion ?? null,
    },
    { id: plain, actorId, orgId, at: daysAgo(2, '10:00:00.123455') },
    { actorId, at: daysAgo(2) },
    { orgId, at: daysAgo(2) },
  ])
  await admin.query('update audit_log set address_index = $1 where id = $2', [box?.addressIndex, id])
  await sealAll(admin)
  const mine = { actor_id: formatId('user', actorId) }
  const one = shown([id])
  for (const filter of [
    { ...mine, org_id: formatId('organization', orgId), action: ['MEDIA_DELETE', 'LOGOUT'] },
    { ...mine, result: 'failure' },
    { org_id: orgId, resource_type: 'media' },
    { resource_id: formatId('media', resourceId) },
    { resource_id: resourceId },
    { ...mine, ip_address: '2001:db8:1:2::8' },
    { ip_address: '2001:db8:1:2:3::' },
    { ...mine, from: daysAgo(2, '10:00:00.123'), to: daysAgo(2, '10:00:00.124'), action: ['MEDIA_DELETE'] },
  ]) {
    t.strictSame(idsOf((await query(filter)).data.logs), one, JSON.stringify(filter))
  }
  t.strictSame((await query({ ...mine, ip_address: '2001:db8:1:3::7' })).data.logs, [])
  const { logs, total, total_is_estimate, tiers_searched } = await counted({ ...mine, result: 'failure' })
  t.match(logs[0], {
    actor_id: formatId('user', actorId),
    org_id: formatId('organization', orgId),
    action: 'MEDIA_DELETE',
    resource_type: 'media',
    resource_id: formatId('media', resourceId),
    result: 'failure',
    ip_address: '2001:db8:1:2::7',
    user_agent: 'Camera',
    occurred_at: daysAgo(2, '10:00:00.123456'),
    details: { operation: 'purge' },
    personal: { device_name: 'Phone' },
    personal_data: 'shown',
    sealed: true,
  })
  t.strictSame(
    { total, total_is_estimate, tiers_searched },
    { total: 1, total_is_estimate: false, tiers_searched: ['hot'] },
  )
  await t.test('of an erased person neither address nor name is shown, in the database and in an object', async (t) => {
    t.ok(await archiveDay({ db: worker, store }, dayOf(2)))
    const archived = await query({ ...mine, ip_address: '2001:db8:1:2::7' })
    matchWhole(t, archived.data, { logs: [{ ip_address: '2001:db8:1:2::7' }], tiers_searched: ['warm'] }, 'before')
    await worker.inTransaction({}, (tx) => shredPersonKeys(tx, actorId))
    const erased = async () => (await query({ ...mine, result: 'failure' })).data.logs[0]
    while ((await erased()).personal_data === 'shown') await new Promise((resolve) => setTimeout(resolve, 20))
    t.match(await erased(), { ip_address: null, user_agent: null, personal: null, personal_data: 'erased' })
    await admin.query('delete from audit_archives')
  })
})

t.test('pages are the entries, latest first, whatever arrives meanwhile', async (t) => {
  const { wire, actorId, ids } = await person([1, 2, 3, 9, 10, 30, 60, 89])
  await sealAll(admin)
  const late: Uuid[] = []
  const seen = await walk({ actor_id: wire, limit: 3 }, async (page) => {
    late.push(...(await addEntries(admin, [{ actorId, at: daysAgo(0, `00:00:00.00000${page}`) }])))
    await sealAll(admin)
  })
  t.strictSame(seen.ids, shown(ids))
  t.strictSame((await walk({ actor_id: wire, limit: 200 })).ids, shown([...late.toReversed(), ...ids]))
})

t.test('entries of one microsecond are told apart by their ids', async (t) => {
  const actorId = newUuid()
  const at = daysAgo(5)
  const ids = await addEntries(
    admin,
    Array.from({ length: 7 }, () => ({ actorId, at })),
  )
  await sealAll(admin)
  t.strictSame((await walk({ actor_id: actorId, limit: 2 })).ids, shown(ids.toSorted().toReversed()))
})

t.test('what is not sealed is shown on request only, and `sealed_until` is before it', async (t) => {
  await sealAll(admin)
  const actorId = newUuid()
  const at = daysAgo(0, '00:00:01.000000')
  const ids = await addEntries(admin, [{ actorId, at }])
  const sealed = (await query({ actor_id: actorId })).data
  t.strictSame(sealed.logs, [])
  t.ok(new Date(sealed.sealed_until) <= new Date(at), sealed.sealed_until)
  const open = (await query({ actor_id: actorId, include_unsealed: true })).data
  matchWhole(t, open.logs, [{ audit_id: formatId('audit', ids[0] as Uuid), sealed: false }])
  await sealAll(admin)
  t.match((await query({ actor_id: actorId })).data.logs, [{ sealed: true }])
  await admin.query(`update audit_log set ip_address = '203.0.113.66' where id = $1`, [ids[0]])
  t.match(
    (await query({ actor_id: actorId })).data.logs,
    [{ ip_address: null }],
    'plain text in a sealed entry is forged',
  )
})

t.test('`sealed_until` is before the beginning of every transaction that can still add an entry', async (t) => {
  await sealAll(admin)
  const [begun, end] = [Promise.withResolvers<string>(), Promise.withResolvers<void>()]
  const running = db.inTransaction({}, async (tx) => {
    const { rows } = await tx.execute<{ now: string }>('select pg_current_xact_id(), now()')
    begun.resolve(rows[0]?.now ?? '')
    await end.promise
  })
  const since = new Date(await begun.promise)
  const { sealed_until: until } = (await query({ limit: 1 })).data
  t.ok(new Date(until) <= since, `${until} is not after ${since.toISOString()}`)
  end.resolve()
  await running
})

t.test('a day that moves between two pages, to an object and to another one, loses and repeats nothing', async (t) => {
  const { wire, ids, actorId } = await person([100, 101, 102, 103, 104, 105, 106])
  const others = await addEntries(admin, [
    ...Array.from({ length: 30 }, (_, n) => ({ actorId: newUuid(), at: daysAgo(102, `10:00:${10 + n}.000001`) })),
    { at: daysAgo(102, '11:00:00.000000') },
  ])
  await sealAll(admin)
  const range = { from: daysAgo(106, '00:00:00.000'), to: daysAgo(99, '00:00:00.000') }
  const before = await walk({ ...range, limit: 50 })
  t.equal(before.ids.length, ids.length + others.length)
  const expected = await walk({ actor_id: wire, limit: 2 })
  t.strictSame(expected, { ids: shown(ids), tiers: ['hot'] })
  const archive = async (day: number) => {
    const key = await archiveDay({ db: worker, store }, dayOf(day))
    t.ok(key, `day ${day}`)
    t.equal(await archiveDay({ db: worker, store }, dayOf(day)), undefined, 'once')
    await worker.inTransaction({}, (tx) => tx.execute(`select audit_detach_day('${dayOf(day)}')`))
    return key ?? ''
  }
  const seen = await walk({ actor_id: wire, limit: 2 }, async (page) => {
    // Behind the page, in it and before it.
    if (page === 1) for (const day of [100, 101, 102]) await archive(day)
    if (page === 2) {
      await archive(103)
      const key = await archive(104)
      const { body } = await store.get(key)
      await store.put('audit/cold/104', body, { contentType: 'application/gzip' })
      await worker.inTransaction({}, (tx) => markCold(tx, dayOf(104), 'audit/cold/104'))
      await store.delete(key)
    }
  })
  t.strictSame(seen, { ids: shown(ids), tiers: ['cold', 'hot', 'warm'] })
  t.strictSame(await walk({ actor_id: wire, limit: 1 }), seen)
  for (const limit of [5, 50])
    t.strictSame((await walk({ ...range, limit })).ids, before.ids, `all people, by ${limit}`)
  t.strictSame(
    (await walk({ actor_id: wire, from: daysAgo(103), to: daysAgo(101), limit: 1 })).ids,
    shown(ids.slice(2, 4)),
  )
  t.match(
    await counted({ actor_id: actorId, limit: 1 }),
    { total: 2, total_is_estimate: true },
    'those in the database',
  )
  await t.test('an archived day over the budget needs a person', async (t) => {
    await admin.query('update audit_archives set bytes = 100000000 where day = $1', [dayOf(100)])
    const { status, body } = await query(range)
    t.equal(status, 400)
    matchWhole(t, body.error.details, [{ field: 'body.actor_id' }])
    t.strictSame((await query({ actor_id: actorId, limit: 1 })).status, 200)
    await admin.query('update audit_archives set bytes = 1000 where day = $1', [dayOf(100)])
  })
})

t.test('a day that is archived and leaves the database during a page is read from its object', async (t) => {
  const { actorId, ids } = await person([93, 94, 95])
  await sealAll(admin)
  let reads = 0
  const moving = {
    ...db,
    async read<T>(...given: Parameters<typeof db.read<T>>) {
      // After the plan, before the first entry.
      if (++reads === 2) {
        t.ok(await archiveDay({ db: worker, store }, dayOf(94)))
        await worker.inTransaction({}, (tx) => tx.execute(`select audit_detach_day('${dayOf(94)}')`))
      }
      return db.read(...given)
    },
  }
  const filter = { actorId, includeUnsealed: false }
  const page = await readLog({ db: moving, store, personalData }, { filter, after: undefined, limit: 10, budget: null })
  t.strictSame(
    page.entries.map(({ entry }) => entry.id),
    ids,
  )
  t.strictSame(page.tiers.toSorted(), ['hot', 'warm'])
  t.ok(reads > 2)
})

t.test('without a filter the total is exact, over manifests and chains', async (t) => {
  await sealAll(admin)
  const { rows } = await admin.query('select coalesce(sum(count), 0)::int as n from audit_heads')
  const { data } = await query({ limit: 1 })
  t.strictSame({ total: data.total, estimate: data.total_is_estimate }, { total: rows[0].n, estimate: false })
  t.equal((await query({ action: ['LOGIN'] })).data.total, null, 'too expensive to count')
})

t.test('the API reads the log in transactions of this area only', async (t) => {
  const seen = (scope: { audit?: true }) =>
    db.read(scope, async (tx) => (await tx.execute('select count(*)::int as n from audit_log')).rows[0]?.['n'])
  t.equal(await seen({}), 0)
  t.ok(((await seen({ audit: true })) as number) > 0)
  t.equal(await seen({}), 0, 'on the same connection')
})
