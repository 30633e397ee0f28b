import type pg from 'pg'
import t from 'tap'
import { searchMembers } from '../../../../api/features/organizations/queries.ts'
import { type Person, startTestApi } from '../../../support/api.ts'
import { eventually } from '../../../support/eventually.ts'
import { insertMany, planOf, vacuum } from '../../../support/explain.ts'
import { waitingIn } from '../../../support/in-turn.ts'
import { aMember, anOrganization, join, type TestOrganization } from '../../../support/organizations.ts'

/** The names that a search reads are copies. Whatever happens at the same time, they are those of the members there are. */
const api = await startTestApi(t)
const { call, database, people, identity } = api
const { admin } = database
const sql = async (text: string, values: unknown[] = []) => (await admin.query(text, values)).rows

/** Transactions of a test. What one of them leaves open ends with the test. */
const begun: pg.PoolClient[] = []
async function begin() {
  const client = await admin.connect()
  begun.push(client)
  await client.query('begin')
  return {
    rename: (who: Person, name: string | null) =>
      client.query('update users set display_name = $2 where id = $1', [who.id, name]),
    join: (who: Person, org: TestOrganization) =>
      client.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [org.id, who.id]),
    leave: (who: Person, org: TestOrganization) =>
      client.query('delete from memberships where org_id = $1 and user_id = $2', [org.id, who.id]),
    lock: (who: Person, org: TestOrganization) =>
      client.query('select from memberships where org_id = $1 and user_id = $2 for update', [org.id, who.id]),
    close: (who: Person) => client.query('select from users where id = $1 for update', [who.id]),
    commit: () => client.query('commit'),
    rollback: () => client.query('rollback'),
  }
}
t.afterEach(async () => {
  for (const client of begun.splice(0)) {
    await client.query('rollback')
    client.release()
  }
})
const someWait = (n = 1) => eventually('it to wait', async () => (await waitingIn(database)) === n)

const copiesOf = async (who: Person) =>
  (await sql('select name from member_names where user_id = $1 order by name', [who.id])).map(({ name }) => name)

/** What the copies must be, from their sources; a row for every difference. */
const wrong = () =>
  sql(`select m.org_id, m.user_id, n.name, searchable(u.display_name) as wanted
    from memberships m join users u on u.id = m.user_id full join member_names n using (org_id, user_id)
    where m.user_id is null or n.user_id is null or n.joined_at <> m.joined_at
      or n.name is distinct from searchable(u.display_name)`)

t.test('a sign-in with another name changes what is found, in every organization', async (t) => {
  const [one, two] = [await anOrganization(api), await anOrganization(api)]
  const ann = await aMember(api, one.id, { name: 'Ann' })
  await join(api, two.id, ann.id)
  const other = await aMember(api, two.id, { name: 'Ann' })
  await join(api, one.id, other.id)
  const found = async (org: TestOrganization, query: string): Promise<string[]> => {
    const { data } = await call(other, 'GET', `/api/organizations/${org.wireId}/members?query=${query}`)
    return data.members.map((member: { user_id: string }) => member.user_id)
  }
  t.strictSame((await found(one, 'ann')).sort(), [ann.id, other.id].sort())
  // The token is newer than what is known.
  await sql(`update users set updated_at = now() - interval '1 hour' where id = $1`, [ann.id])
  ann.token = await identity.token({ sub: ann.id, claims: { name: 'ÉMILIE' } })
  t.match((await call(ann, 'GET', '/api/users/me')).data, { display_name: 'ÉMILIE' })
  t.strictSame(await found(one, 'émi'), [ann.id])
  t.strictSame(await found(two, 'émi'), [ann.id])
  t.strictSame(await found(one, 'ann'), [other.id])
  t.strictSame(await found(two, 'ann'), [other.id])
  t.strictSame(await wrong(), [])
})

