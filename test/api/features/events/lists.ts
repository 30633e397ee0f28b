import fc from 'fast-check'
import t from 'tap'
import { type ListEventsOptions, listEvents } from '../../../../api/features/events/queries.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { type Person, startTestApi } from '../../../support/api.ts'
import { insertMany, planOf, vacuum } from '../../../support/explain.ts'

const api = await startTestApi(t)
const { people, call, database } = api
const { owner, admin, member, another } = people
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)

async function anOrganization(): Promise<Uuid> {
  const org = newUuid()
  await sql(`insert into organizations (id, name) values ($1, 'A')`, [org])
  const roles: [Person, string][] = [
    [owner, 'owner'],
    [admin, 'admin'],
    [member, 'member'],
    [another, 'member'],
  ]
  for (const [{ id }, role] of roles)
    await sql('insert into memberships (org_id, user_id, role) values ($1, $2, $3)', [org, id, role])
  return org
}

const STATUSES = ['draft', 'active', 'archived'] as const
const OWNERS = { owner, admin, member, another }
interface Made {
  by: keyof typeof OWNERS
  status: (typeof STATUSES)[number]
  /** Few moments, so that many events share one. */
  minute: number
}
const anEvent = fc.record<Made>({
  by: fc.constantFrom('owner', 'admin', 'member', 'another'),
  status: fc.constantFrom(...STATUSES),
  minute: fc.integer({ min: 0, max: 3 }),
})

/** Whether a list shows an event: what the specification says, beside what the queries do. */
const isListed = (who: Person, filter: string | undefined, { by, status }: Made) =>
  (filter === undefined || filter === status) &&
  (status !== 'draft' || who === OWNERS[by] || who === owner || who === admin)

async function pagesOf(who: Person, org: Uuid, query: Record<string, string>): Promise<string[]> {
  const ids: string[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const search = new URLSearchParams({ ...query, ...(cursor !== '' && { cursor }) })
    const { status, data } = await call(who, 'GET', `/api/orgs/${org}/events?${search}`)
    t.equal(status, 200)
    ids.push(...data.events.map((event: { event_id: string }) => event.event_id))
    cursor = data.next_cursor
  }
  return ids
}

t.test('all pages together are what the caller may see, newest first, each once', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.array(anEvent, { maxLength: 14 }), fc.integer({ min: 1, max: 6 }), async (given, limit) => {
      const org = await anOrganization()
      const made = given.map((event) => ({ ...event, id: newUuid() }))
      for (const { id, by, status, minute } of made) {
        await sql(
          `insert into events (id, org_id, owner_id, title, start_at, status, created_at)
           values ($1, $2, $3, 'A', now(), $4, '2027-01-01T00:00:00Z'::timestamptz + make_interval(mins => $5))`,
          [id, org, OWNERS[by].id, status, minute],
        )
      }
      const newestFirst = made.toSorted((a, b) => b.minute - a.minute || (a.id < b.id ? 1 : -1))
      for (const who of [owner, admin, member, another]) {
        for (const filter of [undefined, ...STATUSES]) {
          const expected = newestFirst.filter((event) => isListed(who, filter, event))
          const pages = await pagesOf(who, org, { limit: String(limit), ...(filter && { status: filter }) })
          t.strictSame(
            pages,
            expected.map(({ id }) => formatId('event', id)),
          )
        }
      }
    }),
    { numRuns: 12 },
  )
})

t.test('a filter that is no status is refused', async (t) => {
  const org = await anOrganization()
  for (const status of ['', 'Draft', 'drafts', 'deleted']) {
    const { code, body } = await call(member, 'GET', `/api/orgs/${org}/events?status=${status}`)
    t.strictSame([code, body.error.details[0].field], ['VALIDATION_ERROR', 'query.status'])
  }
})

t.test('participants come in pages, the latest invited first, with their number', async (t) => {
  const org = await anOrganization()
  const { data } = await call(member, 'POST', `/api/orgs/${org}/events`, {
    json: { title: 'A', start_at: '2027-01-01T00:00:00Z' },
  })
  const path = `/api/orgs/${org}/events/${data.event_id}/participants`
  await sql(
    `with made as (insert into users (id, issuer, subject, display_name)
       select gen_random_uuid(), 'i', gen_random_uuid()::text, 'User ' || n from generate_series(1, 120) n returning id)
     insert into event_participants (event_id, user_id, org_id, status)
       select $1, id, $2, 'invited' from made`,
    [(await sql('select id from events where org_id = $1', [org]))[0]?.id, org],
  )
  const first = await call(member, 'GET', path)
  t.strictSame([first.data.participants.length, first.data.total, first.data.has_more], [100, 121, true])
  const second = await call(member, 'GET', `${path}?cursor=${first.data.next_cursor}`)
  t.strictSame([second.data.participants.length, second.data.total, second.data.has_more], [21, 121, false])
  const all = [...first.data.participants, ...second.data.participants]
  t.equal(new Set(all.map(({ user_id }) => user_id)).size, 121)
  t.equal(all.at(-1).user_id, member.wireId, 'the owner was the first')
  const whole = await call(member, 'GET', `${path}?limit=500`)
  t.strictSame(whole.data.participants, all)
})

