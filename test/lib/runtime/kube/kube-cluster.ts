import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { KubeConfig } from '@kubernetes/client-node'
import { pino } from 'pino'
import t from 'tap'
import { TRANSCODE_JOBS } from '../../../../crds/transcode-job.ts'
import { ClusterError, isClusterError, type KubeObject, LEASES } from '../../../../lib/runtime/kube/cluster.ts'
import type { RequestSeen } from '../../../../lib/runtime/kube/http.ts'
import { type KubeClusterOptions, openKubeCluster } from '../../../../lib/runtime/kube/kube-cluster.ts'
import { type ApiServerOptions, startApiServer } from '../../../support/api-server.ts'
import { eventually } from '../../../support/eventually.ts'

interface Lease extends KubeObject {
  spec: { leaseTransitions: number; leaseDurationSeconds?: number }
}
const key = (name: string) => ({ namespace: 'media', name })
const aLease = (name: string, change: { metadata?: object; spec?: object } = {}): Lease => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { name, namespace: 'media', labels: { team: 'a' }, ...change.metadata },
  spec: { leaseTransitions: 1, ...change.spec },
})
const quick = { minBackoffMs: 5, maxBackoffMs: 40, shortWatchMs: 50 }
const silent = pino({ level: 'silent' })

async function open(
  t: { teardown(fn: () => Promise<void>): unknown },
  server: ApiServerOptions = {},
  options: Partial<KubeClusterOptions> = {},
) {
  const api = await startApiServer(server)
  const config = new KubeConfig()
  config.loadFromClusterAndUser(
    { name: 'test', server: api.url, skipTLSVerify: true },
    { name: 'test', ...(server.token && { token: server.token() }) },
  )
  const cluster = openKubeCluster({ log: silent, config, times: quick, ...options })
  t.teardown(async () => {
    await cluster.close()
    await api.close()
  })
  return { api, cluster }
}

/** A reflection with a diary of what it was told. */
function follow(cluster: Awaited<ReturnType<typeof open>>['cluster'], labelSelector?: string) {
  const diary: string[] = []
  const errors: unknown[] = []
  const reflection = cluster.reflect<Lease>(
    LEASES,
    {
      onSet: (o, old) => diary.push(`${old ? 'changed' : 'new'} ${o.metadata.name} ${o.spec.leaseTransitions}`),
      onDelete: (o) => diary.push(`gone ${o.metadata.name}`),
      onError: (error) => errors.push(error),
    },
    { namespace: 'media', ...(labelSelector && { labelSelector }) },
  )
  return { reflection, diary, errors }
}
const watchesOf = (api: { seen: { query: URLSearchParams }[] }) => api.seen.filter((r) => r.query.has('watch'))
const reasonOf = async (call: Promise<unknown>) => {
  const error = await call.then(
    () => undefined,
    (e: unknown) => e,
  )
  return error instanceof ClusterError ? error.reason : error
}

