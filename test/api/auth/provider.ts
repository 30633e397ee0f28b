import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Provider from 'oidc-provider'
import t from 'tap'
import { newUuid } from '../../../lib/contract/ids.ts'
import { openLog } from '../../../lib/runtime/log.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../local/identity-provider.ts'
import { startApiOn } from '../../support/api.ts'
import { ask } from '../../support/ask.ts'
import { testDatabase } from '../../support/database.ts'

// Real oidc-providers behind one address: the second one is the first after a rotation of its signing key.
const database = await testDatabase(t)
const log = openLog({ program: 'test', level: 'silent' })
const folder = await mkdtemp(join(tmpdir(), 'keepsake-idp-'))
const user = { id: newUuid(), email: 'ann@example.org', name: 'Ann', password: 'a password', roles: [] }
const clientSecret = 'a client secret of the tests'

let mode: 'up' | 'down' | 'hang' = 'up'
let current: IdentityProvider | undefined
const published: IdentityProvider[] = []

const front = createServer((req, res) => {
  if (mode === 'hang') return
  if (mode === 'down' || !current) return void res.writeHead(503).end()
  const [of, providers] = [current, [...published]]
  void (async () => {
    if (req.url === '/jwks') {
      const sets = await Promise.all(providers.map(({ jwksUrl }) => fetch(jwksUrl).then((r) => r.json())))
      res.setHeader('content-type', 'application/json')
      return void res.end(JSON.stringify({ keys: sets.flatMap((set) => (set as { keys: object[] }).keys) }))
    }
    const body = await new Response(req as unknown as ReadableStream).text()
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    const answer = await fetch(`http://127.0.0.1:${of.port}${req.url}`, { method: 'POST', body, headers })
    res.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text())
  })()
})
const address = await listening(front)
async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
async function start(name: string): Promise<IdentityProvider> {
  const dataDir = join(folder, name)
  await mkdir(dataDir)
  const made = await startIdentityProvider({ port: 0, users: [user], dataDir, clientSecret, issuer: address, log })
  t.teardown(() => made.close())
  return made
}
current = await start('first')
published.push(current)
const { audience, clientId } = current
t.teardown(async () => {
  front.closeAllConnections()
  await new Promise((resolve) => front.close(resolve))
  await rm(folder, { recursive: true, force: true })
})

const identity = { issuer: address, audience, jwksUrl: `${address}/jwks` }
const settings = {
  AUTH_TOKEN_URL: `${address}/token`,
  AUTH_REVOCATION_URL: `${address}/token/revocation`,
  AUTH_CLIENT_ID: clientId,
  AUTH_CLIENT_SECRET: clientSecret,
}
const api = await startApiOn(t, { database, identity, settings })

const login = (port = api.port) =>
  ask(port, { method: 'POST', path: '/v1/api/auth/login', body: { email: user.email, password: user.password } })
const refresh = (refresh_token: string, port = api.port) =>
  ask(port, { method: 'POST', path: '/v1/api/auth/refresh', body: { refresh_token } })
const me = async (token: string, port = api.port) =>
  (await ask(port, { path: '/v1/api/users/me', headers: { authorization: `Bearer ${token}` } })).status
const isReady = async (url: string) => (await fetch(`${url}/readyz`)).status
/** At the provider itself. */
async function signIn(at = current): Promise<string> {
  const form = {
    ...{ grant_type: 'password', username: user.email, password: user.password },
    ...{ client_id: clientId, client_secret: clientSecret, scope: 'openid offline_access api' },
  }
  const answer = await fetch(at?.tokenUrl ?? '', { method: 'POST', body: new URLSearchParams(form) })
  return ((await answer.json()) as { access_token: string }).access_token
}

