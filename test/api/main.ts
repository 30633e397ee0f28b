import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { apiSettings } from '../support/api.ts'
import { ask } from '../support/ask.ts'
import { testDatabase } from '../support/database.ts'
import { startTestIdentity } from '../support/identity.ts'

const program = join(import.meta.dirname, '../../api/main.ts')

function start(settings: Record<string, string>) {
  const env = { PATH: process.env['PATH'], ...settings }
  const child = spawn(process.execPath, [program], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let errors = ''
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString()
  })
  t.teardown(() => child.kill('SIGKILL'))
  return { child, errors: () => errors, lines: createInterface(child.stdout), exited: once(child, 'close') }
}

t.test('serves, and stops cleanly on SIGTERM', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-main-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const [database, identity] = [await testDatabase(t), await startTestIdentity(t)]
  const { child, lines, exited, errors } = start({
    ...apiSettings(database, folder),
    AUTH_ISSUER: identity.issuer,
    AUTH_AUDIENCE: identity.audience,
    AUTH_JWKS_URL: identity.jwksUrl,
  })
  let port = 0
  for await (const line of lines) {
    const said = JSON.parse(line) as { msg: string; listening?: { publicUrl: string } }
    if (said.msg !== 'listening' || !said.listening) continue
    port = Number(new URL(said.listening.publicUrl).port)
    break
  }
  child.stdout.resume() // behind the break nobody reads any more
  t.equal((await ask(port, { path: '/health' })).status, 200)
  child.kill('SIGTERM')
  t.strictSame(await exited, [0, null])
  t.equal(errors(), '')
})

t.test('lists every mistake of its configuration, without their values, and does not start', async (t) => {
  const { exited, errors } = start({ PORT: 'eighty', LINK_KEYS: 'swordfish', CURSOR_KEY: 'swordfish' })
  t.strictSame(await exited, [1, null])
  for (const name of ['PORT', 'LINK_KEYS', 'CURSOR_KEY', 'DATABASE_URL', 'AUTH_ISSUER', 'STORE_KIND', 'PUBLIC_URL']) {
    t.match(errors(), new RegExp(`^ {2}${name}`, 'm'))
  }
  t.notMatch(errors(), /swordfish|eighty/)
})