t.test('a cache is filled page by page, and follows what happens afterwards', async (t) => {
  const { api, cluster } = await open(t, { page: 2 })
  for (const n of ['a', 'b', 'c', 'd', 'e']) await cluster.create(LEASES, aLease(n))
  const { reflection, diary } = follow(cluster)
  await reflection.synced()
  t.equal(reflection.list().length, 5)
  t.equal(api.seen.filter((r) => r.method === 'GET' && !r.query.get('watch')).length, 3, 'three pages of two')
  t.match(reflection.get(key('a')), { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' }, 'as whole as from a get')

  await eventually('watch', () => api.watching())
  await cluster.patch(LEASES, key('a'), { spec: { leaseTransitions: 2 } })
  await cluster.delete(LEASES, key('b'))
  await eventually('both changes', () => diary.includes('gone b'))
  t.strictSame(diary.slice(-2), ['changed a 2', 'gone b'])
  t.equal(reflection.get(key('b')), undefined)
})

t.test('where lists can be streamed, no page is asked for, neither at the start nor after 410', async (t) => {
  const { api, cluster } = await open(t, { streamsLists: true })
  for (const n of ['a', 'b', 'c']) await cluster.create(LEASES, aLease(n))
  const { reflection, diary, errors } = follow(cluster)
  await reflection.synced()
  t.strictSame(diary, ['new a 1', 'new b 1', 'new c 1'])
  await eventually('watch', () => api.watching())
  await cluster.patch(LEASES, key('a'), { spec: { leaseTransitions: 2 } })
  await eventually('the change', () => diary.includes('changed a 2'))

  api.failNext({ match: (r) => r.query.get('watch') === 'true', status: 500 })
  api.dropConnections()
  await cluster.delete(LEASES, key('b')).catch(() => cluster.delete(LEASES, key('b')))
  await cluster.create(LEASES, aLease('d'))
  api.compact()
  await eventually('what happened meanwhile', () => diary.includes('gone b') && diary.includes('new d 1'))
  t.strictSame(diary.slice(4).sort(), ['gone b', 'new d 1'])
  t.ok(errors.length > 0)
  t.strictSame(
    api.seen.filter((r) => r.query.has('limit')),
    [],
  )
})

t.test('only objects with the label enter a cache that asks for it', async (t) => {
  const { api, cluster } = await open(t)
  await cluster.create(LEASES, aLease('a'))
  await cluster.create(LEASES, aLease('b', { metadata: { labels: {} } }))
  const { reflection } = follow(cluster, 'team=a')
  await reflection.synced()
  await eventually('watch', () => api.watching())
  await cluster.create(LEASES, aLease('c', { metadata: { labels: { team: 'b' } } }))
  await cluster.create(LEASES, aLease('d'))
  await eventually('d', () => reflection.get(key('d')))
  t.strictSame(
    reflection.list().map((j) => j.metadata.name),
    ['a', 'd'],
  )
})

t.test('a broken connection is resumed from the last bookmark, without a new list', async (t) => {
  const { api, cluster } = await open(t)
  await cluster.create(LEASES, aLease('a'))
  const { reflection, diary, errors } = follow(cluster)
  await reflection.synced()
  await eventually('watch', () => api.watching())
  await cluster.create(LEASES, { ...aLease('other'), metadata: { name: 'other', namespace: 'elsewhere' } })
  const version = api.bookmark()
  await sleep(20)
  api.dropConnections()
  await cluster.create(LEASES, aLease('b')).catch(() => cluster.create(LEASES, aLease('b')))
  await eventually('b', () => reflection.get(key('b')))
  const watches = watchesOf(api)
  t.equal(watches.at(-1)?.query.get('resourceVersion'), String(version))
  t.equal(api.seen.filter((r) => r.method === 'GET' && !r.query.get('watch')).length, 1, 'listed once')
  t.strictSame(diary, ['new a 1', 'new b 1'])
  t.ok(errors.every((e) => isClusterError(e, 'Unavailable')))
  t.ok(errors.length > 0)
})

t.test(
  'a version that is too old leads to a new list, which reports what vanished and what was re-created',
  async (t) => {
    const { api, cluster } = await open(t)
    for (const n of ['keeps', 'vanishes', 'returns']) await cluster.create(LEASES, aLease(n))
    const { reflection, diary } = follow(cluster)
    await reflection.synced()
    await eventually('watch', () => api.watching())
    api.failNext({ match: (r) => r.query.has('watch'), status: 500 })
    api.dropConnections()
    api.store.delete(LEASES, key('vanishes'))
    api.store.delete(LEASES, key('returns'))
    api.store.create(LEASES, aLease('returns', { spec: { leaseTransitions: 9 } }))
    api.compact()
    diary.length = 0
    await eventually('relist', () => diary.length >= 3)
    t.strictSame([...diary].sort(), ['gone returns', 'gone vanishes', 'new returns 9'])
    t.ok(diary.indexOf('gone returns') < diary.indexOf('new returns 9'))
  },
)

t.test('an ERROR event of 410 inside the stream leads to a new list as well', async (t) => {
  const { api, cluster } = await open(t)
  const { reflection } = follow(cluster)
  await reflection.synced()
  await eventually('watch', () => api.watching())
  api.sendRaw({ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired', message: 'too old' } })
  await eventually(
    'second list',
    () => api.seen.filter((r) => r.method === 'GET' && !r.query.get('watch')).length === 2,
  )
  await cluster.create(LEASES, aLease('a'))
  await eventually('a', () => reflection.get(key('a')))
})

t.test('a server that ends every watch at once is not asked in a hot loop', async (t) => {
  const { api, cluster } = await open(t)
  const { reflection, errors } = follow(cluster)
  await reflection.synced()
  const begun = performance.now()
  await eventually('a dozen ends', () => {
    api.endWatches()
    return errors.length >= 12
  })
  const ms = performance.now() - begun
  const watches = watchesOf(api).length
  t.ok(watches < 10 + ms / 10, `${watches} watches in ${Math.round(ms)} ms`)
})

t.test('a watch that falls silent is opened anew, and everything is listed again from time to time', async (t) => {
  const { api, cluster } = await open(t, {}, { times: { ...quick, idleMs: 60, relistMs: 400 } })
  const { reflection, errors } = follow(cluster)
  await reflection.synced()
  await eventually('silence noticed', () => errors.length >= 2)
  t.match(errors[0], { message: 'The watch fell silent' })
  await eventually('relist', () => api.seen.filter((r) => r.method === 'GET' && !r.query.get('watch')).length >= 2)
})

for (const streamsLists of [true, false]) {
  t.test(`a list that falls silent is given up and repeated, ${streamsLists ? 'streamed' : 'in pages'}`, async (t) => {
    const { api, cluster } = await open(t, { streamsLists }, { times: { ...quick, idleMs: 100 } })
    await cluster.create(LEASES, aLease('a'))
    // The head of an answer whose rest never comes: a server that hangs behind a proxy.
    const match = ({ query }: { query: URLSearchParams }) => query.has(streamsLists ? 'sendInitialEvents' : 'limit')
    api.failNext({ match, status: 200, headers: { 'content-length': '100' } })
    const { reflection, diary, errors } = follow(cluster)
    await reflection.synced()
    t.match(errors[0], { reason: 'Unavailable', message: 'The list fell silent' })
    t.strictSame(diary, ['new a 1'])
  })
}

t.test('a failing list is repeated until it succeeds, no sooner than the server asked', async (t) => {
  const { api, cluster } = await open(t)
  const match = () => true
  api.failNext({ match, status: 500, body: 'boom' })
  api.failNext({ match, status: 429, headers: { 'retry-after': '1' } })
  const startedAt = performance.now()
  const { reflection, errors } = follow(cluster)
  await reflection.synced()
  t.ok(performance.now() - startedAt >= 1000)
  t.match(errors, [{ reason: 'Unavailable' }, { reason: 'TooManyRequests', retryAfterSeconds: 1 }])
})

t.test('a handler that throws costs neither the cache nor the stream', async (t) => {
  const { api, cluster } = await open(t)
  const errors: unknown[] = []
  const reflection = cluster.reflect<Lease>(LEASES, {
    onSet: () => {
      throw new Error('bug')
    },
    onDelete: () => {},
    onError: (e) => errors.push(e),
  })
  await reflection.synced()
  await eventually('watch', () => api.watching())
  await cluster.create(LEASES, aLease('a'))
  await cluster.create(LEASES, aLease('b'))
  await eventually('b', () => reflection.get(key('b')))
  t.match(errors, [{ message: 'bug' }, { message: 'bug' }])
})

t.test('stop ends the stream for good, also during a list', async (t) => {
  const { api, cluster } = await open(t)
  const { reflection } = follow(cluster)
  await reflection.stop()
  t.equal(await reasonOf(reflection.synced()), 'Unavailable')
  const second = follow(cluster)
  await second.reflection.synced()
  await eventually('watch', () => api.watching() === 1)
  await second.reflection.stop()
  await eventually('no watch', () => api.watching() === 0)
  const asked = api.seen.length
  await sleep(60)
  t.equal(api.seen.length, asked)
})

t.test('failures carry the reason of the API server', async (t) => {
  const { api, cluster } = await open(t)
  const made = await cluster.create<Lease>(LEASES, aLease('a'))
  t.equal(await reasonOf(cluster.create(LEASES, aLease('a'))), 'AlreadyExists')
  t.equal(await reasonOf(cluster.create(LEASES, aLease('x', { spec: { leaseDurationSeconds: 0 } }))), 'Invalid')
  t.equal(await reasonOf(cluster.create(LEASES, aLease('x', { metadata: { namespace: undefined } }))), 'Invalid')
  t.equal(await cluster.get(LEASES, key('nobody')), undefined)
  t.equal(await reasonOf(cluster.patch(LEASES, key('nobody'), {})), 'NotFound')
  t.equal(await reasonOf(cluster.applyStatus(LEASES, key('nobody'), {}, 'm')), 'NotFound')
  await cluster.delete(LEASES, key('nobody'))
  t.equal(await reasonOf(cluster.delete(LEASES, key('a'), { uid: 'other' })), 'Conflict')
  await cluster.replace<Lease>(LEASES, { ...made, spec: { leaseTransitions: 2 } })
  t.equal(await reasonOf(cluster.replace<Lease>(LEASES, { ...made, spec: { leaseTransitions: 3 } })), 'Conflict')
  t.equal(await reasonOf(cluster.replace<Lease>(LEASES, aLease('a'))), 'Invalid', 'never an unguarded replace')
  const stale = { metadata: { resourceVersion: made.metadata.resourceVersion }, spec: { leaseTransitions: 4 } }
  t.equal(await reasonOf(cluster.patch(LEASES, key('a'), stale)), 'Conflict')
  const unknown = { group: 'media.keepsake.dev', version: 'v1', plural: 'nothings', kind: 'Nothing' }
  t.equal(await reasonOf(cluster.get(unknown, key('a'))), 'Unavailable', 'a missing CRD is not a missing object')
  for (const [status, reason] of [
    [403, 'Forbidden'],
    [410, 'Gone'],
    [429, 'TooManyRequests'],
    [500, 'Unavailable'],
    [503, 'Unavailable'],
  ] as const) {
    api.failNext({ match: () => true, status })
    t.equal(await reasonOf(cluster.get(LEASES, key('a'))), reason, String(status))
  }
  await api.close()
  t.equal(await reasonOf(cluster.get(LEASES, key('a'))), 'Unavailable', 'nobody listens')
})

t.test('status is sent as server-side apply, tied to the version', async (t) => {
  const { api, cluster } = await open(t)
  const input = { id: 'a', type: 'video', sourceKey: 'a/original', outputPrefix: 'a/v1/' }
  const { metadata } = await cluster.create<KubeObject>(TRANSCODE_JOBS, {
    metadata: { name: 'a', namespace: 'media' },
    spec: { inputs: [input] },
  })
  const after = await cluster.applyStatus<KubeObject>(
    TRANSCODE_JOBS,
    { ...key('a'), resourceVersion: metadata.resourceVersion as string },
    { attempts: 1 },
    'one',
  )
  t.strictSame(after.status, { attempts: 1 })
  const sent = api.seen.at(-1)
  t.match(sent, { method: 'PATCH', contentType: 'application/apply-patch+yaml', path: /\/transcodejobs\/a\/status$/ })
  t.match(Object.fromEntries(sent?.query ?? []), { fieldManager: 'one', force: 'true' })
  t.match(sent?.body, {
    kind: 'TranscodeJob',
    metadata: { name: 'a', resourceVersion: metadata.resourceVersion },
    status: { attempts: 1 },
  })
})

t.test('deleting takes along what the object owned and may be tied to one uid', async (t) => {
  const { api, cluster } = await open(t)
  const { metadata } = await cluster.create<Lease>(LEASES, aLease('a'))
  await cluster.delete(LEASES, key('a'), { uid: metadata.uid as string })
  t.match(api.seen.at(-1)?.body, { propagationPolicy: 'Background', preconditions: { uid: metadata.uid } })
  t.equal(await cluster.get(LEASES, key('a')), undefined)
})

t.test('a list comes whole, however small its pages', async (t) => {
  const { cluster } = await open(t, { page: 2 })
  for (const n of ['a', 'b', 'c', 'd', 'e']) await cluster.create(LEASES, aLease(n))
  const all = await cluster.list<Lease>(LEASES, { namespace: 'media', labelSelector: 'team=a' })
  t.strictSame(
    all.map((j) => j.metadata.name),
    ['a', 'b', 'c', 'd', 'e'],
  )
  t.strictSame(await cluster.list(LEASES, { namespace: 'elsewhere' }), [])
})

t.test('calls share a few connections and are held to their rate', async (t) => {
  const seen: RequestSeen[] = []
  const onRequest = (s: RequestSeen) => void seen.push(s)
  const { api, cluster } = await open(t, {}, { perSecond: 100, burst: 20, onRequest })
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: 60 }, () => cluster.get(LEASES, key('a'))))
  t.ok(performance.now() - startedAt >= 350, '20 at once, 40 more at 100 a second')
  t.ok(api.connections() <= 16, `${api.connections()} connections`)
  t.equal(seen.length, 60)
  t.match(seen[0], { method: 'GET', code: '404', host: /^127/ })
})

t.test('an answer that never comes ends in Unavailable', async (t) => {
  const { api, cluster } = await open(t, {}, { timeoutMs: 100 })
  api.failNext({ match: () => true, status: 200, headers: { 'content-length': '100' }, body: '{' })
  t.equal(await reasonOf(cluster.get(LEASES, key('a'))), 'Unavailable')
})

t.test('a token that was rotated on disk is read again after a 401', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'kube-'))
  const tokenFile = join(dir, 'token')
  writeFileSync(tokenFile, 'first')
  let valid = 'first'
  const api = await startApiServer({ token: () => valid })
  const config = new KubeConfig()
  config.loadFromClusterAndUser({ name: 'test', server: api.url, skipTLSVerify: true }, {
    name: 'test',
    authProvider: { name: 'tokenFile', config: { tokenFile } },
  } as never)
  const cluster = openKubeCluster({ log: silent, config })
  t.teardown(async () => {
    await cluster.close()
    await api.close()
    rmSync(dir, { recursive: true })
  })
  await cluster.create(LEASES, aLease('a'))
  valid = 'second'
  t.equal(await reasonOf(cluster.get(LEASES, key('a'))), 'Forbidden', 'a token that stays wrong is refused')
  t.equal(api.seen.filter((r) => r.method === 'GET').length, 2, 'after one more try')
})

