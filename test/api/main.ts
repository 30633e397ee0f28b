import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { apiSettings } from '../support/api.ts'
import { startApiProcess } from '../support/api-process.ts'
import { ask } from '../support/ask.ts'
import { testDatabase } from '../support/database.ts'
import { startTestIdentity } from '../support/identity.ts'

t.test('serves, and stops cleanly on SIGTERM', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-main-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const [database, identity] = [await testDatabase(t), await startTestIdentity(t)]
  const { child, port, exited, errors } = startApiProcess(t, {
    ...apiSettings(database, folder),
    AUTH_ISSUER: identity.issuer,
    AUTH_AUDIENCE: identity.audience,
    AUTH_JWKS_URL: identity.jwksUrl,
  })
  t.equal((await ask(await port(), { path: '/health' })).status, 200)
  child.kill('SIGTERM')
  t.strictSame(await exited, [0, null])
  t.equal(errors(), '')
})

t.test('lists every mistake of its configuration, without their values, and does not start', async (t) => {
  const { exited, errors } = startApiProcess(t, { PORT: 'eighty', LINK_KEYS: 'swordfish', CURSOR_KEY: 'swordfish' })
  t.strictSame(await exited, [1, null])
  for (const name of ['PORT', 'LINK_KEYS', 'CURSOR_KEY', 'DATABASE_URL', 'AUTH_ISSUER', 'STORE_KIND', 'PUBLIC_URL']) {
    t.match(errors(), new RegExp(`^ {2}${name}`, 'm'))
  }
  t.notMatch(errors(), /swordfish|eighty/)
})
