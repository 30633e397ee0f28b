import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { recordMedia } from '../../api/features/media/commands.ts'
import { CONVERSIONS } from '../../api/features/media/conversion/kind.ts'
import { batchJobName, transcodeJobName } from '../../api/features/media/conversion/transcode-spec.ts'
import { changesOf } from '../../api/requests/change.ts'
import { findRun } from '../../api/worker/runs/queries.ts'
import { startRun } from '../../api/worker/runs/start.ts'
import { type RunProgress, type RunStatus, SUCCEEDED } from '../../crds/run.ts'
import { TRANSCODE_JOBS, type TranscodeJob } from '../../crds/transcode-job.ts'
import type { OutboxMessage } from '../../lib/contract/events.ts'
import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { IMAGE_FILES, type ImageManifest, type VideoManifest } from '../../lib/contract/manifest.ts'
import { manifestKey, masterKey, originalKey, outputPrefix } from '../../lib/contract/object-keys.ts'
import { systemClock } from '../../lib/runtime/clock.ts'
import type { Cluster } from '../../lib/runtime/kube/cluster.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import { openLocalCluster } from '../../local/cluster/local-cluster.ts'
import { type TestDatabase, testDatabase } from './database.ts'
import { testPersonalData } from './personal-data.ts'
import { quietLog } from './quiet-log.ts'

export const NAMESPACE = 'media'

interface Teardown {
  teardown(done: () => Promise<void>): void
}

/** A store in a folder that is removed when the test ends. */
export async function testStore(t: Teardown) {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-worker-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
  const storeFolder = join(folder, 'objects')
  return { folder, storeFolder, store: openFolderStore({ folder: storeFolder }) }
}

/** The resources of other kinds, for sweeps: none. */
export const emptyQueue = () => []

/** An in-process cluster in which nobody acts but the test. */
export function testCluster(t: Teardown) {
  const cluster = openLocalCluster({ closeGraceSeconds: 0 })
  t.teardown(() => cluster.close())
  return cluster
}

/** What tests of conversions begin with: an organization, and what each of its workers needs. */
export async function startConversionTest(t: Parameters<typeof testDatabase>[0] & Teardown) {
  const database = await testDatabase(t)
  const place = await testStore(t)
  const cluster = testCluster(t)
  const world = await conversionWorld(database, place, cluster)
  const { worker: db, admin } = database
  const base = { db, store: place.store, cluster, namespace: NAMESPACE, log: quietLog(), clock: systemClock }
  /** As if nothing had been uploaded. */
  async function clear(): Promise<void> {
    await admin.query('delete from media')
    for (const { metadata } of await world.jobs()) {
      await cluster.delete(TRANSCODE_JOBS, { namespace: NAMESPACE, name: metadata.name })
    }
  }
  return { database, place, cluster, world, base, clear }
}

/** What tells a worker about a media item. */
export const mediaEvent = (type: 'MediaUploaded' | 'MediaDeleted', aggregateId: Uuid, orgId: Uuid): OutboxMessage => ({
  id: newUuid(),
  orgId,
  area: 'media',
  aggregateId,
  aggregateVersion: 1,
  type,
  payload: {},
  createdAt: new Date(),
  traceparent: null,
})

export type ConversionWorld = Awaited<ReturnType<typeof conversionWorld>>

