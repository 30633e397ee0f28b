import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import t from 'tap'
import type { KubeCredentials } from '../../../../lib/runtime/kube/access.ts'
import { KubeConnection } from '../../../../lib/runtime/kube/connection.ts'
import { KubeHttp } from '../../../../lib/runtime/kube/http.ts'
import { eventually } from '../../../support/eventually.ts'

/** A server that never closes a connection by itself and answers `/slow` only when the test says so. */
async function open(t: Tap, idleLookMs: number) {
  const open = new Set<Socket>()
  const slow: ServerResponse[] = []
  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    if (request.url === '/slow') slow.push(response)
    else response.end('{}')
  })
  server.on('connection', (socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const credentials: KubeCredentials = { server: `http://127.0.0.1:${port}`, headers: {}, tls: {} }
  const connection = new KubeConnection(async () => credentials, { idleLookMs })
  const http = new KubeHttp(connection)
  t.teardown(() => {
    connection.close()
    server.closeAllConnections()
    server.close()
  })
  return { http, connection, credentials, open, slow, get: (path: string) => http.json({ method: 'GET', path }) }
}
type Tap = Pick<typeof t, 'teardown'>

t.test('a connection without requests is closed, one that waits for its answer is not', async (t) => {
  const w = await open(t, 40)
  const answer = w.get('/slow')
  await w.get('/quick')
  t.equal(w.open.size, 2)
  await eventually('the idle one closed', () => w.open.size === 1)
  const { agent } = await w.connection.open('call')
  t.same(Object.values(agent.freeSockets).flat(), [], 'nor does the agent keep it')
  // Several looks later.
  await new Promise((resolve) => setTimeout(resolve, 200))
  t.equal(w.open.size, 1)
  w.slow[0]?.end('{"late":true}')
  t.same(await answer, { late: true })
})

t.test('a connection in use is kept between its requests', async (t) => {
  const w = await open(t, 60_000)
  for (let i = 0; i < 5; i++) await w.get('/quick')
  t.equal(w.open.size, 1)
})

t.test('connections of credentials that were replaced finish their requests and are closed', async (t) => {
  const w = await open(t, 40)
  const answer = w.get('/slow')
  await eventually('asked', () => w.slow.length === 1)
  Object.assign(w.credentials.tls, { ca: 'another' })
  w.connection.forgetCredentials()
  await w.get('/quick')
  t.equal(w.open.size, 2, 'a pool of their own')
  w.slow[0]?.end('{"late":true}')
  t.same(await answer, { late: true })
  await eventually('both closed', () => w.open.size === 0)
})
