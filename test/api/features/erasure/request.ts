import { once } from 'node:events'
import { createServer } from 'node:http'
import { Webhook } from 'standardwebhooks'
import t from 'tap'
import { formatId } from '../../../../lib/contract/ids.ts'
import { aPerson, type Person, startTestApi, uuidOf } from '../../../support/api.ts'
import { testCluster } from '../../../support/conversion-world.ts'
import { eraseDeps, eraseWhole } from '../../../support/erasure.ts'
import { matchWhole } from '../../../support/match-whole.ts'

/** Who may ask for an erasure, what the request does at once, and how it is followed. */
const api = await startTestApi(t)
const { people, database, org, identity } = api
const { platformAdmin, stranger } = people
const sql = async (text: string, values: unknown[] = []) => (await database.admin.query(text, values)).rows
const erase = (who: Person | undefined, json: object, headers: Record<string, string> = {}) =>
  api.call(who, 'POST', '/gdpr/anonymize', { json, headers })
const follow = (id: string, token?: string, who?: Person) =>
  api.call(who, 'GET', `/gdpr/anonymize/${id}`, { headers: token ? { 'x-anonymization-token': token } : {} })

async function aMember(role = 'member', orgId = uuidOf('organization', org)): Promise<Person> {
  const person = await aPerson(api)
  await sql('insert into memberships (org_id, user_id, role) values ($1, $2, $3)', [orgId, person.id, role])
  return person
}

t.test('bad input is refused, and changes nothing', async (t) => {
  const person = await aMember()
  for (const [json, status] of [
    [{}, 400],
    [{ confirm: false }, 400],
    [{ confirm: 'true' }, 400],
    [{ confirm: true, user_id: 'no one' }, 400],
    [{ confirm: true, reason: 'x'.repeat(501) }, 400],
  ] as const) {
    t.equal((await erase(person, json)).status, status, JSON.stringify(json))
  }
  t.equal((await erase(undefined, { confirm: true })).status, 401)
  t.equal((await api.call(person, 'GET', '/api/users/me')).status, 200)
  t.strictSame(await sql('select from erasures'), [])
})

t.test('another account is for platform administrators', async (t) => {
  const victim = await aMember()
  for (const who of [people.owner, people.member, stranger]) {
    const { status, code } = await erase(who, { confirm: true, user_id: victim.wireId })
    t.match({ status, code }, { status: 404, code: 'NOT_FOUND' })
  }
  const denied = await sql(
    `select actor_id from audit_log where action = 'ACCESS_DENIED' and details ->> 'permission' = $1`,
    ['account.erase_other'],
  )
  t.equal(denied.length, 3)
  t.equal((await api.call(victim, 'GET', '/api/users/me')).status, 200)
  const unknown = formatId('user', '01932c07-209c-7c3e-8a5a-3f1d2b4c5d6e')
  const none = await erase(platformAdmin, { confirm: true, user_id: unknown })
  matchWhole(t, none, { status: 404, body: { error: { details: [{ field: 'body.user_id' }] } } })
})

t.test('a platform administrator says whom, also for their own account', async (t) => {
  const person = await aMember()
  const admin = { ...person, token: await identity.token({ sub: person.id, roles: ['ROLE_ADMIN'] }) }
  for (const json of [{ confirm: true }, { confirm: true, user_id: null, reason: 'asked by letter' }]) {
    const refused = await erase(admin, json)
    matchWhole(t, refused, { status: 400, body: { error: { details: [{ field: 'body.user_id' }] } } })
  }
  t.equal((await api.call(admin, 'GET', '/api/users/me')).status, 200)
  t.equal((await erase(admin, { confirm: true, user_id: person.wireId })).status, 201)
})

t.test('the last owner of an organization hands it over first', async (t) => {
  const refused = await erase(stranger, { confirm: true })
  t.equal(refused.status, 201, 'an organization without any other member holds no one back')

  const [orgId] = (
    await sql(`insert into organizations (id, name) values (gen_random_uuid(), 'Choir') returning id`)
  ).map(({ id }) => id)
  const [last, other] = [await aMember('owner', orgId), await aMember('member', orgId)]
  const answer = await erase(last, { confirm: true })
  t.match(answer, { status: 409, code: 'CONFLICT' })
  matchWhole(t, answer.body.error.details, [
    { field: 'body.user_id', org_id: formatId('organization', orgId), org_name: 'Choir' },
  ])
  t.equal((await api.call(last, 'GET', '/api/users/me')).status, 200, 'nothing was closed')
  await sql(`update memberships set role = 'owner' where user_id = $1`, [other.id])
  t.equal((await erase(last, { confirm: true })).status, 201)
})

