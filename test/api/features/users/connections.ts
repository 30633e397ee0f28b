import t from 'tap'
import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { aPerson, type Person, startTestApi } from '../../../support/api.ts'
import { aMember, anOrganization, join, type TestOrganization } from '../../../support/organizations.ts'

const api = await startTestApi(t)
const { call, database } = api

const connections = (who: Person, of: string) => call(who, 'GET', `/api/users/${of}/connections`)
const connected = (who: Person, query: Record<string, string> = {}) =>
  call(who, 'GET', `/api/users/me/connected-members?${new URLSearchParams(query)}`)
const shown = ({ id, name }: TestOrganization) => ({ org_id: id, org_name: name })

t.test('shows the organizations that two users share, in the order in which the caller joined', async (t) => {
  const [choir, club, foreign] = [
    await anOrganization(api, 'Choir'),
    await anOrganization(api, 'Club'),
    await anOrganization(api, 'Secret society'),
  ]
  const ann = await aMember(api, club.id, { name: 'Ann', at: '2020-01-01T00:00:00Z' })
  const ben = await aMember(api, choir.id, { name: 'Ben', at: '2000-01-01T00:00:00Z' })
  await join(api, choir.id, ann.id, 'member', '2021-01-01T00:00:00Z')
  await join(api, club.id, ben.id)
  await join(api, foreign.id, ben.id)
  const expected = { user_id: ben.id, display_name: 'Ben', connected_via: [shown(club), shown(choir)] }
  for (const id of [ben.wireId, ben.id, ben.id.toUpperCase()]) {
    t.match(await connections(ann, id), { status: 200, data: expected })
  }
  t.strictSame((await connections(ann, ben.id)).data, expected, 'and nothing more')
  t.strictSame((await connected(ann)).data, { members: [expected], total_count: 1, next_cursor: null, has_more: false })

  await database.admin.query('delete from memberships where org_id = $1 and user_id = $2', [club.id, ann.id])
  t.strictSame((await connections(ann, ben.id)).data.connected_via, [shown(choir)], 'as of the next request')
  await database.admin.query('delete from memberships where user_id = $1', [ann.id])
  t.equal((await connections(ann, ben.id)).status, 404)
  t.equal((await connections(ben, ann.id)).status, 404)
  t.match((await connected(ann)).data, { members: [], total_count: 0 })
})

t.test('`me` is the caller, with all their organizations, even with none', async (t) => {
  const loner = await aPerson(api)
  t.match(await connections(loner, 'me'), {
    status: 200,
    data: { user_id: loner.id, display_name: null, connected_via: [] },
  })
  t.match((await connected(loner)).data, { members: [], total_count: 0, has_more: false })
  const org = await anOrganization(api, 'Only')
  await join(api, org.id, loner.id)
  for (const me of ['me', loner.id, loner.wireId]) {
    t.strictSame((await connections(loner, me)).data.connected_via, [shown(org)])
  }
  t.match((await connected(loner)).data, { members: [], total_count: 0 }, 'nobody is connected with themselves')
})

t.test('a user without a common organization is there no more than one that does not exist', async (t) => {
  const org = await anOrganization(api)
  const ann = await aMember(api, org.id)
  const stranger = await aMember(api, (await anOrganization(api)).id)
  const answers = await Promise.all(
    [stranger.id, stranger.wireId, newUuid(), 'ME', 'nonsense', formatId('organization', org.id)].map((id) =>
      connections(ann, id),
    ),
  )
  for (const { status, body } of answers) {
    t.equal(status, 404)
    t.strictSame({ ...body.error, request_id: '' }, { ...answers[0]?.body.error, request_id: '' })
  }
})

t.test('a cursor of one caller is none for another', async (t) => {
  const org = await anOrganization(api)
  const [ann, ben] = [await aMember(api, org.id), await aMember(api, org.id)]
  await aMember(api, org.id)
  const { next_cursor: cursor } = (await connected(ann, { limit: '1' })).data
  t.equal((await connected(ann, { cursor })).status, 200)
  t.equal((await connected(ben, { cursor })).code, 'INVALID_CURSOR')
})
