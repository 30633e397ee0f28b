import fc from 'fast-check'
import t from 'tap'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { type Person, startTestApi } from '../../../support/api.ts'
import { aMember, anOrganization, join, type TestOrganization } from '../../../support/organizations.ts'

const api = await startTestApi(t)
const { call, people, database } = api

const ask = (who: Person, org: TestOrganization, query: Record<string, string> = {}) =>
  call(who, 'GET', `/api/organizations/${org.wireId}/members?${new URLSearchParams(query)}`)

const NAMES = [
  'Ann',
  'ANNA',
  'Joann',
  '100% Ben',
  'a_b',
  'a\\b',
  'Zoe\u0308',
  'ÉMILE',
  "O'Brien",
  '李小龍',
  'ΣΟΦΙΑ',
  '👩‍👧 Mum',
]
// Before the first test: once all tests so far are over, the end of the file takes the database with it.
const named = await anOrganization(api)
const members = await Promise.all(NAMES.map((name) => aMember(api, named.id, { name })))
const nameless = await aMember(api, named.id)
const other = await anOrganization(api)
for (const name of NAMES) await aMember(api, other.id, { name })

t.test('shows the members, the latest first, with bare ids and the date of joining', async (t) => {
  const org = await anOrganization(api, 'Class of 1994')
  const ann = await aMember(api, org.id, { role: 'owner', name: 'Ann', at: '2020-12-31T23:59:59.999999Z' })
  // Another day at the offset, the same one in UTC.
  const ben = await aMember(api, org.id, { at: '2021-01-02T00:30:00+09:00' })
  const { status, data } = await ask(ben, org)
  t.equal(status, 200)
  t.strictSame(data, {
    org_id: org.id,
    org_name: 'Class of 1994',
    members: [
      { user_id: ben.id, display_name: null, joined_at: '2021-01-01', role: 'member', can: ['member.remove'] },
      { user_id: ann.id, display_name: 'Ann', joined_at: '2020-12-31', role: 'owner', can: [] },
    ],
    total_count: 2,
    next_cursor: null,
    has_more: false,
  })
  const bare = await call(ben, 'GET', `/api/organizations/${org.id}/members`)
  t.strictSame(bare.data, data, 'an organization may be named by its bare id')
})

t.test('members who joined in the same microsecond are on one page each', async (t) => {
  const org = await anOrganization(api)
  const all: Person[] = []
  for (let n = 0; n < 5; n++) all.push(await aMember(api, org.id, { at: '2022-03-04T05:06:07.123456Z' }))
  const seen: string[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const { data } = await ask(all[0] as Person, org, { limit: '2', ...(cursor && { cursor }) })
    t.equal(data.total_count, 5)
    seen.push(...data.members.map((member: { user_id: string }) => member.user_id))
    cursor = data.next_cursor
  }
  t.strictSame(
    seen,
    all
      .map(({ id }) => id)
      .sort()
      .reverse(),
  )
})

t.test('nobody else sees them, nor what their search would find', async (t) => {
  const org = await anOrganization(api)
  await aMember(api, org.id, { name: 'Ann' })
  for (const who of [people.owner, people.stranger, people.platformAdmin]) {
    for (const query of [{}, { query: 'Ann' }, { joined_year: '2026' }]) {
      t.equal((await ask(who, org, query as Record<string, string>)).status, 404)
    }
  }
  const ghost = { id: newUuid(), wireId: newUuid(), name: '' }
  t.equal((await ask(people.owner, ghost)).status, 404)
})

const SEARCHES: [query: string, finds: string[]][] = [
  ['ann', ['Ann', 'ANNA', 'Joann']],
  ['ANN', ['Ann', 'ANNA', 'Joann']],
  [' ann ', ['Ann', 'ANNA', 'Joann']],
  ['n', ['Ann', 'ANNA', 'Joann', '100% Ben', "O'Brien"]],
  ['%', ['100% Ben']],
  ['0%', ['100% Ben']],
  ['a%n', []],
  ['_', ['a_b']],
  ['A_B', ['a_b']],
  ['\\', ['a\\b']],
  ['a\\b', ['a\\b']],
  ['\\%', []],
  ['zoë', ['Zoe\u0308']],
  ['ZOE\u0308', ['Zoe\u0308']],
  ['émile', ['ÉMILE']],
  ['e\u0301mile', ['ÉMILE']],
  ["'", ["O'Brien"]],
  ["' or 1=1 --", []],
  ['小', ['李小龍']],
  ['οφι', ['ΣΟΦΙΑ']],
  ['👩‍👧', ['👩‍👧 Mum']],
  ['Zebra', []],
  ['x'.repeat(100), []],
]
async function find(query: string) {
  const { status, data } = await ask(nameless, named, { query })
  if (status !== 200) throw new Error(`a search was answered ${status}`)
  const names: string[] = data.members.map((member: { display_name: string }) => member.display_name)
  return { names: names.sort(), total: data.total_count }
}

