import t from 'tap'
import { sql } from '../../api/db/orm.ts'
import { formatId, newUuid } from '../../lib/contract/ids.ts'
import { startApiOn } from '../support/api.ts'
import { ask } from '../support/ask.ts'
import { testDatabase } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { startTestIdentity } from '../support/identity.ts'
import { readableLog } from '../support/readable-log.ts'

const database = await testDatabase(t)
const { admin } = database
const identity = await startTestIdentity(t)
const api = await startApiOn(t, { database, identity, settings: { TRUST_PROXY_HOPS: '1' } })

/** What must never be in a log. */
const NAME = 'Anneliese Müller-Lüdenscheidt'
const EMAIL = 'anneliese@example.org'
const FILENAME = 'Annelieses 50. Geburtstag.mov'
const ASSET = 'iPhone of Anneliese'
const IP = '203.0.113.77'
const AGENT = 'Browser of Anneliese'
const PRIVATE = [NAME, EMAIL, FILENAME, ASSET, IP, AGENT, 'Anneliese', encodeURIComponent(NAME)]

const tokenOf = (sub = newUuid()) =>
  identity.token({ sub, claims: { name: NAME, email: EMAIL, email_verified: true, sid: newUuid() } })

async function request(o: { token?: string; method?: string; path?: string; body?: unknown } = {}) {
  const headers = {
    authorization: `Bearer ${o.token ?? (await tokenOf())}`,
    'x-forwarded-for': IP,
    'user-agent': AGENT,
  }
  const path = o.path ?? `/v1/api/media/${formatId('organization', newUuid())}`
  return ask(api.port, { method: o.method ?? 'GET', path, headers, body: o.body })
}

/** The errors that were logged while `work` ran. */
async function errorsOf(work: () => Promise<unknown>) {
  const before = api.logged.length
  await work()
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever was logged
  return api.logged.slice(before).flatMap((line: any) => (line.err ? [line.err] : []))
}

t.test('a value that is too long', async (t) => {
  await admin.query('alter table users alter column email type varchar(3)')
  const errors = await errorsOf(async () => t.equal((await request()).status, 500))
  await admin.query('alter table users alter column email type text')
  t.match(errors, [{ message: /^Failed query: insert into "users"/, cause: { code: '22001' } }])
})

t.test('a value that is there already', async (t) => {
  await admin.query('create unique index one_address on users (email)')
  t.equal((await request()).status, 404)
  const errors = await errorsOf(async () => t.equal((await request()).status, 500))
  await admin.query('drop index one_address')
  t.match(errors, [{ cause: { code: '23505', table: 'users', constraint: 'one_address' } }])
})

t.test('a row that a rule of the table refuses', async (t) => {
  await admin.query(`alter table audit_log add constraint no_browsers check (personal is null) not valid`)
  const errors = await errorsOf(async () => {
    t.equal((await request({ method: 'POST', path: '/v1/api/auth/logout', body: {} })).status, 500)
  })
  await admin.query('alter table audit_log drop constraint no_browsers')
  t.match(errors, [
    { message: /^Failed query: insert into "audit_log"/, cause: { code: '23514', constraint: 'no_browsers' } },
  ])
})

t.test('what is known of a file', async (t) => {
  const [org, sub] = [newUuid(), newUuid()]
  const token = await tokenOf(sub)
  await admin.query(`insert into organizations (id, name) values ($1, 'One')`, [org])
  await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [sub, identity.issuer, sub])
  await admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [org, sub])
  await admin.query(`alter table uploads add constraint no_parties check (filename not like '%Geburtstag%')`)
  const body = { filename: FILENAME, mime_type: 'video/quicktime', file_size_bytes: 10, asset_identifier: ASSET }
  const path = `/v1/api/media/${formatId('organization', org)}/upload`
  const errors = await errorsOf(async () => t.equal((await request({ token, method: 'POST', path, body })).status, 500))
  t.match(errors, [{ message: /^Failed query: insert into "uploads"/, cause: { constraint: 'no_parties' } }])
})

t.test('a connection that is lost in the middle of a query', async (t) => {
  const lock = await admin.connect()
  await lock.query('begin; lock table users in access exclusive mode')
  const errors = await errorsOf(async () => {
    const answer = request()
    await eventually('the query waits', async () => {
      const { rowCount } = await lock.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock' and application_name = 'keepsake_api'`,
      )
      return rowCount === 1
    })
    t.equal((await answer).status, 503)
  })
  await lock.query('rollback')
  lock.release()
  t.match(errors.at(-1), { cause: { code: '57P01' } })
})

t.test('a value that Postgres quotes in the message itself', async (t) => {
  const { log, logged } = readableLog()
  const asked = database.db.read({}, (tx) => tx.execute(sql`select ${NAME}::uuid`))
  await asked.catch((err: unknown) => log.error({ err }, 'refused'))
  t.match(logged, [{ err: { cause: { code: '22P02', message: 'invalid input syntax for type uuid: "[redacted]"' } } }])
  t.notMatch(JSON.stringify(logged), /Anneliese/)
})

t.test('none of it has reached the log', async (t) => {
  const everything = JSON.stringify(api.logged)
  t.ok(api.logged.length > 10)
  for (const value of PRIVATE) t.notOk(everything.includes(value), value)
  t.match(everything, /request failed/)
})