t.test('of two owners who leave at once one stays', async (t) => {
  const [{ id: orgId }] = (await sql(
    `insert into organizations (id, name) values (gen_random_uuid(), 'Two') returning id`,
  )) as [{ id: string }]
  const owners = [await aMember('owner', orgId), await aMember('owner', orgId)]
  await aMember('member', orgId)
  const answers = await Promise.all(owners.map((one) => erase(one, { confirm: true })))
  t.strictSame(answers.map(({ status }) => status).sort(), [201, 409])
})

t.test('from the answer on the account is closed, on every connection and with every token', async (t) => {
  const person = await aMember()
  // The notification that the sign-ins have ended is lost.
  await sql(`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'keepsake_api listen'`)
  const { status, data } = await erase(person, { confirm: true, reason: 'mine' })
  t.equal(status, 201)
  t.match(data, {
    status: 'processing',
    user_id: person.wireId,
    anonymization_id: /^gdp_/,
    follow_token: /^[\w-]{43}$/,
  })
  t.equal((await api.call(person, 'GET', '/api/users/me')).status, 401)
  const later = {
    ...person,
    token: await identity.token({ sub: person.id, claims: { auth_time: Date.now() / 1000 + 20 } }),
  }
  t.match(await api.call(later, 'GET', '/api/users/me'), { status: 401 })
  t.strictSame(await sql('select from memberships where user_id = $1', [person.id]), [])
  const [audited] = await sql(
    `select actor_id, details from audit_log where action = 'GDPR_ANONYMIZE' and resource_id = $1`,
    [person.id],
  )
  t.match(audited, { actor_id: person.id, details: { operation: 'request', anonymization_id: data.anonymization_id } })

  // The token of the answer follows it; nothing else does.
  t.match((await follow(data.anonymization_id, data.follow_token)).data, { status: 'processing', reason: null })
  for (const token of [undefined, 'x', `${data.follow_token}x`]) {
    t.equal((await follow(data.anonymization_id, token)).status, 404)
  }
  t.equal((await follow(data.anonymization_id, undefined, people.owner)).status, 404)
  t.equal((await follow(data.anonymization_id, undefined, platformAdmin)).status, 200)
  t.equal((await follow('gdp_01jaaaaaaaaaaaaaaaaaaaaaaa', data.follow_token)).status, 404)
})

t.test('a repeat, and two requests at once, are one erasure', async (t) => {
  const person = await aMember()
  const json = { confirm: true, user_id: person.wireId, reason: 'asked by letter' }
  const answers = await Promise.all([1, 2, 3, 4].map(() => erase(platformAdmin, json)))
  t.strictSame(answers.map(({ status }) => status).sort(), [200, 200, 200, 201])
  t.equal(new Set(answers.map(({ data }) => data.anonymization_id)).size, 1)
  t.equal(new Set(answers.map(({ data }) => data.follow_token)).size, 1)
  t.equal(
    (await sql(`select from audit_log where action = 'GDPR_ANONYMIZE' and resource_id = $1`, [person.id])).length,
    1,
  )
  const keyed = { 'idempotency-key': 'again' }
  const [first, second] = [await erase(platformAdmin, json, keyed), await erase(platformAdmin, json, keyed)]
  t.strictSame(second.data, first.data)
  t.match((await follow(first.data.anonymization_id, undefined, platformAdmin)).data, { reason: 'asked by letter' })
})

t.test('an account whose answer was lost repeats its own request, and nothing else', async (t) => {
  const person = await aMember()
  const key = { 'idempotency-key': 'lost' }
  const first = await erase(person, { confirm: true }, key)
  t.equal(first.status, 201)
  const keys = () => sql('select * from idempotency_keys where user_id = $1', [person.id])
  const before = await keys()
  for (const [json, headers] of [
    [{ confirm: true }, key],
    [{ confirm: true, user_id: person.wireId }, { 'idempotency-key': 'another' }],
    [{ confirm: true, reason: 'again' }, {}],
  ] as const) {
    const { status, data } = await erase(person, json, headers)
    t.strictSame([status, data], [200, first.data], JSON.stringify(json))
  }
  t.strictSame(await keys(), before, 'nothing more is stored about the person')
  t.equal((await erase(person, { confirm: false })).status, 400)

  const platformAdminToo = { ...person, token: await identity.token({ sub: person.id, roles: ['ROLE_ADMIN'] }) }
  t.equal((await erase(platformAdminToo, { confirm: true })).status, 200)
  const victim = await aMember()
  for (const who of [person, platformAdminToo]) {
    t.match(await erase(who, { confirm: true, user_id: victim.wireId }), { status: 401, code: 'UNAUTHORIZED' })
    t.equal((await follow(first.data.anonymization_id, undefined, who)).status, 401)
    t.equal((await api.call(who, 'GET', '/api/users/me')).status, 401)
  }
  t.equal((await api.call(victim, 'GET', '/api/users/me')).status, 200)

  await eraseWhole(eraseDeps(api, testCluster(t)), uuidOf('anonymization', first.data.anonymization_id))
  t.match((await erase(person, { confirm: true })).data, { ...first.data, status: 'completed' })
})

