import { createHash } from 'node:crypto'
import http, { createServer, type RequestListener } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'minio'
import t, { type Test } from 'tap'
import { loadConfig } from '../../../../lib/runtime/config.ts'
import { moveToCold } from '../../../../lib/runtime/object-store/move-to-cold.ts'
import type { ObjectStore, StoreError } from '../../../../lib/runtime/object-store/object-store.ts'
import { openObjectStore, StoreConfig } from '../../../../lib/runtime/object-store/open.ts'
import { openS3Store } from '../../../../lib/runtime/object-store/s3.ts'
import type { S3Options } from '../../../../lib/runtime/object-store/s3-client.ts'
import { coldContract } from '../../../support/cold-contract.ts'
import { objectStoreContract, zeros } from '../../../support/object-store-contract.ts'
import { readableLog } from '../../../support/readable-log.ts'
import { COLD_CLASS, COLD_PLACEMENT, startRadosGateway } from '../../../support/services/radosgw.ts'
import { growthOfFourParts } from '../../../support/streaming-memory.ts'
import { nothingLeftInVersions } from '../../../support/versioned-uploads.ts'

/** The store on S3. Takes over 20 s: it starts a Ceph cluster, and sends 64 MiB parts to see what stays in memory. */

const textType = { contentType: 'text/plain' }
const MIB = 1024 * 1024

/** A store on a server that misbehaves in one way. It waits for silent ones alone no longer than a busy machine takes. */
async function misbehaving(t: Test, listener: RequestListener, o: Partial<S3Options> = {}): Promise<ObjectStore> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const endpoint = `http://127.0.0.1:${port}`
  const keys = { region: 'us-east-1', bucket: 'bucket', accessKey: 'access', secretKey: 'secretsecret' }
  const store = openS3Store({ endpoint, idleMs: 60_000, ...keys, ...o })
  t.teardown(async () => {
    await store.close()
    server.closeAllConnections()
    server.close()
  })
  return store
}

