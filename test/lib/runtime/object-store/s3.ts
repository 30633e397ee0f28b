import { createServer, type RequestListener } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'minio'
import t, { type Test } from 'tap'
import { loadConfig } from '../../../../lib/runtime/config.ts'
import { moveToCold } from '../../../../lib/runtime/object-store/move-to-cold.ts'
import type { ObjectStore } from '../../../../lib/runtime/object-store/object-store.ts'
import { openObjectStore, StoreConfig } from '../../../../lib/runtime/object-store/open.ts'
import { openS3Store } from '../../../../lib/runtime/object-store/s3.ts'
import { coldContract } from '../../../support/cold-contract.ts'
import { objectStoreContract, zeros } from '../../../support/object-store-contract.ts'
import { COLD_CLASS, startRadosGateway } from '../../../support/services/radosgw.ts'
import { growthOfFourParts } from '../../../support/streaming-memory.ts'

/** The store on S3. Takes over 20 s: it starts a Ceph cluster, and sends 64 MiB parts to see what stays in memory. */

const textType = { contentType: 'text/plain' }
const MIB = 1024 * 1024

/** A store on a server that misbehaves in one way. It waits for silent ones alone no longer than a busy machine takes. */
async function misbehaving(t: Test, listener: RequestListener, idleMs = 60_000): Promise<ObjectStore> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const endpoint = `http://127.0.0.1:${port}`
  const keys = { region: 'us-east-1', bucket: 'bucket', accessKey: 'access', secretKey: 'secretsecret' }
  const store = openS3Store({ endpoint, idleMs, ...keys })
  t.teardown(async () => {
    await store.close()
    server.closeAllConnections()
    server.close()
  })
  return store
}

t.test('a server that says nothing is given up', async (t) => {
  const store = await misbehaving(t, () => {}, 200)
  const unavailable = { code: 'Unavailable' }
  await t.rejects(store.put('a', zeros(10), { ...textType, size: 10 }), unavailable)
  await t.rejects(store.head('a'), unavailable)
  await t.rejects(store.createMultipart('a', textType), unavailable)
  await t.rejects(store.check(), unavailable)
})

t.test('what can be repeated is repeated when the server is busy or hangs up', async (t) => {
  let requests = 0
  const store = await misbehaving(t, (request, response) => {
    requests++
    if (requests === 1) request.socket.destroy()
    else if (requests === 2) response.writeHead(503).end('<Error><Code>SlowDown</Code></Error>')
    else response.writeHead(200, { etag: '"x"', 'content-length': 5 }).end(request.method === 'GET' ? 'hello' : '')
  })
  t.match(await store.head('a'), { size: 5, etag: '"x"' })
  t.equal(requests, 3)
  requests = 0
  t.equal((await buffer((await store.get('a')).body)).toString(), 'hello')
  requests = 0
  await t.rejects(store.put('a', zeros(10), { ...textType, size: 10 }), { code: 'Unavailable' }, 'a stream cannot be')
  t.equal(requests, 1)
})

t.test('a refusal in the middle of a long body is heard at once', async (t) => {
  const store = await misbehaving(t, (_request, response) => {
    response.writeHead(403).end('<Error><Code>AccessDenied</Code><Message>no</Message></Error>')
  })
  const body = zeros(64 * MIB)
  await t.rejects(store.put('a', body, { ...textType, size: 64 * MIB }), {
    code: 'Unavailable',
    message: /AccessDenied/,
  })
  t.notOk(body.readableEnded, 'the rest was not read')
})

t.test('a body that breaks off is an error and not a short object', async (t) => {
  const store = await misbehaving(t, (_request, response) => {
    response.writeHead(200, { 'content-length': 1000, etag: '"x"' })
    response.write('half')
    setTimeout(() => response.destroy(), 20)
  })
  const { body } = await store.get('a')
  await t.rejects(buffer(body))
  await t.rejects(store.download('a', `${t.testdir()}/x`))
})