t.test('a search finds names of every script in upper case and in lower case', async (t) => {
  const org = await anOrganization(api)
  const names = ['Γιώργος Παπαδόπουλος', 'ΝΙΚΟΣ', 'İbrahim', 'Işık', 'Ayşegül', 'Zoë', 'Юлия', 'Ann']
  const [member] = await Promise.all(names.map((name) => aMember(api, org.id, { name })))
  const found = async (query: string): Promise<string[]> => {
    const path = `/api/organizations/${org.wireId}/members?${new URLSearchParams({ query })}`
    const { data } = await call(member as Person, 'GET', path)
    return data.members.map(({ display_name }: { display_name: string }) => display_name)
  }
  for (const name of names) {
    const spellings = [
      name,
      name.toUpperCase(),
      name.toLowerCase(),
      name.toLocaleUpperCase('tr'),
      name.normalize('NFD'),
    ]
    for (const spelling of spellings) t.strictSame(await found(spelling), [name], spelling)
  }
  t.strictSame(await found('ΓΙΏΡΓΟΣ'), [names[0]], 'where the end of the query lies within the name')
})

t.test('a name that changes while its bearer joins', async (t) => {
  for (const isKept of [true, false]) {
    const org = await anOrganization(api)
    const ann = await aMember(api, (await anOrganization(api)).id, { name: 'Ann' })
    const [renaming, joining] = [await begin(), await begin()]
    await renaming.rename(ann, 'Anna')
    const joined = joining.join(ann, org)
    await someWait()
    await (isKept ? renaming.commit() : renaming.rollback())
    await joined
    await joining.commit()
    const name = isKept ? 'anna' : 'ann'
    t.strictSame(await copiesOf(ann), [name, name], isKept ? 'changed' : 'taken back')
  }
})

t.test('a member who joins while the name changes', async (t) => {
  for (const isKept of [true, false]) {
    const org = await anOrganization(api)
    const ann = await aMember(api, (await anOrganization(api)).id, { name: 'Ann' })
    const [renaming, joining] = [await begin(), await begin()]
    await joining.join(ann, org)
    const renamed = renaming.rename(ann, 'Anna')
    await someWait()
    await (isKept ? joining.commit() : joining.rollback())
    await renamed
    await renaming.commit()
    t.strictSame(await copiesOf(ann), isKept ? ['anna', 'anna'] : ['anna'], isKept ? 'joined' : 'taken back')
  }
})

t.test('of two changes of a name, the later one stays', async (t) => {
  for (const [last, kept] of [
    ['commit', 'annika'],
    ['rollback', 'anna'],
  ] as const) {
    const ann = await aMember(api, (await anOrganization(api)).id, { name: 'Ann' })
    await join(api, (await anOrganization(api)).id, ann.id)
    const [first, second] = [await begin(), await begin()]
    await first.rename(ann, 'Anna')
    const renamed = second.rename(ann, 'Annika')
    await someWait()
    await first.commit()
    await renamed
    await second[last]()
    t.strictSame(await copiesOf(ann), [kept, kept], last)
  }
})

t.test('a member who leaves while the name changes, and comes back', async (t) => {
  const [org, other] = [await anOrganization(api), await anOrganization(api)]
  const ann = await aMember(api, org.id, { name: 'Ann' })
  await join(api, other.id, ann.id)
  const [renaming, leaving] = [await begin(), await begin()]
  await leaving.leave(ann, org)
  const renamed = renaming.rename(ann, 'Anna')
  await someWait()
  await leaving.commit()
  await renamed
  await renaming.commit()
  t.strictSame(await copiesOf(ann), ['anna'], 'the other organization')
  await join(api, org.id, ann.id)
  t.strictSame(await copiesOf(ann), ['anna', 'anna'])
})

t.test('a change of a name waits for no one who holds a membership, and so for no closing of an account', async (t) => {
  const org = await anOrganization(api)
  const ann = await aMember(api, org.id, { name: 'Ann' })
  const [closing, renaming] = [await begin(), await begin()]
  // As an erasure does: the memberships, then the account.
  await closing.lock(ann, org)
  await renaming.rename(ann, 'Anna')
  const locked = closing.close(ann)
  await someWait()
  await renaming.commit()
  await locked
  await closing.leave(ann, org)
  await closing.commit()
  t.strictSame(await copiesOf(ann), [])
})

