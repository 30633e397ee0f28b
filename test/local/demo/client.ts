import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { signIn } from '../../../local/demo/client.ts'

const TOKENS = JSON.stringify({ data: { access_token: 'access', refresh_token: 'refresh' } })

t.test('the client repeats what a busy server refuses, and reports what it has to wait for too long', async (t) => {
  const answers: [status: number, retryAfter?: string][] = []
  const seen: IncomingMessage[] = []
  const server = createServer((req, res) => {
    seen.push(req)
    req.resume()
    const [status, retryAfter] = answers.shift() ?? [200]
    if (retryAfter !== undefined) res.setHeader('Retry-After', retryAfter)
    res.writeHead(status).end(status === 200 ? TOKENS : '{"error":"busy"}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close().closeAllConnections())
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  answers.push([429, '0'], [503, '0'])
  const client = await signIn(base, { email: 'a@example.com', password: 'secret' })
  t.equal(seen.length, 3)
  t.equal(new Set(seen.map((req) => req.headers['idempotency-key'])).size, 1, 'it is the same request')

  answers.push([429, '0'])
  await client.put('/chunk', Buffer.from('bytes'))
  t.equal(seen.length, 5)

  for (const [status, retryAfter] of [
    [429, '3600'],
    [409, '0'],
  ] as const) {
    answers.push([status, retryAfter])
    await t.rejects(client.call('POST', '/merge', {}), { message: `POST /merge answered ${status}: {"error":"busy"}` })
  }
  t.equal(seen.length, 7)
})