t.test('a server that says nothing is given up', async (t) => {
  const store = await misbehaving(t, () => {}, { idleMs: 200 })
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

t.test('a server that asks for fewer requests is told from one that is down, whatever was asked of it', async (t) => {
  let code: string | undefined = 'SlowDown'
  const store = await misbehaving(t, (request, response) => {
    // What a copy asks first.
    if (request.method === 'HEAD') return void response.writeHead(200, { etag: '"x"', 'content-length': 5 }).end()
    response.writeHead(503).end(code && `<Error><Code>${code}</Code><Message></Message></Error>`)
  })
  const all = [
    () => store.get('a'),
    () => store.put('a', 'x', textType),
    () => store.list('a')[Symbol.asyncIterator]().next(),
    () => store.delete('a'),
    () => store.deleteForGood('a'),
    () => store.createMultipart('a', textType),
    () => store.copy('a', 'b'),
  ]
  const answered = async (expected: object) => {
    // Together, because each tries three times.
    const errors = await Promise.all(all.map((ask) => ask().then(String, (error: unknown) => error)))
    for (const [n, error] of errors.entries()) t.match(error, expected, `${code}, ${n}`)
  }
  await answered({ code: 'Unavailable', isSlowDown: true, message: /SlowDown/ })
  code = 'ServiceUnavailable'
  await answered({ code: 'Unavailable', isSlowDown: false, message: /ServiceUnavailable/ })
  code = undefined
  await answered({ code: 'Unavailable', isSlowDown: false, message: /HTTP 503/ })
})

/** A server that lists two uploads a page. Of these it ends some, and keeps or lacks others, which it lists for ever. */
async function listing(t: Test, uploads: readonly string[], fateOf: (key: string) => 'ends' | 'keeps' | 'lacks') {
  const left = new Set(uploads)
  const asked: string[] = []
  const { log, logged } = readableLog()
  const listed = (prefix: string, after: string) => {
    const rest = [...left].filter((key) => key.startsWith(prefix) && key > after)
    const entries = rest.slice(0, 2).map((key) => `<Upload><Key>${key}</Key><UploadId>id-${key}</UploadId></Upload>`)
    const next = `<NextKeyMarker>${rest[1]}</NextKeyMarker><NextUploadIdMarker>id-${rest[1]}</NextUploadIdMarker>`
    const isTruncated = rest.length > 2
    return `<ListMultipartUploadsResult><IsTruncated>${isTruncated}</IsTruncated>${isTruncated ? next : ''}${entries.join('')}</ListMultipartUploadsResult>`
  }
  const store = await misbehaving(
    t,
    (request, response) => {
      const url = new URL(request.url ?? '', 'http://store')
      const key = url.pathname.slice('/bucket/'.length)
      if (url.searchParams.has('uploads')) {
        return void response
          .writeHead(200)
          .end(listed(url.searchParams.get('prefix') ?? '', url.searchParams.get('key-marker') ?? ''))
      }
      if (request.method === 'GET') return void response.writeHead(200).end('<ListVersionsResult></ListVersionsResult>')
      asked.push(key)
      const fate = fateOf(key)
      if (fate === 'ends') left.delete(key)
      if (fate === 'lacks') response.writeHead(404).end('<Error><Code>NoSuchUpload</Code></Error>')
      else response.writeHead(204).end()
    },
    { log },
  )
  return { store, asked, logged }
}

t.test('an upload that is listed and does not exist holds nothing up', async (t) => {
  const keys = ['m/a', 'm/b', 'm/c', 'm/d', 'm/e']
  const { store, asked, logged } = await listing(t, keys, (key) => (key > 'm/c' ? 'ends' : 'lacks'))
  t.equal(await store.deletePrefix('m/'), 2, 'what is behind it is deleted, and alone counts')
  t.equal(asked.length, 11)
  t.match(logged, [{ level: 'warn', key: 'm/a', uploads: 3 }])
  t.equal(await store.deletePrefix('m/'), 0)
  await store.deleteForGood('m/b')
  t.match(logged.at(-1), { key: 'm/b', uploads: 1 })
})

t.test('an upload that is aborted and listed for ever is an outage', async (t) => {
  const { store, asked } = await listing(t, ['m/a'], () => 'keeps')
  await t.rejects(store.deletePrefix('m/'), { code: 'Unavailable', message: /still lists an aborted upload of m\/a/ })
  await t.rejects(store.deleteForGood('m/a'), { code: 'Unavailable' })
  t.equal(asked.length, 6)
})

t.test('an object that is deleted and listed for ever is an outage', async (t) => {
  const version = '<Version><Key>m/a</Key><VersionId>null</VersionId></Version>'
  let deletions = 0
  const store = await misbehaving(t, (request, response) => {
    const query = new URL(request.url ?? '', 'http://store').searchParams
    if (query.has('delete')) deletions++
    const uploads = '<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>'
    const versions = `<ListVersionsResult>${version}</ListVersionsResult>`
    response.writeHead(200).end(query.has('uploads') ? uploads : query.has('versions') ? versions : '<Result></Result>')
  })
  await t.rejects(store.deletePrefix('m/'), { code: 'Unavailable', message: /still lists m\/a/ })
  t.equal(deletions, 3)
})

t.test('a bucket that locks what is put takes what is in memory', async (t) => {
  // As Amazon S3, where the bucket has a default retention.
  const store = await misbehaving(t, (request, response) => {
    void buffer(request).then((body) => {
      const md5 = createHash('md5').update(body).digest('base64')
      const isRight = request.headers['content-md5'] === md5
      response.writeHead(isRight ? 200 : 400, { etag: '"x"' })
      response.end(isRight ? '' : '<Error><Code>InvalidRequest</Code></Error>')
    })
  })
  t.match(await store.put('a', 'text', textType), { size: 4 })
  t.match(await store.put('a', Buffer.alloc(100), textType), { size: 100 })
  await t.rejects(store.put('a', zeros(10), { ...textType, size: 10 }), { code: 'Unavailable' }, 'and no stream')
})

t.test('a copy that fails after it was answered has failed', async (t) => {
  const answers = ['<Error><Code>InternalError</Code></Error>', '<Error><Code>InternalError</Code></Error>']
  const made: string[] = []
  const store = await misbehaving(t, (request, response) => {
    if (request.method === 'HEAD') return void response.writeHead(200, { etag: '"x"', 'content-length': 5 }).end()
    made.push(String(request.headers['x-amz-storage-class']))
    response
      .writeHead(200)
      .end(`\n ${answers.shift() ?? '<CopyObjectResult><ETag>&quot;x&quot;</ETag></CopyObjectResult>'}`)
  })
  t.match(await store.copy('a', 'b'), { key: 'b', size: 5 }, 'once it succeeds')
  t.strictSame(made, ['STANDARD', 'STANDARD', 'STANDARD'], 'and names its class each time')
  answers.push(...Array.from({ length: 3 }, () => '<Error><Code>InternalError</Code></Error>'))
  await t.rejects(store.copy('a', 'b'), { code: 'Unavailable', message: /InternalError/ })
})

t.test('a copy of another size is not taken for one', async (t) => {
  const store = await misbehaving(t, (request, response) => {
    const size = request.url?.startsWith('/bucket/b') ? 4 : 5
    if (request.method === 'HEAD') return void response.writeHead(200, { etag: '"x"', 'content-length': size }).end()
    response.writeHead(200).end('<CopyObjectResult><ETag>"x"</ETag></CopyObjectResult>')
  })
  await t.rejects(store.copy('a', 'b'), { code: 'Unavailable', message: 'b has 4 bytes after a copy of 5' })
})

t.test('a source that was replaced since the copy began is Changed, where the server tells', async (t) => {
  const store = await misbehaving(t, (request, response) => {
    if (request.method === 'HEAD') return void response.writeHead(200, { etag: '"x"', 'content-length': 5 }).end()
    const isMatch = ['x-amz-copy-source-if-match', 'x-amz-copy-if-match'].every(
      (name) => request.headers[name] === '"x"',
    )
    response.writeHead(isMatch ? 412 : 400).end('<Error><Code>PreconditionFailed</Code></Error>')
  })
  await t.rejects(store.copy('a', 'b'), { code: 'Changed' })
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

const gateway = await startRadosGateway({ isTiered: true })
if (gateway) {
  t.teardown(() => gateway.stop())
  const store = openS3Store(gateway.s3)
  t.teardown(() => store.close())
  objectStoreContract(t, store)

  const rgw = gateway
  const { hostname, port } = new URL(rgw.s3.endpoint)
  const { accessKey, secretKey, region } = rgw.s3
  const admin = new Client({ endPoint: hostname, port: Number(port), useSSL: false, accessKey, secretKey, region })
  const open = (t: Test, options: Partial<S3Options>) => {
    const opened = openS3Store({ ...rgw.s3, ...options })
    t.teardown(() => opened.close())
    return opened
  }
  const uploadsOf = async (bucket: string, prefix: string) =>
    (await admin.listIncompleteUploadsQuery(bucket, prefix, '', '', '')).uploads.map(({ key }) => key)
  const withVersions = async (t: Test, name: string) => {
    const { bucket, ...s3 } = await rgw.makeBucket(name)
    await admin.setBucketVersioning(bucket, { Status: 'Enabled' })
    const versionsBelow = async (prefix: string) => {
      const names: unknown[] = []
      for await (const { name } of admin.listObjects(bucket, prefix, true, { IncludeVersion: true })) names.push(name)
      return names
    }
    return { versioned: open(t, { ...s3, bucket }), versionsBelow, bucket }
  }
  const PART = 5 * MIB

  t.test('one bucket, two classes', async (t) => {
    const classed = open(t, { coldClass: COLD_CLASS, copyPartBytes: PART })
    coldContract(t, classed, PART)
    await t.resolves(classed.checkColdTier())
    const classOf = async (key: string) => (await classed.head(key))?.storageClass
    const cold = 'class/cold/original'

    t.test('the class of a copy is that of its tier, there and back', async (t) => {
      await classed.put('class/original', 'x', textType)
      t.equal(await classOf('class/original'), 'STANDARD')
      t.equal((await classed.copy('class/original', cold)).storageClass, COLD_CLASS)
      t.equal(await classOf(cold), COLD_CLASS)
      await classed.copy(cold, 'class/back')
      t.equal(await classOf('class/back'), 'STANDARD')
    })

    t.test('and so is that of what is put there, whole or in parts', async (t) => {
      t.equal((await classed.put(cold, 'whole', textType)).storageClass, COLD_CLASS)
      t.equal(await classOf(cold), COLD_CLASS)
      await classed.put(cold, zeros(9 * MIB), textType)
      t.match(await classed.head(cold), { size: 9 * MIB, storageClass: COLD_CLASS, contentType: 'text/plain' })
      await classed.copy(cold, 'class/cold/large')
      t.match(await classed.head('class/cold/large'), { size: 9 * MIB, storageClass: COLD_CLASS, ...textType })
    })

    t.test('a class that the bucket does not have is a mistake of the settings', async (t) => {
      const unknown = open(t, { coldClass: 'NO_SUCH_CLASS' })
      const said = { code: 'BadConfiguration', message: /no storage class NO_SUCH_CLASS \(S3_COLD_CLASS\)/ }
      await t.rejects(unknown.checkColdTier(), said)
      await classed.put('class/original', 'x', textType)
      await t.rejects(unknown.copy('class/original', 'class/cold/other'), said)
      await t.rejects(unknown.createMultipart('class/cold/other', textType), said)
      t.equal(await classed.head('class/cold/other'), undefined)
      t.strictSame(await uploadsOf(rgw.s3.bucket, 'keepsake-check/'), [])
    })

    t.test('a copy in parts ends what an earlier one left, and leaves nothing when it fails', async (t) => {
      const at = 'leftover/cold/original'
      await classed.put('leftover/original', zeros(2 * PART), { ...textType, size: 2 * PART })
      await classed.createMultipart(at, textType)
      const other = await classed.createMultipart(`${at}2`, textType)
      let parts = 0
      const failing = async () => {
        if (++parts === 2) throw new Error('the lease is lost')
      }
      await t.rejects(classed.copy('leftover/original', at, { onPart: failing }), { message: 'the lease is lost' })
      t.equal(await classed.head(at), undefined)
      t.strictSame(await uploadsOf(rgw.s3.bucket, 'leftover/'), [`${at}2`], 'that of another key stays')
      await classed.abortMultipart(`${at}2`, other)
    })
  })

  t.test('two buckets, on disks of different kinds', async (t) => {
    const cold = await rgw.makeBucket('cold-tier', COLD_PLACEMENT)
    const config = {
      ...{ STORE_KIND: 's3', S3_ENDPOINT: rgw.s3.endpoint, S3_REGION: region },
      ...{ S3_BUCKET: rgw.s3.bucket, S3_ACCESS_KEY: accessKey, S3_SECRET_KEY: secretKey },
    }
    const openTiered = async (t: Test, more: Record<string, string>) => {
      const opened = await openObjectStore(loadConfig(StoreConfig, { ...config, ...more }))
      t.teardown(() => opened.close())
      return opened
    }
    const both = await openTiered(t, { S3_COLD_BUCKET: cold.bucket })
    coldContract(t, both)
    await t.resolves(both.checkColdTier())
    await both.put('two/original', 'x', textType)
    const { key } = await moveToCold(both, 'two/original')
    t.equal(await (await fetch((await both.presignGet(key, 60, 'text/plain')) ?? '')).text(), 'x')
    t.match(await both.presignGet(key, 60, 'text/plain'), /\/cold-tier\/two\/cold\/original/)
    t.equal(await store.head(key), undefined)

    t.test(
      'a bucket that is missing, and one whose disks have no such class, are mistakes of the settings',
      async (t) => {
        const missing = await openTiered(t, { S3_COLD_BUCKET: 'no-such-bucket' })
        await t.rejects(missing.checkColdTier(), { code: 'BadConfiguration', message: /no bucket no-such-bucket/ })
        const classless = await openTiered(t, { S3_COLD_BUCKET: cold.bucket, S3_COLD_CLASS: COLD_CLASS })
        await t.rejects(classless.checkColdTier(), { code: 'BadConfiguration', message: /no storage class GLACIER_IR/ })
        await t.rejects(moveToCold(classless, 'two/original', { sha256: '0'.repeat(64) }), { code: 'BadConfiguration' })
      },
    )
  })

  t.test('what the bucket locks is told from what it refuses, with the end of the lock', async (t) => {
    await admin.makeBucket('locking', region, { ObjectLocking: true })
    const locking = open(t, { bucket: 'locking' })
    const until = new Date(Math.ceil(Date.now() / 1000) * 1000 + 3_600_000)
    const lock = async (key: string, retainUntil: Date) => {
      const { versionId } = await admin.putObject('locking', key, Buffer.from('x'), 1)
      const retention = { mode: 'GOVERNANCE', retainUntilDate: retainUntil.toISOString(), versionId }
      // The declared type of the options is `never`.
      await admin.putObjectRetention('locking', key, retention as never)
      return versionId ?? ''
    }
    await lock('m/1/original', until)
    await lock('m/1/second', new Date(until.getTime() - 60_000))
    await locking.put('m/1/free', 'x', textType)
    /** By hand: tap takes any two dates for a match. */
    const refusalOf = (work: Promise<unknown>) =>
      work.then(
        () => 'nothing',
        ({ code, until: end }: StoreError) => [code, end?.toISOString()],
      )
    const locked = ['Locked', until.toISOString()]
    t.strictSame(await refusalOf(locking.deletePrefix('m/1/')), locked, 'all have to end')
    t.equal(await locking.head('m/1/free'), undefined, 'what is not locked is gone')
    t.strictSame(await refusalOf(locking.deleteForGood('m/1/original')), locked)
    t.ok(await locking.head('m/1/original'))
    // Only a marker, below which the object stays.
    await locking.delete('m/1/original')
    t.equal(await locking.head('m/1/original'), undefined)
    t.strictSame(await refusalOf(locking.deleteForGood('m/1/original')), locked)

    const held = await lock('m/2/original', until)
    // Declared without its promise.
    await Promise.resolve(admin.setObjectLegalHold('locking', 'm/2/original', { status: 'ON', versionId: held }))
    t.strictSame(await refusalOf(locking.deleteForGood('m/2/original')), ['Locked', undefined])
    await t.rejects(locking.deleteForGood('m/2/original'), { message: /by a legal hold/ })
    await Promise.resolve(admin.setObjectLegalHold('locking', 'm/2/original', { status: 'OFF', versionId: held }))
    t.strictSame(await refusalOf(locking.deleteForGood('m/2/original')), locked)

    await lock('m/3/original', new Date(Date.now() + 2000))
    await sleep(2500)
    await t.resolves(locking.deleteForGood('m/3/original'), 'once the lock has ended')
  })

  t.test('what is deleted for good cannot come back by an upload that is completed late', async (t) => {
    const key = 'back/original'
    await store.put(key, 'x', textType)
    const id = await store.createMultipart(key, textType)
    const part = await store.putPart(key, id, 1, zeros(10), { size: 10 })
    await store.put(`${key}2`, 'x', textType)
    const other = await store.createMultipart(`${key}2`, textType)
    await store.deleteForGood(key)
    await t.rejects(store.completeMultipart(key, id, [part]), { code: 'NotFound' })
    t.equal(await store.head(key), undefined)
    t.ok(await store.head(`${key}2`))
    t.strictSame(await uploadsOf(rgw.s3.bucket, 'back/'), [`${key}2`])
    await store.abortMultipart(`${key}2`, other)
  })

  t.test('in a bucket with versions, deletes them all below a prefix, and the delete markers', async (t) => {
    const { versioned, versionsBelow } = await withVersions(t, 'with-versions')
    for (const body of ['one', 'two', 'three']) await versioned.put('m/1/original', body, textType)
    await versioned.put('m/1/v1/master', 'x', textType)
    await versioned.delete('m/1/v1/master')
    await versioned.put('m/10/original', 'x', textType)
    t.equal((await versionsBelow('m/1/')).length, 5, 'three versions, one more and its delete marker')
    t.equal(await versioned.deletePrefix('m/1/'), 5)
    t.strictSame(await versionsBelow('m/1/'), [])
    t.equal(await versioned.deletePrefix('m/1/'), 0)
    t.equal((await versionsBelow('m/10/')).length, 1)
    for (const body of ['one', 'two']) await versioned.put('m/1/original', body, textType)
    await versioned.put('m/1/original2', 'x', textType)
    await versioned.delete('m/1/original')
    await versioned.deleteForGood('m/1/original')
    t.strictSame(await versionsBelow('m/1/'), ['m/1/original2'], 'of one object too, and of no other')
    await versioned.deleteForGood('m/1/none')
    t.strictSame(await versionsBelow('m/1/none'), [], 'adds no marker')
  })

  t.test('in a bucket with versions, what no purge looks at again goes with all of them', async (t) => {
    const { versioned, versionsBelow, bucket } = await withVersions(t, 'refused')
    await nothingLeftInVersions(t, {
      store: versioned,
      leftBelow: async (prefix) => [...(await versionsBelow(prefix)), ...(await uploadsOf(bucket, prefix))],
    })
  })

  t.test('the server completes an upload, and its answer gets lost', async (t) => {
    const faults: ('lost' | 'failure' | 'busy')[] = []
    const faulty = await misbehaving(
      t,
      (request, response) => {
        const isComplete = request.method === 'POST' && /[?&]uploadId=/.test(request.url ?? '')
        const fault = isComplete ? faults.shift() : undefined
        if (fault === 'busy') return void response.writeHead(503).end('<Error><Code>SlowDown</Code></Error>')
        const { method, url: path, headers } = request
        const forwarded = http.request(rgw.s3.endpoint, { method, path, headers, agent: false }, (answer) => {
          if (fault === undefined) {
            response.writeHead(answer.statusCode ?? 0, answer.headers)
            return void answer.pipe(response)
          }
          answer.resume().once('end', () => {
            if (fault === 'lost') request.socket.destroy()
            else response.writeHead(500).end('<Error><Code>InternalError</Code></Error>')
          })
        })
        request.pipe(forwarded)
      },
      { bucket: rgw.s3.bucket, accessKey, secretKey, region },
    )
    const size = 9 * MIB
    for (const fault of ['lost', 'failure', 'busy'] as const) {
      faults.push(fault)
      t.match(await faulty.put(`faulty/${fault}`, zeros(size), textType), { size, contentType: /./ }, fault)
      t.match(await store.head(`faulty/${fault}`), { size, ...textType })
    }
    faults.push('busy', 'busy', 'busy')
    await t.rejects(faulty.put('faulty/never', zeros(size), textType), { code: 'Unavailable', isSlowDown: true })
    t.equal(await store.head('faulty/never'), undefined)
    t.strictSame(await uploadsOf(rgw.s3.bucket, 'faulty/'), [])
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
