import { hash, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import { Client as S3Client } from 'minio'
import pg from 'pg'
import sharp from 'sharp'
import t from 'tap'
import * as z from 'zod'
import { RETENTION_POLICIES, type RetentionPolicy, type RunRecord } from '../../../crds/retention-policy.ts'
import { parseId, type Uuid } from '../../../lib/contract/ids.ts'
import { coldOriginalKey, mediaPrefix, originalKey } from '../../../lib/contract/object-keys.ts'
import { type KubeObject, PODS } from '../../../lib/runtime/kube/cluster.ts'
import { openS3Store } from '../../../lib/runtime/object-store/s3.ts'
import { eventually } from '../../support/eventually.ts'
import { shiftClock } from '../../support/retention.ts'
import { COLD_CLASS } from '../../support/services/radosgw.ts'
import { install } from '../node-support/installation.ts'
import { eventsIn } from '../node-support/jetstream.ts'
import type { PodSeen } from '../node-support/namespace.ts'
import { killPod } from '../node-support/pod-processes.ts'
import { API_URL, NEVER, RELEASE } from '../node-support/release.ts'

/** The policies of the chart on a real node, for nine years by the clock of the database. The tests follow each other. */
t.setTimeout(1_800_000)
const LOOK_MS = 300_000
/** Slow enough that a test can interfere with a run: so many bytes in a second are half of one photo below. */
const SLOW = 200_000
const POLICIES = {
  EventArchive: {
    schedule: '* * * * *',
    rules: [
      { after: 'P2Y', action: 'moveToTier', tier: 'cold' },
      { after: 'P7Y', action: 'purge' },
    ],
    batchSize: 1,
    parallelism: 2,
    bytesPerSecond: SLOW,
  },
  // Their runs are asked for.
  MediaTrash: { schedule: NEVER, rules: [{ after: 'P30D', action: 'purge' }] },
  Uploads: { schedule: NEVER, rules: [{ after: 'P1D', action: 'purge' }] },
}
const VALUES = Object.entries(POLICIES).flatMap(([target, spec]) => [
  '--set-json',
  `retention.policies.${target}=${JSON.stringify(spec)}`,
])

const it = await install(t, VALUES)
const { namespace, phone, release, services } = it
const { kubectl } = namespace
const database = new pg.Pool({ connectionString: services.databaseUrl, max: 4 })
database.on('error', () => {}) // its server is stopped first
t.teardown(() => database.end())
const store = openS3Store(services.s3)
t.teardown(() => store.close())
const s3 = clientOf(services.s3)
const { bucket } = services.s3
await s3.setBucketVersioning(bucket, { Status: 'Enabled' })

const EVENTS = `${RELEASE}-keepsake-event-archive`
const policy = (name = EVENTS) =>
  namespace.kube.get<RetentionPolicy & KubeObject>(RETENTION_POLICIES, { namespace: namespace.name, name })
const patch = (spec: object, name = EVENTS) =>
  kubectl('patch', 'rp', name, '--type=merge', '-p', JSON.stringify({ spec }))
const readyOf = (p: RetentionPolicy | undefined) => p?.status?.conditions?.find((c) => c.type === 'Ready')

/** The policy as soon as `is` says so; otherwise an error that says how far it came. */
async function until(what: string, is: (p: RetentionPolicy) => unknown, name = EVENTS): Promise<RetentionPolicy> {
  let seen: RetentionPolicy | undefined
  const look = async () => {
    seen = await policy(name)
    return seen && is(seen) ? seen : undefined
  }
  return eventually(what, look, LOOK_MS, 200).catch(async (cause: unknown) => {
    const pods = (await podsOfRuns()).map((p) => [p.metadata.name, p.status])
    throw new Error(`${what}: ${JSON.stringify({ status: seen?.status, pods }, undefined, 1)}`, { cause })
  })
}
/** The first run that ends from now on. */
async function nextRun(what: string, name = EVENTS): Promise<RunRecord> {
  const before = (await policy(name))?.status?.lastRun?.name
  const { status } = await until(what, (p) => p.status?.lastRun && p.status.lastRun.name !== before, name)
  return status?.lastRun as RunRecord
}
const podsOfRuns = () =>
  namespace.kube.list<PodSeen>(PODS, {
    namespace: namespace.name,
    labelSelector: 'app.kubernetes.io/component=retention',
  })
const isRunning = (p: PodSeen) => p.status?.phase === 'Running' && p.metadata.deletionTimestamp === undefined
const rows = async <T extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<T[]> =>
  (await database.query<T>(text, values)).rows
const count = async (text: string, values: unknown[] = []) => (await rows(text, values)).length

async function versionsBelow(prefix: string): Promise<string[]> {
  const found: string[] = []
  for await (const { name } of s3.listObjects(bucket, prefix, true, { IncludeVersion: true })) found.push(name ?? '')
  return found.sort()
}
const org = parseId('organization', phone.organization) as Uuid
const folder = t.testdir()

interface Photo {
  id: Uuid
  publicId: string
  bytes: Buffer
}
/** Noise, which no format makes small. */
async function photo(): Promise<Photo> {
  const [width, height] = [760, 500]
  const raw = { width, height, channels: 3 as const }
  const bytes = await sharp(randomBytes(width * height * 3), { raw })
    .jpeg({ quality: 90 })
    .toBuffer()
  const path = join(folder, `IMG_${hash('sha256', bytes).slice(0, 8)}.JPG`)
  await writeFile(path, bytes)
  const publicId = await phone.upload(path)
  return { id: parseId('media', publicId) as Uuid, publicId, bytes }
}

/** An event that people add photos to, until it is over. Its photos are uploaded for it: they go with it. */
async function anEvent(title: string) {
  const base = `/api/orgs/${phone.organization}`
  const start_at = new Date(Date.now() + 86_400_000).toISOString()
  const made = await phone.client.call('POST', `${base}/events`, { title, start_at })
  const { event_id } = z.object({ event_id: z.string() }).parse(made)
  const path = `${base}/events/${event_id}`
  await phone.client.call('POST', `${path}/activate`)
  const album = await phone.client.call('POST', `${base}/albums`, { title, event_id })
  const { album_id } = z.object({ album_id: z.string() }).parse(album)
  const photos = await Promise.all(Array.from({ length: 4 }, photo))
  for (const { publicId } of photos) {
    await phone.client.call('POST', `${base}/albums/${album_id}/media`, { media_id: publicId })
  }
  return { id: parseId('event', event_id) as Uuid, path, photos }
}

/** As the message of the condition says it. */
async function confirm(asking: RetentionPolicy): Promise<void> {
  const [, command = ''] = /until "kubectl (.*?)" confirms/.exec(readyOf(asking)?.message ?? '') ?? []
  await it.cluster.kubectl(...command.split(' '))
}

/** The run that was asked for by the annotation that the documentation names. */
async function runNow(name: string): Promise<RunRecord> {
  const ended = nextRun(`a run of ${name}`, name)
  const now = new Date().toISOString()
  await kubectl('annotate', '--overwrite', 'rp', name, `media.keepsake.dev/run-requested-at=${now}`)
  return ended
}

let archived: Awaited<ReturnType<typeof anEvent>>[] = []
let trashed: Photo
const photos = () => archived.flatMap((event) => event.photos)
const isHot = async ({ id }: Photo) => (await store.head(originalKey(org, id))) !== undefined

t.test('the chart brings a policy for each target, and one with a slot each minute runs', async (t) => {
  // The first install has made their kind.
  await release.upgrade(...VALUES)
  const names = (await kubectl('get', 'rp', '-o', 'jsonpath={.items[*].spec.target}')).split(' ').sort()
  t.same(names, ['AuditLog', 'EventArchive', 'MediaTrash', 'Notifications', 'PieceCache', 'Uploads'])
  const first = await until('a run', (p) => p.status?.lastRun)
  t.match(first.status?.lastRun, { ended: 'Finished', moved: 0, purged: 0, failures: 0, due: 0 })
  t.match(readyOf(first), { status: 'True' })
  const row = (await kubectl('get', 'rp', EVENTS)).split('\n')[1]
  t.match(row, new RegExp(`^${EVENTS} +EventArchive +\\* \\* \\* \\* \\* .*Finished +0 +0 +0 +\\S+Z +True `))
})

t.test('events end, a photo is deleted, an upload is abandoned', async (t) => {
  archived = [await anEvent('Graduation'), await anEvent('Wedding')]
  trashed = await photo()
  for (const { publicId } of [...photos(), trashed]) await phone.untilConverted(publicId)
  for (const { path } of archived) await phone.client.call('POST', `${path}/archive`)
  await phone.client.call('DELETE', `/api/media/${phone.organization}/${trashed.publicId}`)
  const file = { filename: 'a.mp4', mime_type: 'video/mp4', file_size_bytes: 2_000_000, chunk_size_bytes: 1_000_000 }
  const base = `/api/media/${phone.organization}/upload`
  const begun = z.object({ upload_id: z.string() }).parse(await phone.client.call('POST', base, file))
  await phone.client.put(`${base}/${begun.upload_id}/0`, randomBytes(1_000_000))
  t.ok((await Promise.all(photos().map(isHot))).every(Boolean))
})

t.test('after a leap of the clock nothing moves until a person has confirmed it', async (t) => {
  await shiftClock(database, '2 years 1 day')
  const asking = await until('a run that asks', (p) => p.status?.lastRun?.ended === 'ConfirmationRequired')
  t.match(asking.status?.lastRun, { moved: 0, due: 2, reason: /the last run was 73\d days ago/ })
  t.match(readyOf(asking), { status: 'False', reason: 'ConfirmationRequired' })
  await sleep(65_000)
  t.equal((await policy())?.status?.lastRun?.name, asking.status?.lastRun?.name, 'a later slot starts nothing')
  t.ok((await Promise.all(photos().map(isHot))).every(Boolean))

  await confirm(asking)
  await until('a run', (p) => p.status?.active)
  t.comment(`\n${await kubectl('get', 'rp')}\n${await kubectl('describe', 'rp', EVENTS)}`)
})

t.test(
  'a drained node does not end the run: its pods give back what they had, and others go on elsewhere',
  async (t) => {
    const twoPods = async (are: (p: PodSeen) => boolean) => {
      const running = (await podsOfRuns()).filter(isRunning).filter(are)
      return running.length === 2 ? running : undefined
    }
    const before = await eventually('two pods', () => twoPods(() => true), LOOK_MS, 100)
    const run = (await policy())?.status?.active ?? ''
    const { kubectl: asAdministrator } = it.cluster
    const node = (await asAdministrator('get', 'nodes', '-o', 'name')).trim()
    t.teardown(() => asAdministrator('uncordon', node))
    const pods = ['--pod-selector=app.kubernetes.io/component=retention', '--delete-emptydir-data']
    await asAdministrator('drain', node, ...pods, '--timeout=120s')
    await until('no node for the next pods', (p) => readyOf(p)?.reason === 'Unschedulable')
    t.match((await policy())?.status, { active: run, lastRun: { ended: 'ConfirmationRequired' } })
    t.equal(await count('select from events where lease_token is not null'), 0, 'nothing waits for the end of a lease')
    await asAdministrator('uncordon', node)
    const uids = before.map((p) => p.metadata.uid)
    await eventually('two others', () => twoPods((p) => !uids.includes(p.metadata.uid)), LOOK_MS, 100)
    t.equal(await kubectl('get', 'job', run, '-o', 'jsonpath={.status.failed}{.status.succeeded}'), '')
    await until('the run', (p) => readyOf(p)?.reason === 'Running')
    t.equal((await policy())?.status?.active, run)
  },
)

t.test('kill -9 of all pods of a run and of the operator: it goes on, and counts each original once', async (t) => {
  const moved = () => count(`select from media where original_tier <> 'hot'`)
  const pods = await eventually(
    'two pods that have moved something',
    async () => {
      const running = (await podsOfRuns()).filter(isRunning)
      return running.length === 2 && (await moved()) > 0 ? running : undefined
    },
    LOOK_MS,
    100,
  )
  await killLeader()
  for (const pod of pods) killPod(pod.metadata.uid ?? '')
  const before = await moved()
  t.ok(before < 8, `${before} of 8 originals had moved`)
  // The pods have left leases of ten minutes, which end here.
  await eventually(
    'pods that ended',
    async () => (await podsOfRuns()).every((p) => p.status?.phase !== 'Running'),
    LOOK_MS,
    100,
  )
  await database.query('update events set lease_at = now() where lease_token is not null')

  const { status } = await until(
    'its end',
    (p) => p.status?.lastRun?.ended === 'Finished' && p.status.lastRun.moved > 0,
  )
  const bytes = photos().reduce((sum, p) => sum + p.bytes.length, 0)
  t.match(status?.lastRun, {
    moved: 2,
    purged: 0,
    bytes,
    failures: 0,
    due: 2,
    name: status?.lastConfirmation?.answer.split(' ').at(-1),
  })
  t.match(status?.lastConfirmation, { answer: /^Started run / })
  for (const { id } of archived) {
    t.equal(await count(`select from audit_log where action = 'EVENT_COLD_TIER' and resource_id = $1`, [id]), 1)
  }
})

t.test('the originals lie in the cold class and nowhere else, and are delivered as before', async (t) => {
  for (const { id, publicId, bytes } of photos()) {
    const { metaData } = await s3.statObject(bucket, coldOriginalKey(org, id))
    t.equal(metaData['x-amz-storage-class'] ?? metaData['storage-class'], COLD_CLASS, JSON.stringify(metaData))
    t.strictSame(await versionsBelow(originalKey(org, id)), [], 'no version of the first copy')
    const { original_url } = await phone.media(publicId)
    const answer = await fetch(original_url)
    t.equal(answer.status, 200)
    t.ok(bytes.equals(Buffer.from(await answer.arrayBuffer())), 'byte for byte')
  }
  const Event = z.object({ purge_at: z.string() })
  const { purge_at } = Event.parse(await phone.client.call('GET', archived[0]?.path ?? ''))
  t.equal(new Date(purge_at).getUTCFullYear(), new Date().getUTCFullYear() + 7)
})

t.test('a dry run says what it would purge, and leaves it', async (t) => {
  await patch({ dryRun: true })
  await shiftClock(database, '7 years 10 days')
  // As if the owner had been told in time: event-archive/notices.ts tests that purges wait for it.
  await database.query(
    `update events set purge_notice = 2, purge_notice_for = date_trunc('milliseconds', app_now()), purge_notice_to = owner_id
       where archived_at is not null`,
  )
  const { status } = await until('a dry run', (p) => p.status?.lastRun?.dryRun && p.status.lastRun.purged > 0)
  t.match(status?.lastRun, { ended: 'Finished', purged: 2, moved: 0, report: String })
  const report = await buffer(await s3.getObject(bucket, status?.lastRun?.report ?? ''))
  const lines = gunzipSync(report).toString().trim().split('\n')
  t.match(
    lines.map((line) => JSON.parse(line)),
    [
      { action: 'purge', held: false },
      { action: 'purge', held: false },
    ],
  )
  t.equal(await count(`select from events where status = 'archived'`), 2)
  t.equal(await count('select from media'), 9)
})

t.test('suspend stops a run in the middle, and nothing starts until it is lifted', async (t) => {
  await patch({ dryRun: false })
  // A dry run answers for nothing: the clock has leapt again.
  await confirm(await until('a run that asks', (p) => readyOf(p)?.reason === 'ConfirmationRequired'))
  await eventually('a photo purged', async () => (await count('select from media')) < 9, LOOK_MS, 100)
  await patch({ suspend: true })
  const { status } = await until('its end', (p) => readyOf(p)?.reason === 'Suspended')
  t.match(status?.lastRun, { ended: 'Stopped', purged: 0, failures: 0 })
  t.equal(status?.active, undefined)
  t.strictSame((await podsOfRuns()).filter(isRunning), [])
  const left = await count('select from media')
  t.ok(left > 1, `${left} media items left`)
  await sleep(65_000)
  t.equal((await policy())?.status?.lastRun?.name, status?.lastRun?.name)
  t.equal(await count('select from media'), left)
})

t.test('a node that goes away during a run is told of; what its pods did counts when it is back', async (t) => {
  const { faults } = it.cluster
  t.teardown(() => faults?.startKubelet().catch(() => {}))
  await patch({ suspend: false })
  const run = (await until('a run', (p) => p.status?.active)).status?.active
  await eventually('two pods', async () => (await podsOfRuns()).filter(isRunning).length === 2, LOOK_MS, 100)
  await faults?.stopKubelet()
  await until('NodeUnreachable', (p) => readyOf(p)?.reason === 'NodeUnreachable')
  await eventually('the events gone', async () => (await count('select from events')) === 0, LOOK_MS, 200)
  t.match((await policy())?.status, { active: run }, 'that it has ended is not known yet')
  await faults?.startKubelet()
  const { status } = await until('its end', (p) => p.status?.lastRun?.name === run)
  t.match(status?.lastRun, { ended: 'Finished', purged: 2, failures: 0 })
})

t.test('seven years after their end the events are gone, with objects, versions and rows', async (t) => {
  // The API's pods are ready again some seconds after their node, and the next run may wait for it.
  await eventually(
    'the API at its Service',
    () =>
      fetch(`${API_URL}/health`).then(
        ({ ok }) => ok,
        () => false,
      ),
    LOOK_MS,
    200,
  )
  await until('ready', (p) => readyOf(p)?.status === 'True')
  for (const { id, path, photos } of archived) {
    await t.rejects(phone.client.call('GET', path), /404/)
    t.equal(await count(`select from audit_log where action = 'EVENT_PURGED' and resource_id = $1`, [id]), 1)
    for (const photo of photos) {
      t.strictSame(await versionsBelow(mediaPrefix(org, photo.id)), [])
      const purges = `select from audit_log where action = 'MEDIA_DELETE' and resource_id = $1 and details ->> 'operation' = 'purge'`
      t.equal(await count(purges, [photo.id]), 1)
    }
  }
  t.equal(await count('select from events'), 0)
  t.equal(await count('select from media'), 1, 'the one in the trash, which has a policy of its own')
  const told = async () => {
    const purged = (await eventsIn(services.natsUrl)).filter((e) => e.type === 'MediaPurged')
    return purged.length >= 8 && purged.map((e) => (e.data as { media_id: string }).media_id).sort()
  }
  const announced = await eventually('MediaPurged in JetStream', told, LOOK_MS, 500)
  t.same(
    announced,
    photos()
      .map((p) => p.publicId)
      .sort(),
    'each of them once',
  )
})

t.test('runs that a person asks for, and confirms, purge the trash and abandoned uploads', async (t) => {
  await database.query(`update uploads set expires_at = now() - interval '2 days' where state = 'open'`)
  const names = ['media-trash', 'uploads'].map((name) => `${RELEASE}-keepsake-${name}`)
  // The worker swept these targets until their policies came, and the clock has leapt by years since.
  for (const asked of await Promise.all(names.map(runNow))) {
    t.match(asked, { ended: 'ConfirmationRequired', purged: 0, reason: /the last run was \d{4} days ago/ })
  }
  const [trash, uploads] = await Promise.all(
    names.map(async (name) => {
      const ended = nextRun(`the confirmed run of ${name}`, name)
      await confirm(await until('a question', (p) => readyOf(p)?.reason === 'ConfirmationRequired', name))
      return ended
    }),
  )
  t.match(trash, { ended: 'Finished', purged: 1, failures: 0 })
  t.match(uploads, { ended: 'Finished', failures: 0 })
  t.ok((uploads?.purged ?? 0) >= 1)
  t.strictSame(await versionsBelow(mediaPrefix(org, trashed.id)), [])
  t.strictSame(await versionsBelow(`org/${org}/staging/`), [])
  t.equal(await count('select from media'), 0)
  t.equal(await count(`select from uploads where storage_released_at is null`), 0)
  t.comment(
    `\n${await kubectl('get', 'rp')}\n${await kubectl('get', 'rp', '-o', 'wide')}\n${await kubectl('describe', 'rp', EVENTS)}`,
  )
})

t.test('helm uninstall keeps the policies, and without the operator they can be deleted', async (t) => {
  await patch({ suspend: true })
  await until('nothing runs', (p) => readyOf(p)?.reason === 'Suspended')
  await release.helm('uninstall', RELEASE, '--wait', '--timeout', '5m')
  t.equal((await kubectl('get', 'rp', '-o', 'name')).trim().split('\n').length, 6)
  await kubectl('delete', 'rp', '--all', '--timeout=60s')
  t.equal((await kubectl('get', 'rp', '-o', 'name')).trim(), '')
})

async function killLeader(): Promise<void> {
  const lease = ['get', 'lease', `${RELEASE}-keepsake-operator`, '-o', 'jsonpath={.spec.holderIdentity}']
  const name = (await kubectl(...lease)).split('_')[0]
  const all = await namespace.kube.list<PodSeen>(PODS, { namespace: namespace.name })
  killPod(all.find((p) => p.metadata.name === name)?.metadata.uid ?? '')
}

/** Looks at the store as its administrator does. */
function clientOf(o: typeof services.s3): S3Client {
  const { hostname, port } = new URL(o.publicEndpoint ?? o.endpoint)
  const { accessKey, secretKey, region } = o
  return new S3Client({ endPoint: hostname, port: Number(port), useSSL: false, accessKey, secretKey, region })
}