t.test('TLS with a private CA: connections are kept, and a stranger is refused', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'kube-tls-'))
  const [keyFile, certFile] = [join(dir, 'key.pem'), join(dir, 'cert.pem')]
  const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1', '-days', '2']
  const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  execFileSync('openssl', ['req', '-x509', ...ec, '-keyout', keyFile, '-out', certFile, ...subject], {
    stdio: 'ignore',
  })
  const cert = readFileSync(certFile, 'utf8')
  const api = await startApiServer({ tls: { key: readFileSync(keyFile, 'utf8'), cert } })
  const clusterWith = (caData: string | undefined) => {
    const config = new KubeConfig()
    const trust = caData === undefined ? {} : { caData: Buffer.from(caData).toString('base64') }
    config.loadFromClusterAndUser({ name: 'c', server: api.url, skipTLSVerify: false, ...trust }, { name: 'u' })
    return openKubeCluster({ log: silent, config })
  }
  const cluster = clusterWith(cert)
  const stranger = clusterWith(undefined)
  t.teardown(async () => {
    await cluster.close()
    await stranger.close()
    await api.close()
    rmSync(dir, { recursive: true })
  })
  for (let i = 0; i < 20; i++) await cluster.get(LEASES, key('a'))
  t.ok(api.connections() <= 2, `twenty calls over ${api.connections()} connections`)
  t.equal(await reasonOf(stranger.get(LEASES, key('a'))), 'Unavailable', 'an unknown CA is not trusted')
})