/** An organization with media, their originals, and the few words in which tests speak of conversions. */
export async function conversionWorld(
  { db, worker, admin }: TestDatabase,
  { store }: Pick<Awaited<ReturnType<typeof testStore>>, 'store'>,
  cluster: Cluster,
) {
  const [org, user] = [newUuid(), newUuid()]
  await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [user, 'test', user])
  await admin.query('insert into organizations (id, name) values ($1, $2)', [org, 'Friends'])
  await admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [org, user])
  const deps = { db: worker, cluster, namespace: NAMESPACE, log: quietLog() }

  async function upload(mimeType = 'video/mp4', { by = user, bytes = 5 } = {}): Promise<Uuid> {
    const id = newUuid()
    await store.put(originalKey(org, id), 'bytes', { contentType: mimeType })
    const kind = mimeType.startsWith('video/') ? 'video' : 'image'
    const file = { originalFilename: 'holiday', mimeType, kind, fileSizeBytes: bytes, sha256: null } as const
    const row = { id, orgId: org, uploaderId: by, ...file, livePhotoPairId: null, assetIdentifier: null }
    const context = {
      requestId: 'req_test',
      clientRequestId: null,
      ip: '127.0.0.1',
      userAgent: null,
      personalData: testPersonalData(db),
      traceparent: null,
    }
    await db.inTransaction({ org }, (tx) => recordMedia(changesOf(tx, { orgId: org, actorId: user, context }), row))
    return id
  }

  const prefixOf = (id: Uuid, generation = 1) => outputPrefix(org, id, generation)
  async function batchIdOf(id: Uuid): Promise<Uuid | null> {
    const { rows } = await admin.query('select conversion_batch as batch from media where id = $1', [id])
    return rows[0]?.batch ?? null
  }
  const batchKey = (batch: Uuid) => ({ namespace: NAMESPACE, name: batchJobName(batch) })

  const nameOf = (id: Uuid, generation = 1) => transcodeJobName({ id, generation })
  const keyOf = (id: Uuid, generation = 1) => ({ namespace: NAMESPACE, name: nameOf(id, generation) })

  return {
    org,
    user,
    upload,
    prefixOf,
    keyOf,
    /** An admitted video and the TranscodeJob that the worker makes for it. */
    async converting(): Promise<Uuid> {
      const id = await upload()
      await admin.query('update media set conversion_admitted_at = now() where id = $1', [id])
      const media = await worker.read({}, (tx) => findRun(tx, CONVERSIONS, id))
      if (media) await startRun(deps, CONVERSIONS, media)
      return id
    },
    job: (id: Uuid, generation = 1) =>
      cluster.get<TranscodeJob & { metadata: { name: string } }>(TRANSCODE_JOBS, keyOf(id, generation)),
    /** The id of the batch of an image. */
    batchIdOf,
    batchKey,
    /** The TranscodeJob of the batch of an image. */
    async batchOf(id: Uuid) {
      const batch = await batchIdOf(id)
      return batch
        ? cluster.get<TranscodeJob & { metadata: { name: string } }>(TRANSCODE_JOBS, batchKey(batch))
        : undefined
    },
    setBatchStatus: (batch: Uuid, status: RunStatus) =>
      cluster.applyStatus(TRANSCODE_JOBS, batchKey(batch), status, 'test'),
    /** What a job program leaves when it is done with an image. */
    async writeImage(id: Uuid, generation = 1): Promise<void> {
      const manifest = JSON.stringify(anImageManifest(id))
      await store.put(manifestKey(prefixOf(id, generation)), manifest, { contentType: 'application/json' })
    },
    jobs: () => cluster.list(TRANSCODE_JOBS, { namespace: NAMESPACE }),
    setStatus: (id: Uuid, status: RunStatus, generation = 1) =>
      cluster.applyStatus(TRANSCODE_JOBS, keyOf(id, generation), status, 'test'),
    /** What a job program leaves when it is done. */
    async writeOutput(id: Uuid, generation = 1, change: object = {}): Promise<void> {
      const prefix = prefixOf(id, generation)
      await store.put(masterKey(prefix), '#EXTM3U\n', { contentType: 'application/vnd.apple.mpegurl' })
      const manifest = JSON.stringify({ ...aManifest(id), ...change })
      await store.put(manifestKey(prefix), manifest, { contentType: 'application/json' })
    },
    async row(id: Uuid) {
      const { rows } = await admin.query('select * from media where id = $1', [id])
      return rows[0] as Record<string, unknown> & {
        upload_status: string
        conversion_state: string
        conversion_progress: { percent: number } | null
        conversion_error: { code: string; message: string } | null
        conversion_attempts: number
        output_prefix: string | null
        hls_master: string | null
        version: number
      }
    },
    /** How many events of a type the outbox has for a media. */
    async count(id: Uuid, type: string): Promise<number> {
      const { rows } = await admin.query(
        'select count(*)::int as n from outbox where aggregate_id = $1 and type = $2',
        [id, type],
      )
      return rows[0]?.['n'] as number
    },
  }
}

const T0 = '2026-05-01T10:00:00Z'
const verdict = (status: 'True' | 'False', reason: string, message: string) => [
  { type: SUCCEEDED, status, reason, message, observedGeneration: 1, lastTransitionTime: T0 },
]

export const succeeded = (...ids: Uuid[]): RunStatus => ({
  phase: 'Succeeded',
  attempts: 1,
  startTime: T0,
  conditions: verdict('True', 'Succeeded', 'done'),
  outputs: ids.map((id) => ({ id: formatId('media', id), state: 'Succeeded' })),
})

export const failed = (reason: string, message = 'because'): RunStatus => ({
  phase: 'Failed',
  attempts: 3,
  conditions: verdict('False', reason, message),
})

export function running(percent: number, change: Partial<RunStatus> & { playable?: string[] } = {}) {
  const { playable, ...rest } = change
  const progress: RunProgress = {
    percent,
    speed: '1.8x',
    etaSeconds: 100 - percent,
    stage: 'Encoding',
    updatedAt: T0,
    ...(playable && { playable }),
  }
  const status: RunStatus = { phase: 'Running', attempts: 1, startTime: T0, ...rest }
  return { ...status, progress }
}

export const aManifest = (id: Uuid): VideoManifest => ({
  version: 1,
  id: formatId('media', id),
  type: 'video',
  createdAt: '2026-05-01T10:00:00.000Z',
  accelerator: 'cpu',
  source: {
    container: 'mov,mp4',
    videoCodec: 'h264',
    audioCodec: 'aac',
    width: 1920,
    height: 1080,
    rotation: 0,
    durationSec: 12,
    frameRate: 30,
    hdr: false,
    variableFrameRate: false,
    capturedAt: null,
    camera: { make: null, model: null },
    location: null,
  },
  hls: {
    master: 'master.m3u8',
    segmentSeconds: 6,
    durationSec: 12,
    renditions: [
      {
        name: '360p',
        width: 640,
        height: 360,
        bandwidth: 800_000,
        averageBandwidth: 700_000,
        codecs: 'avc1.4d401e,mp4a.40.2',
        frameRate: 30,
        playlist: '360p.m3u8',
        segments: 2,
        bytes: 1_000_000,
      },
    ],
  },
  encode: { wallSeconds: 4, speed: 3 },
})

export const anImageManifest = (id: Uuid): ImageManifest => {
  const image = (file: string) => ({ file, width: 4, height: 3, bytes: 100 })
  return {
    version: 1,
    id: formatId('media', id),
    type: 'image',
    createdAt: '2026-05-01T10:00:00.000Z',
    source: {
      format: 'jpeg',
      width: 4,
      height: 3,
      orientation: 1,
      isAnimated: false,
      capturedAt: null,
      camera: { make: null, model: null },
      location: null,
      exif: {},
    },
    images: {
      jpeg: image(IMAGE_FILES.jpeg),
      webp: image(IMAGE_FILES.webp),
      thumb: image(IMAGE_FILES.thumb),
      placeholder: 'AAAA',
    },
    encode: { wallSeconds: 1 },
  }
}