const gateway = await startRadosGateway()
if (gateway) {
  t.teardown(() => gateway.stop())
  const store = openS3Store(gateway.s3)
  t.teardown(() => store.close())
  objectStoreContract(t, store)

  const PART = 5 * MIB
  t.test('one bucket, two classes', async (t) => {
    const classed = openS3Store({ ...gateway.s3, coldClass: COLD_CLASS, copyPartBytes: PART })
    t.teardown(() => classed.close())
    coldContract(t, classed, PART)
    t.test('the class of a copy is that of its tier, there and back', async (t) => {
      await classed.put('class/original', 'x', textType)
      t.notOk('storageClass' in ((await classed.head('class/original')) ?? {}))
      await classed.copy('class/original', 'class/cold/original')
      t.equal((await classed.head('class/cold/original'))?.storageClass, COLD_CLASS)
      await classed.copy('class/cold/original', 'class/back')
      t.notOk('storageClass' in ((await classed.head('class/back')) ?? {}))
      const unknown = openS3Store({ ...gateway.s3, coldClass: 'NO_SUCH_CLASS' })
      t.teardown(() => unknown.close())
      await t.rejects(unknown.copy('class/original', 'class/cold/other'), {
        code: 'Unavailable',
        message: /InvalidArgument|Storage/,
      })
      t.equal(await classed.head('class/cold/other'), undefined)
    })
  })
  t.test('two buckets', async (t) => {
    const cold = await gateway.makeBucket('cold-tier')
    const { endpoint, region, accessKey, secretKey, bucket } = gateway.s3
    const both = await openObjectStore(
      loadConfig(StoreConfig, {
        ...{
          STORE_KIND: 's3',
          S3_ENDPOINT: endpoint,
          S3_REGION: region,
          S3_BUCKET: bucket,
          S3_COLD_BUCKET: cold.bucket,
        },
        ...{ S3_ACCESS_KEY: accessKey, S3_SECRET_KEY: secretKey, S3_COLD_CLASS: COLD_CLASS },
      }),
    )
    t.teardown(() => both.close())
    coldContract(t, both)
    await both.put('two/original', 'x', textType)
    const { key } = await moveToCold(both, 'two/original')
    t.match(await (await fetch((await both.presignGet(key, 60, 'text/plain')) ?? '')).text(), 'x')
    t.match(await both.presignGet(key, 60, 'text/plain'), /\/cold-tier\/two\/cold\/original/)
    t.equal(await store.head(key), undefined)
  })

  t.test('what the bucket locks is told from what it refuses, with the end of the lock', async (t) => {
    const { hostname, port } = new URL(gateway.s3.endpoint)
    const { accessKey, secretKey, region } = gateway.s3
    const client = new Client({ endPoint: hostname, port: Number(port), useSSL: false, accessKey, secretKey, region })
    await client.makeBucket('locking', region, { ObjectLocking: true })
    const locking = openS3Store({ ...gateway.s3, bucket: 'locking' })
    t.teardown(() => locking.close())
    await locking.put('m/1/original', 'x', textType)
    const until = new Date(Math.ceil(Date.now() / 1000) * 1000 + 3_600_000)
    const retention = { mode: 'GOVERNANCE', retainUntilDate: until.toISOString() }
    // The declared type of the options is `never`.
    await client.putObjectRetention('locking', 'm/1/original', retention as never)
    const locked = { code: 'Locked', until }
    await t.rejects(locking.deletePrefix('m/1/'), locked)
    await t.rejects(locking.deleteForGood('m/1/original'), locked)
    t.ok(await locking.head('m/1/original'))
    const second = await client.putObject('locking', 'm/2/original', Buffer.from('x'), 1)
    // Declared without its promise.
    await Promise.resolve(
      client.setObjectLegalHold('locking', 'm/2/original', { status: 'ON', versionId: second.versionId ?? '' }),
    )
    await t.rejects(locking.deleteForGood('m/2/original'), { code: 'Locked', until: undefined })
  })

  t.test('in a bucket with versions, deletes them all below a prefix, and the delete markers', async (t) => {
    const s3 = await gateway.makeBucket('with-versions')
    const { hostname, port } = new URL(s3.endpoint)
    const { accessKey, secretKey, region } = s3
    const client = new Client({ endPoint: hostname, port: Number(port), useSSL: false, accessKey, secretKey, region })
    await client.setBucketVersioning(s3.bucket, { Status: 'Enabled' })
    const versioned = openS3Store(s3)
    t.teardown(() => versioned.close())
    const versionsBelow = async (prefix: string) => {
      const names: unknown[] = []
      for await (const { name } of client.listObjects(s3.bucket, prefix, true, { IncludeVersion: true }))
        names.push(name)
      return names
    }
    for (const body of ['one', 'two', 'three']) await versioned.put('m/1/original', body, textType)
    await versioned.put('m/1/v1/master', 'x', textType)
    await versioned.delete('m/1/v1/master')
    await versioned.put('m/10/original', 'x', textType)
    t.equal((await versionsBelow('m/1/')).length, 5, 'three versions, one more and its delete marker')
    t.equal(await versioned.deletePrefix('m/1/'), 5)
    t.strictSame(await versionsBelow('m/1/'), [])
    t.equal(await versioned.deletePrefix('m/1/'), 0)
    t.equal((await versionsBelow('m/10/')).length, 1)
  })

  t.test('signs links that anybody may GET, for one object and for a while', async (t) => {
    await store.put('signed/a', 'hello', textType)
    await store.put('signed/b', 'secret', textType)
    const url = (await store.presignGet('signed/a', 60, 'video/mp2t')) ?? ''
    const answer = await fetch(url)
    t.equal(await answer.text(), 'hello')
    t.equal(answer.headers.get('content-type'), 'video/mp2t', 'not the type that it was stored with')
    t.equal((await fetch(url.replace('video%2Fmp2t', 'text%2Fhtml'))).status, 403, 'not another type')
    const part = await fetch(url, { headers: { range: 'bytes=1-2' } })
    t.strictSame([part.status, await part.text()], [206, 'el'])
    t.equal((await fetch(url.replace('signed/a', 'signed/b'))).status, 403, 'not another object')
    t.equal((await fetch(url.replace(/X-Amz-Expires=60/, 'X-Amz-Expires=600'))).status, 403, 'not longer')
    t.equal((await fetch(url.replace(/\?.*/, ''))).status, 403, 'not without a signature')
    const short = (await store.presignGet('signed/a', 1, 'video/mp2t')) ?? ''
    await sleep(2100)
    t.equal((await fetch(short)).status, 403, 'expired')
  })

  t.test('signs links for the address that clients know', async (t) => {
    const other = openS3Store({ ...gateway.s3, publicEndpoint: 'https://media.example.com' })
    t.teardown(() => other.close())
    t.match(await other.presignGet('a/b', 60, 'video/mp2t'), /^https:\/\/media\.example\.com\/keepsake-test\/a\/b\?/)
  })

  t.test('wrong keys, a missing bucket and a dead address are outages', async (t) => {
    const cases = [
      { ...gateway.s3, secretKey: 'wrong-secret-key' },
      { ...gateway.s3, bucket: 'no-such-bucket' },
      { ...gateway.s3, endpoint: 'http://127.0.0.1:9' },
    ]
    for (const options of cases) {
      const bad = openS3Store(options)
      await t.rejects(bad.check(), { code: 'Unavailable' })
      await t.rejects(bad.put('a', 'x', textType), { code: 'Unavailable' })
      await bad.close()
    }
  })

  t.test('four parts of 64 MiB at once are not kept in memory', async (t) => {
    const grown = await growthOfFourParts(store)
    t.ok(grown < 64, `grew by ${grown.toFixed(1)} MiB`)
  })
} else t.test('against a real S3 server', { skip: 'Ceph is not installed' }, () => {})
