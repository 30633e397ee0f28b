import t from 'tap'
import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { fakeMp4, formOf, startTestApi } from '../../../support/api.ts'

const api = await startTestApi(t, { settings: { USER_QUOTA_BYTES: '1000' } })
const { people, call, org, otherOrg, database } = api
const { admin } = database
const member = { role: 'member', name: 'One', org_id: org }

t.test('shows who is signed in, their organizations in the order of joining, and their storage', async (t) => {
  await admin.query(`update users set display_name = 'Ann', email = 'ann@example.org' where id = $1`, [people.owner.id])
  await admin.query(
    `insert into memberships (org_id, user_id, role, joined_at)
     select id, $1, 'member', '2020-02-03T04:05:06.789Z' from organizations where name = 'Two'`,
    [people.owner.id],
  )
  const { status, data, headers } = await call(people.owner, 'GET', '/api/users/me')
  t.equal(status, 200)
  t.match(data, {
    user_id: people.owner.wireId,
    display_name: 'Ann',
    email: 'ann@example.org',
    organizations: [
      { org_id: otherOrg, name: 'Two', role: 'member', joined_at: '2020-02-03T04:05:06.789Z' },
      { org_id: org, name: 'One', role: 'owner' },
    ],
    storage: { used_bytes: 0, quota_bytes: 1000 },
  })
  t.match(headers.get('cache-control'), /private|no-store/)
})

t.test('a user who has just signed in for the first time belongs nowhere, and nothing is made for them', async (t) => {
  const id = newUuid()
  const token = await api.identity.token({ sub: id })
  const tables = ['organizations', 'memberships', 'media', 'uploads', 'user_storage', 'outbox', 'audit_log']
  const count = async () =>
    Promise.all(tables.map(async (name) => (await admin.query(`select count(*)::int as n from ${name}`)).rows[0].n))
  const before = await count()
  const { status, data } = await call({ id, wireId: formatId('user', id), token }, 'GET', '/api/users/me')
  t.equal(status, 200)
  t.match(data, { user_id: formatId('user', id), organizations: [], storage: { used_bytes: 0 } })
  t.strictSame(await count(), before)
})

t.test('other people’s organizations, roles and bytes stay theirs', async (t) => {
  await call(people.another, 'POST', `/api/media/${org}/single`, { form: formOf(fakeMp4(400)) })
  const { data } = await call(people.member, 'GET', '/api/users/me')
  t.match(data.organizations, [member])
  t.equal(data.organizations.length, 1)
  t.equal(data.storage.used_bytes, 0)
  const theirs = await call(people.another, 'GET', '/api/users/me')
  t.equal(theirs.data.storage.used_bytes, 400)
  t.match((await call(people.platformAdmin, 'GET', '/api/users/me')).data.organizations, [])
})

t.test('an organization that was left is not shown any more', async (t) => {
  await admin.query('delete from memberships where user_id = $1', [people.admin.id])
  t.strictSame((await call(people.admin, 'GET', '/api/users/me')).data.organizations, [])
})

t.test('without a token it is 401', async (t) => {
  t.equal((await call(undefined, 'GET', '/api/users/me')).status, 401)
})

t.test('what has not changed is 304', async (t) => {
  const first = await call(people.member, 'GET', '/api/users/me')
  const etag = first.headers.get('etag') ?? ''
  t.ok(etag)
  const second = await call(people.member, 'GET', '/api/users/me', { headers: { 'if-none-match': etag } })
  t.equal(second.status, 304)
})