t.test('a search is for a part of the name', async (t) => {
  for (const [query, finds] of SEARCHES) {
    t.strictSame(await find(query), { names: [...finds].sort(), total: finds.length }, JSON.stringify(query))
  }
})

t.test('any search finds exactly the names that contain it', async (t) => {
  const piece = fc.constantFrom('a', 'A', 'n', 'b', '%', '_', '\\', '\\\\', 'é', 'E\u0301', 'ë', '0', "'", '龍')
  const fold = (text: string) => text.normalize('NFC').toLowerCase()
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 4 }), async (pieces) => {
      const query = pieces.join('')
      const expected = NAMES.filter((name) => fold(name).includes(fold(query))).sort()
      t.strictSame(await find(query), { names: expected, total: expected.length }, JSON.stringify(query))
    }),
    { numRuns: 60 },
  )
})

t.test('a search has 1 to 100 characters, and a year is one', async (t) => {
  const wrong: Record<string, string>[] = [
    { query: '' },
    { query: '  ' },
    { query: 'x'.repeat(101) },
    { query: 'a\u0000' },
    { query: 'a\u0007' },
    { joined_year: '' },
    { joined_year: '1899' },
    { joined_year: '2201' },
    { joined_year: '-2020' },
    { joined_year: '2020.5' },
    { joined_year: '2e3' },
    { joined_year: 'MMXX' },
    { joined_year: '99999999999999999999' },
  ]
  for (const query of wrong) {
    const { status, code, body } = await ask(nameless, named, query)
    t.strictSame([status, code], [400, 'VALIDATION_ERROR'], JSON.stringify(query))
    t.equal(body.error.details[0].field, `query.${Object.keys(query)[0]}`)
  }
  for (const joined_year of ['1900', '2200']) t.equal((await ask(nameless, named, { joined_year })).status, 200)
})

t.test('a year of joining begins and ends at midnight UTC, whatever the time zone of the database', async (t) => {
  const org = await anOrganization(api)
  const at = async (name: string, time: string) => aMember(api, org.id, { name, at: time })
  const before = await at('before', '2019-12-31T23:59:59.999999Z')
  await at('first', '2020-01-01T00:00:00Z')
  await at('last', '2020-12-31T23:59:59.999999Z')
  await at('after', '2021-01-01T00:00:00Z')
  const inYear = async (query: Record<string, string>) => {
    const { data } = await ask(before, org, query)
    return [data.members.map((m: { display_name: string }) => m.display_name), data.total_count]
  }
  t.strictSame(await inYear({ joined_year: '2019' }), [['before'], 1])
  t.strictSame(await inYear({ joined_year: '2020' }), [['last', 'first'], 2])
  t.strictSame(await inYear({ joined_year: '2020', query: 'FIR' }), [['first'], 1])
  t.strictSame(await inYear({ joined_year: '2018' }), [[], 0])
})

t.test('a cursor belongs to its filters, and counts are of all pages', async (t) => {
  const first = await ask(nameless, named, { query: 'n', limit: '2' })
  t.match(first.data, { total_count: 5, has_more: true })
  const { next_cursor: cursor } = first.data
  const rest = await ask(nameless, named, { query: 'n', cursor })
  t.match(rest.data, { total_count: 5, has_more: false })
  const both = [...first.data.members, ...rest.data.members].map((m) => m.display_name)
  t.strictSame(both.sort(), ['Ann', 'ANNA', 'Joann', '100% Ben', "O'Brien"].sort())
  for (const query of [{ query: 'N' }, { query: 'a' }, {}, { query: 'n', joined_year: '2026' }]) {
    t.equal((await ask(nameless, named, { ...(query as Record<string, string>), cursor })).code, 'INVALID_CURSOR')
  }
  // A member who leaves while another user pages is missing from the list, and the others keep their places.
  const gone = rest.data.members[0].user_id
  await database.admin.query('delete from memberships where org_id = $1 and user_id = $2', [named.id, gone])
  const again = await ask(nameless, named, { query: 'n', cursor })
  t.strictSame(again.data.members, rest.data.members.slice(1))
  await join(api, named.id, gone)
  t.equal(members.length, NAMES.length)
})
