import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { openS3Store } from '../../../../lib/runtime/object-store/s3.ts'
import { asStoreError } from '../../../../lib/runtime/object-store/s3-http.ts'
import { privateCa } from '../../../support/private-ca.ts'

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

t.test('a certificate that is not accepted is said to be that, and what is missing', async (t) => {
  const other = privateCa(t.testdir({ other: {} }), '192.0.2.1')
  const listen = async (by: { key: string; cert: string }) => {
    let connections = 0
    const server = createServer(by, (_, response) => response.end())
    server.on('connection', () => connections++)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => void server.close())
    return { endpoint: `https://127.0.0.1:${(server.address() as AddressInfo).port}`, connections: () => connections }
  }
  const [ours, strange] = [await listen({ key, cert }), await listen(other)]
  const keys = { region: 'us-east-1', bucket: 'bucket', accessKey: 'access', secretKey: 'secretsecret' }
  const issuer = 'S3_CA must hold the certificate of the authority that signed it'
  const reason = 'unable to verify the first certificate (UNABLE_TO_VERIFY_LEAF_SIGNATURE)'
  const untrusted = `The object store's certificate is not accepted: ${reason}. ${issuer}`
  const elsewhere =
    /^The object store's certificate is not accepted: .*192\.0\.2\.1.* \(ERR_TLS_CERT_ALTNAME_INVALID\)$/
  const cases: [what: string, at: typeof ours, ca: string | undefined, says: RegExp | string][] = [
    ['nobody is named', ours, undefined, untrusted],
    ['another authority is named', ours, other.ca, untrusted],
    ['it is for another host', strange, other.ca, elsewhere],
  ]
  for (const [what, at, ca, says] of cases) {
    const store = openS3Store({ endpoint: at.endpoint, ca, ...keys })
    const refused = { name: 'StoreError', code: 'Unavailable', message: says }
    const before = at.connections()
    await t.rejects(store.get('a'), refused, what)
    t.equal(at.connections() - before, 1, 'another try in a moment would meet the same certificate')
    await t.rejects(store.put('a', Readable.from(['x']), { contentType: 'text/plain', size: 1 }), refused, what)
    await t.rejects(store.check(), refused, what)
    await t.rejects(store.createMultipart('a', { contentType: 'text/plain' }), refused, what)
    await store.close()
  }
})

t.test('one that an authority does not help against is not blamed on it', (t) => {
  const expired = Object.assign(new Error('certificate has expired'), { code: 'CERT_HAS_EXPIRED' })
  const said = "The object store's certificate is not accepted: certificate has expired (CERT_HAS_EXPIRED)"
  t.equal(asStoreError(expired).message, said)
  const weak = Object.assign(new Error('EE certificate key too weak'), { code: 'UNSPECIFIED' }) // so says Node
  t.match(asStoreError(weak), { code: 'Unavailable', message: /^The object store's certificate is not accepted: EE / })
  t.end()
})
