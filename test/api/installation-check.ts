import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { runChecks } from '../../api/installation-check/checks.ts'

/** Only a token that looks as the provider's makes the API fetch its keys. */
function isForged(authorization = ''): boolean {
  const [, head = ''] = /^Bearer ([\w-]+)\.[\w-]+\.[\w-]+$/.exec(authorization) ?? []
  const text = Buffer.from(head, 'base64url').toString()
  return text === JSON.stringify({ alg: 'RS256', kid: 'helm-test', typ: 'at+jwt' })
}

/** Runs the program against one server that plays API and operator; `wrong` changes some of its answers. */
async function check(t: Test, wrong: Record<string, number> = {}, settings: Record<string, string> = {}) {
  const statuses: Record<string, number> = {
    'GET /health': 200,
    'GET /readyz': 200,
    'GET /v1/api/media/helm-test': 401,
    'POST /progress': 401,
    ...wrong,
  }
  const server = createServer(({ method, url, headers }, res) => {
    const isKnown = url !== '/v1/api/media/helm-test' || isForged(headers.authorization)
    res.writeHead(isKnown ? (statuses[`${method} ${url}`] ?? 404) : 400).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close())
  const address = `127.0.0.1 ${(server.address() as AddressInfo).port}`
  const env = {
    PATH: process.env['PATH'],
    STORE_KIND: 'folder',
    STORE_FOLDER: t.testdir(),
    BUS_KIND: 'memory',
    API: address,
    API_INTERNAL: address,
    OPERATOR: address,
    BASE_PATH: '/v1',
    TOKEN_TYPE: 'at+jwt',
    CHECK_SECONDS: '0',
    ...settings,
  }
  const child = execFile(process.execPath, ['api/installation-check/main.ts'], { env })
  let printed = ''
  child.stdout?.on('data', (text) => (printed += text))
  const [status] = await once(child, 'close')
  return { status, lines: printed.trimEnd().split('\n') }
}

t.test('an installation that works passes every check', async (t) => {
  const { status, lines } = await check(t)
  t.equal(status, 0)
  t.strictSame(lines, [
    'ok: The API answers',
    'ok: It reaches its database',
    'ok: It reaches auth.jwksUrl',
    'ok: The operator answers',
    'ok: The object store stores an object',
    'ok: It moves an object to its cold tier',
    'ok: NATS has its streams',
  ])
})

t.test('the exit status is the number of checks that failed, and each says why', async (t) => {
  const wrong = { 'GET /v1/api/media/helm-test': 503, 'POST /progress': 404 }
  const closed = {
    S3_ENDPOINT: 'http://127.0.0.1:1',
    S3_BUCKET: 'photos',
    S3_ACCESS_KEY: 'key',
    S3_SECRET_KEY: 'secret',
  }
  const { status, lines } = await check(t, wrong, { STORE_KIND: 's3', ...closed })
  t.equal(status, 4)
  const failed = lines.filter((line) => !line.startsWith('ok: '))
  t.match(failed[0], /^FAILED: It reaches auth\.jwksUrl: GET \S+ answered 503 instead of 401$/)
  t.match(failed[1], /^FAILED: The operator answers: POST \S+ answered 404 instead of 401$/)
  t.match(failed[2], /^FAILED: The object store stores an object: .*ECONNREFUSED/)
  t.match(failed[3], /^FAILED: It moves an object to its cold tier: .*ECONNREFUSED/)
})

t.test('a Service that is not there fails its checks alone, and a check that fails is tried again', async (t) => {
  const { status, lines } = await check(
    t,
    {},
    { OPERATOR: '$(DEMO_OPERATOR_SERVICE_HOST) $(DEMO_OPERATOR_SERVICE_PORT)' },
  )
  t.equal(status, 1)
  t.match(lines[3], /^FAILED: The operator answers: .*DEMO_OPERATOR_SERVICE_HOST/)
  const said: string[] = []
  let calls = 0
  const second = async () => {
    calls += 1
    if (calls === 1) throw new Error('not yet')
  }
  t.equal(await runChecks({ second }, { seconds: 30, print: (line) => said.push(line) }), 0)
  t.strictSame([calls, said], [2, ['ok: second']])
})
