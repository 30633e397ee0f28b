import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { openS3Store } from '../../../lib/runtime/object-store-s3.ts'
import { privateCa } from '../../support/private-ca.ts'

const MIB = 1024 * 1024
const { ca, key, cert } = privateCa(t.testdir())

/** TLS keeps what the connection does not take at once; a server that reads haltingly makes it do so. */
t.test('buffers are released over TLS only when they have been sent', async (t) => {
  const got: Buffer[] = []
  const receive = async (request: IncomingMessage, response: ServerResponse) => {
    for await (const chunk of request) {
      got.push(Buffer.from(chunk as Buffer))
      if (got.length % 100 === 0) await sleep(20)
    }
    response.writeHead(200, { etag: '"x"' }).end()
  }
  const server = createServer({ key, cert }, (request, response) => {
    receive(request, response).catch((error: unknown) => response.destroy(error as Error))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const keys = { region: 'us-east-1', bucket: 'bucket', accessKey: 'access', secretKey: 'secretsecret' }
  const store = openS3Store({ endpoint: `https://127.0.0.1:${port}`, idleMs: 60_000, ca, ...keys })
  t.teardown(async () => {
    await store.close()
    server.closeAllConnections()
    server.close()
  })

  const data = randomBytes(16 * MIB)
  for (const length of [1000, 64 * 1024, 2 * MIB]) {
    got.length = 0
    let [given, released] = [0, 0]
    const pieces = function* () {
      for (let from = 0; from < data.length; from += length) {
        given++
        yield Buffer.from(data.subarray(from, from + length))
      }
    }
    const release = (chunk: Buffer) => {
      released++
      chunk.fill(0)
    }
    await store.putPart('a', 'upload', 1, Readable.from(pieces()), { size: data.length, release })
    t.ok(data.equals(Buffer.concat(got)), `in pieces of ${length}`)
    t.equal(released, given)
  }
})