t.test('a phone that was signed out before its account was erased gets no answer', async (t) => {
  const { id, ...rest } = await aMember()
  const signIn = async (sid: string) => ({ id, ...rest, token: await identity.token({ sub: id, claims: { sid } }) })
  const [own, stolen] = [await signIn('own'), await signIn('stolen')]
  for (const phone of [own, stolen]) t.equal((await api.call(phone, 'GET', '/api/users/me')).status, 200)
  const { sessions } = (await api.call(stolen, 'GET', '/api/auth/sessions')).data
  const { session_id } = sessions.find(({ current }: { current: boolean }) => current)
  t.equal((await api.call(own, 'DELETE', `/api/auth/sessions/${session_id}`)).status, 204)
  t.equal((await erase(own, { confirm: true })).status, 201)
  t.match(await erase(stolen, { confirm: true }), { status: 401, code: 'UNAUTHORIZED' })
  t.equal((await erase(own, { confirm: true })).status, 200)
})

t.test('an account that an administrator erased, and a sign-in that has ended, get no answer', async (t) => {
  const [erased, signedOut] = [await aMember(), await aMember()]
  t.equal((await erase(platformAdmin, { confirm: true, user_id: erased.wireId })).status, 201)
  await sql(`update users set tokens_not_before = now() + interval '1 hour' where id = $1`, [signedOut.id])
  for (const who of [erased, signedOut]) {
    t.match(await erase(who, { confirm: true }), { status: 401, code: 'UNAUTHORIZED' })
  }
})

t.test('an open event stream ends with the account', async (t) => {
  const person = await aMember()
  const stream = await fetch(`${api.publicUrl}/v1/api/users/me/feed/changes`, {
    headers: { authorization: `Bearer ${person.token}` },
  })
  t.equal(stream.status, 200)
  t.equal((await erase(person, { confirm: true })).status, 201)
  // Reads to the end: a stream that stayed open would hang here.
  t.type(await stream.text(), 'string')
})

t.test('a step that fails is tried again, and does not keep others from their work', async (t) => {
  const person = await aMember()
  const { data } = await erase(person, { confirm: true })
  const id = uuidOf('anonymization', data.anonymization_id)
  const cluster = testCluster(t)
  const asked: unknown[] = []
  let isAway = true
  const server = createServer((req, res) => {
    let body = ''
    req.setEncoding('utf8').on('data', (chunk: string) => {
      body += chunk
    })
    req.on('end', () => {
      asked.push({ headers: req.headers, body })
      res.writeHead(isAway ? 503 : 204).end()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  const { port } = server.address() as { port: number }
  const secret = `whsec_${Buffer.alloc(32, 3).toString('base64')}`
  const config = {
    ERASURE_KEY: api.config.ERASURE_KEY,
    IDENTITY_ERASURE_URL: `http://127.0.0.1:${port}/erased`,
    IDENTITY_ERASURE_SECRET: secret,
  }
  const deps = eraseDeps(api, cluster, { config })
  await t.rejects(eraseWhole(deps, id), /1 steps of an erasure failed/)
  const state = async () => (await follow(data.anonymization_id, undefined, platformAdmin)).data
  const failed = await state()
  const find = (name: string) => failed.steps.find(({ step }: { step: string }) => step === name)
  t.match(find('erasure.provider'), { status: 'pending', attempts: 1, last_error: /503/ })
  t.match(find('discussions.reactions'), { status: 'done' }, 'others went on')
  t.notOk(find('auth.account'), 'what identifies the person is there until the end')
  matchWhole(t, await sql('select issuer, subject from users where id = $1', [person.id]), [{ subject: person.id }])
  isAway = false
  await eraseWhole(deps, id)
  t.match(await state(), { status: 'completed', certificate: { provider_account: 'removed' } })
  const { headers, body } = asked.at(-1) as { headers: Record<string, string>; body: string }
  t.match(new Webhook(secret).verify(body, headers), { type: 'account.erased', data: { subject: person.id } })
  await eraseWhole(deps, id)
  t.equal(asked.length, 2, 'a completed erasure does nothing')
})