const LIMIT = 21
const BY_STATUS = 'events_of_org_by_status'

t.test('a page reads no more than one page of each state, whatever drafts of others lie between', async (t) => {
  const org = await anOrganization()
  // Newest are the drafts of others; one in 250 is the caller's.
  await insertMany(
    database,
    `insert into events (id, org_id, owner_id, title, start_at, status, created_at)
     select gen_random_uuid(), $1, case when n % 250 = 7 then $2::uuid else $3::uuid end, 'A', now(),
       case when n < 3750 then 'draft' when n % 125 = 1 then 'archived' else 'active' end, now() - make_interval(secs => n)
     from generate_series(1, 5000) n`,
    [org, member.id, another.id],
  )
  await insertMany(
    database,
    `insert into event_participants (event_id, user_id, org_id, status, joined_at)
     select id, owner_id, org_id, 'accepted', now() from events where org_id = $1`,
    [org],
  )
  // The caller is invited to all of them, and so is another user.
  await insertMany(
    database,
    `insert into invitations (id, org_id, event_id, slug, user_id, token_expires_at, invited_by)
     select gen_random_uuid(), $1, id, lpad(translate(upper(to_hex(row_number() over ())), '01', 'XY'), 8, 'Z'), who,
       now() + interval '1 hour', owner_id
     from events, unnest(array[$2, $3]::uuid[]) who where org_id = $1`,
    [org, member.id, another.id],
  )
  // Of a small table Postgres would rather read everything. Each user has two memberships, or any index on them would do.
  await insertMany(
    database,
    `with made as (insert into users (id, issuer, subject) select gen_random_uuid(), 'i', gen_random_uuid()::text
       from generate_series(1, 2000) n returning id)
     insert into memberships (org_id, user_id, role) select org, id, 'member' from made, unnest($1::uuid[]) org`,
    [[org, await anOrganization()]],
  )
  await vacuum(database, 'events', 'event_participants', 'invitations', 'users', 'memberships')
  const [after] = await sql(
    `select id, to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at from events
     where org_id = $1 order by created_at desc, id desc offset 2250 limit 1`,
    [org],
  )
  const pages: [status: ListEventsOptions['status'], allDrafts: boolean, indexes: string[]][] = [
    [undefined, true, [BY_STATUS, BY_STATUS, BY_STATUS]],
    [undefined, false, ['events_drafts_of_owner', BY_STATUS, BY_STATUS]],
    ['draft', true, [BY_STATUS]],
    ['draft', false, ['events_drafts_of_owner']],
    ['active', false, [BY_STATUS]],
    ['archived', false, [BY_STATUS]],
  ]
  for (const [status, allDrafts, indexes] of pages) {
    for (const from of [undefined, after as { at: string; id: Uuid }]) {
      const asked = { orgId: org, callerId: member.id, status, allDrafts, after: from, limit: LIMIT }
      const nodes = await planOf(database, org, (tx) => listEvents(tx, asked))
      const name = `${status ?? 'all'}, ${allDrafts ? 'with' : 'without'} all drafts, ${from ? 'next' : 'first'}`
      const reads = nodes.filter((node) => node['Relation Name'] === 'events')
      t.strictSame(
        reads.map((node) => node['Index Name']),
        indexes,
        name,
      )
      t.ok(
        nodes.every(
          (node) => !node['Relation Name'] || (node['Actual Rows'] <= LIMIT && !node['Rows Removed by Filter']),
        ),
        name,
      )
      t.ok(
        nodes.every((node) => node['Node Type'] !== 'Seq Scan'),
        `${name}: every look-up is by an index`,
      )
      const counts = nodes.filter((node) => node['Index Name'] === 'event_participants_accepted')
      t.strictSame([...new Set(counts.map((node) => node['Node Type']))], ['Index Only Scan'], name)
    }
  }
})