t.test('many who join, change their names and leave at once leave no wrong copy', async (t) => {
  const orgs = await Promise.all([1, 2, 3].map(() => anOrganization(api)))
  const members = await Promise.all([1, 2, 3, 4].map(() => aMember(api, orgs[0]?.id ?? '', { name: 'Ann' })))
  const again = async (text: (n: number) => string, values: unknown[]) => {
    for (let n = 0; n < 15; n++) await admin.query(text(n), values)
  }
  await Promise.all(
    members.flatMap(({ id }) => [
      again((n) => `update users set display_name = 'Name ${n}' where id = $1`, [id]),
      ...orgs.map((org) =>
        again(
          (n) =>
            n % 3 === 2
              ? 'delete from memberships where org_id = $1 and user_id = $2'
              : `insert into memberships (org_id, user_id, role) values ($1, $2, 'member')
                  on conflict (org_id, user_id) do update set role = 'admin'`,
          [org.id, id],
        ),
      ),
    ]),
  )
  t.strictSame(await wrong(), [])
})

t.test('who has no name is a member who is never found, until a name comes', async (t) => {
  const org = await anOrganization(api)
  const ben = await aMember(api, org.id)
  t.strictSame(await copiesOf(ben), [null])
  const renaming = await begin()
  await renaming.rename(ben, '%')
  await renaming.commit()
  t.strictSame(await copiesOf(ben), ['%'])
  const { data } = await call(ben, 'GET', `/api/organizations/${org.wireId}/members?query=%25`)
  t.equal(data.total_count, 1)
})

t.test('no program writes them, and the API sees those of one organization', async (t) => {
  const org = await anOrganization(api)
  await aMember(api, org.id, { name: 'Ann' })
  const count = async (scope: { org?: string; user?: string }) =>
    (await database.db.read(scope, (tx) => tx.execute('select from member_names'))).rows.length
  t.equal(await count({ org: org.id }), 1)
  t.equal(await count({}), 0)
  t.equal(await count({ user: people.owner.id }), 0)
  for (const statement of [
    `update member_names set name = 'x'`,
    'delete from member_names',
    `insert into member_names (org_id, user_id, joined_at) select org_id, user_id, joined_at from memberships`,
  ]) {
    for (const role of [database.db, database.worker]) {
      const attempt = role.inTransaction({ org: org.id }, (tx) => tx.execute(statement))
      await t.rejects(attempt, { cause: { code: '42501' } }, statement)
    }
  }
})

t.test('a search reads the names of the organization from one index, and the rows of the page alone', async (t) => {
  const [org, large] = [await anOrganization(api), await anOrganization(api)]
  for (const [id, n] of [
    [org.id, 300],
    [large.id, 10_000],
  ] as const) {
    await insertMany(
      database,
      `with made as (insert into users (id, issuer, subject, display_name)
          select gen_random_uuid(), 'many', $1::text || n, 'Many ' || n from generate_series(1, $2::int) n returning id, display_name),
        joined as (insert into memberships (org_id, user_id, role) select $1::text::uuid, id, 'member' from made)
        insert into member_names (org_id, user_id, joined_at, name)
          select $1::text::uuid, id, now(), searchable(display_name) from made`,
      [id, n],
    )
  }
  await vacuum(database, 'users', 'memberships', 'member_names')
  const plan = await planOf(database, org.id, (tx) =>
    searchMembers(tx, { orgId: org.id, query: 'many', after: undefined, limit: 20 }),
  )
  const read = (relation: string) =>
    plan
      .filter((node) => node['Relation Name'] === relation)
      .map((node) => node['Actual Loops'] * (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)))
      .reduce((a, b) => a + b, 0)
  t.match(
    plan.filter((node) => node['Relation Name'] === 'member_names'),
    [{ 'Index Name': 'member_names_listed' }],
  )
  t.equal(read('member_names'), 300)
  t.equal(read('users'), 20)
  t.equal(read('memberships'), 20)
})
