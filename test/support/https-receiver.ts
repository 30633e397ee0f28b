import { mkdtemp, rm } from 'node:fs/promises'
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GuardSettings } from '../../lib/runtime/guarded-http/settings.ts'
import { privateCa } from './private-ca.ts'

interface Teardown {
  teardown(done: () => Promise<unknown>): void
}

export interface Received {
  method: string
  path: string
  headers: IncomingHttpHeaders
  body: Buffer
}
type Answering = (received: Received, response: ServerResponse) => unknown

/** A server with a certificate of its own authority for 127.0.0.1, that a guard reaches through its allow-list only. */
export async function httpsReceiver(t: Teardown) {
  const folder = await mkdtemp(join(tmpdir(), 'receiver-'))
  const { ca, key, cert, files } = privateCa(folder)
  const received: Received[] = []
  let answer: Answering = (_, response) => response.writeHead(204).end()
  const server = createServer({ key, cert }, (request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const { method = '', url = '', headers } = request
      const got = { method, path: url, headers, body: Buffer.concat(parts) }
      received.push(got)
      answer(got, response)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    await rm(folder, { recursive: true })
  })
  const { port } = server.address() as AddressInfo
  return {
    ca,
    /** The path of the same. */
    caFile: files.ca,
    /** Of its certificate. */
    key,
    cert,
    port,
    url: (path = '/') => `https://127.0.0.1:${port}${path}`,
    received,
    /** How it answers from now on. */
    be(next: Answering | number, headers: Record<string, string> = {}) {
      answer = typeof next === 'number' ? (_, response) => response.writeHead(next, headers).end() : next
    },
    /** Of a guard that reaches it. */
    settings: GuardSettings.parse({ OUTBOUND_ALLOWED_ADDRESSES: '127.0.0.1/32', OUTBOUND_PORTS: `443,${port}` }),
  }
}