t.test('while the provider is away, issued tokens work on, new ones are 503, and replicas start', async (t) => {
  const session = (await login()).json.data
  t.equal(await me(session.access_token), 200)
  for (const away of ['down', 'hang'] as const) {
    mode = away
    front.closeAllConnections()
    t.equal(await me(session.access_token), 200, away)
    for (const answer of await Promise.all([login(), refresh(session.refresh_token)])) {
      t.match([answer.status, answer.json.error.code], [503, 'AUTH_UNAVAILABLE'])
      t.match(answer.headers['retry-after'], /^\d+$/)
    }
    t.equal(await isReady(api.internalUrl), 200)
    const cold = await startApiOn(t, { database, identity, settings })
    t.equal(await me(session.access_token, cold.port), 200, 'a replica that starts now has the stored keys')
    t.equal(await isReady(cold.internalUrl), 200)
    t.equal((await login(cold.port)).status, 503)
    await cold.close()
  }
  mode = 'up'
  front.closeAllConnections()
  t.equal((await refresh(session.refresh_token)).status, 200, 'no one has lost the session')
})

t.test('a rotation of the signing key under load costs no request', async (t) => {
  const second = await start('second')
  const third = await start('third')
  const old = await signIn()
  const statuses = new Map<number, number>()
  let done = 0
  let isOver = false
  const client = async () => {
    while (!isOver) {
      for (const token of [await signIn(), old]) {
        const status = await me(token)
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
      }
      done += 1
    }
  }
  const clients = Array.from({ length: 6 }, client)
  const rounds = async (more: number) => {
    for (const until = done + more; done < until; ) await new Promise((resolve) => setTimeout(resolve, 5))
  }
  await rounds(12)
  // It signs as soon as the key is published: a provider that waits, as it should, is easier.
  for (const next of [second, third]) {
    published.unshift(next)
    current = next
    await rounds(24)
  }
  isOver = true
  await Promise.all(clients)
  t.strictSame([...statuses.keys()], [200], JSON.stringify([...statuses]))
})

t.test('a clock of a replica that is off by 20 seconds refuses no one and keeps no one', async (t) => {
  for (const off of [-20_000, 20_000]) {
    const clock = { now: () => new Date(Date.now() + off) }
    const replica = await startApiOn(t, { database, identity, settings, clock })
    const first = (await login(replica.port)).json.data
    t.equal(await me(first.access_token, replica.port), 200)
    t.equal((await refresh(first.refresh_token, replica.port)).status, 200)
    const headers = { authorization: `Bearer ${first.access_token}` }
    t.equal((await ask(replica.port, { method: 'POST', path: '/v1/api/auth/logout', headers })).status, 204)
    t.equal(await me(first.access_token, replica.port), 401)
    const second = (await login(replica.port)).json.data
    t.equal(await me(second.access_token, replica.port), 200)
    t.equal(await me(second.access_token), 200)
    await replica.close()
  }
})

t.test('the back-channel logout of a real provider ends the session', async (t) => {
  const session = (await login()).json.data
  const sid = JSON.parse(Buffer.from(session.access_token.split('.')[1], 'base64url').toString()).sid
  const keys = JSON.parse(await readFile(join(folder, 'third', 'signing-key.json'), 'utf8'))
  const provider = new Provider(address, {
    jwks: { keys: [keys] },
    clients: [
      {
        ...{ client_id: clientId, client_secret: clientSecret, redirect_uris: ['https://app.example/cb'] },
        backchannel_logout_uri: `${api.publicUrl}/v1/api/auth/backchannel-logout`,
        backchannel_logout_session_required: true,
      },
    ],
    features: { backchannelLogout: { enabled: true }, devInteractions: { enabled: false } },
    // Its own agent refuses addresses of this machine.
    fetch: (url: URL, { method, headers, body }: RequestInit) => fetch(url, { method, headers, body } as RequestInit),
  } as ConstructorParameters<typeof Provider>[1])
  const client = await provider.Client.find(clientId)
  t.equal(await me(session.access_token), 200)
  await (client as unknown as { backchannelLogout(sub: string, sid: string): Promise<void> }).backchannelLogout(
    user.id,
    sid,
  )
  t.equal(await me(session.access_token), 401)
  t.equal((await refresh(session.refresh_token)).status, 401)
})
