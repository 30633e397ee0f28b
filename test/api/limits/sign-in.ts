import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { newUuid } from '../../../lib/contract/ids.ts'
import { openLog } from '../../../lib/runtime/log.ts'
import { startIdentityProvider } from '../../../local/identity-provider.ts'
import { testDatabase } from '../../support/database.ts'
import { ask } from '../../support/serve.ts'
import { startTestApi } from '../../support/start-api.ts'

const database = await testDatabase(t)
const dataDir = await mkdtemp(join(tmpdir(), 'keepsake-idp-'))
const user = { id: newUuid(), email: 'ann@example.org', name: 'Ann', password: 'password 1', roles: ['ROLE_USER'] }
const provider = await startIdentityProvider({
  port: 0,
  users: [user],
  dataDir,
  clientSecret: 'a client secret of the tests',
  log: openLog({ program: 'test', level: 'silent' }),
})
t.teardown(async () => {
  await provider.close()
  await rm(dataDir, { recursive: true, force: true })
})
const settings = {
  AUTH_TOKEN_URL: provider.tokenUrl,
  AUTH_REVOCATION_URL: provider.revocationUrl,
  AUTH_CLIENT_ID: provider.clientId,
  AUTH_CLIENT_SECRET: provider.clientSecret,
  TRUST_PROXY_HOPS: '1',
  RATE_LIMIT_FACTOR: '1',
}
const api = await startTestApi(t, { database, identity: provider, settings })

const login = (email: string, ip: string, password = 'wrong') =>
  ask(api.port, {
    method: 'POST',
    path: '/v1/api/auth/login',
    headers: { 'x-forwarded-for': ip },
    body: { email, password },
  })
const auditRows = async () => {
  const { rows } = await database.admin.query<{ n: number }>(`select count(*)::int as n from audit_log`)
  return rows[0]?.n
}

t.test('the sixth sign-in of a minute is refused before the identity provider is asked', async (t) => {
  for (let i = 0; i < 5; i++) t.equal((await login(user.email, '198.51.100.1')).status, 401)
  const sixth = await login(user.email, '198.51.100.1', user.password)
  t.match([sixth.status, sixth.json.error.code], [429, 'RATE_LIMITED'])
  t.ok(sixth.json.error.retry_after >= 1)
  t.equal(sixth.headers['retry-after'], String(sixth.json.error.retry_after))
  t.equal(await auditRows(), 5, 'a refused request leaves no entry')
  t.equal((await login(user.email, '198.51.100.2', user.password)).status, 200, 'its owner signs in from elsewhere')
})

t.test('one address cannot fill the audit log, whatever accounts it names', async (t) => {
  const before = (await auditRows()) ?? 0
  const answers = await Promise.all(
    Array.from({ length: 300 }, (_, i) => login(`guess${i}@example.org`, '198.51.100.3')),
  )
  t.equal(answers.filter((a) => a.status === 401).length, 100)
  t.equal(answers.filter((a) => a.status === 429).length, 200)
  t.equal(await auditRows(), before + 100)
  const { rows } = await database.admin.query('select from rate_limits')
  t.ok(rows.length <= 3 + 2 + 1 + 2 * 100 + 2, 'nor the table of counters')
})

t.test('refusals are counted by class', async (t) => {
  const metrics = await fetch(`${api.metricsUrl}/metrics`).then((r) => r.text())
  t.match(metrics, /^rate_limited_requests_total\{class="login"\} 201$/m)
  t.match(metrics, /^http_request_bodies\{kind="stream"\} 0$/m)
})
