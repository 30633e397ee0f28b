import t from 'tap'
import { startVideoAdmission } from '../../../../../api/features/media/conversion/admission.ts'
import { startBatches } from '../../../../../api/features/media/conversion/batches.ts'
import { conversionsWith } from '../../../../../api/features/media/conversion/kind.ts'
import { conversionReactions } from '../../../../../api/features/media/conversion/reactions.ts'
import { transcodeJobName } from '../../../../../api/features/media/conversion/transcode-spec.ts'
import { runReactions } from '../../../../../api/worker/reactions.ts'
import type { OutboxMessage } from '../../../../../lib/contract/events.ts'
import { formatId, newUuid, type Uuid } from '../../../../../lib/contract/ids.ts'
import { originalKey } from '../../../../../lib/contract/object-keys.ts'
import { type Cluster, ClusterError, type ClusterErrorReason } from '../../../../../lib/runtime/kube/cluster.ts'
import { conversionWorld, mediaEvent, NAMESPACE, testCluster, testStore } from '../../../../support/conversion-world.ts'
import { testDatabase } from '../../../../support/database.ts'
import { quietLog } from '../../../../support/quiet-log.ts'

const database = await testDatabase(t)
const cluster = testCluster(t)
const world = await conversionWorld(database, await testStore(t), cluster)
const { worker: db, admin } = database

const refusing = (reason: ClusterErrorReason): Pick<Cluster, 'create'> => ({
  create: async () => {
    throw new ClusterError(reason, reason)
  },
})
async function react(message: OutboxMessage, on: Pick<Cluster, 'create'> = cluster): Promise<void> {
  const limits = { maxPerOrganization: 100, maxParallelism: 3 }
  const deps = { db, cluster: { ...cluster, ...on }, namespace: NAMESPACE, log: quietLog() }
  const admission = startVideoAdmission(deps, limits)
  const batches = startBatches(deps, { interactive: 100, backfill: 2 })
  await runReactions([conversionReactions({ ...deps, admission, batches, conversions: conversionsWith(limits) })])(
    message,
  ).finally(() => Promise.all([admission.stop(), batches.stop()]))
}
const uploaded = (id: Uuid): OutboxMessage => mediaEvent('MediaUploaded', id, world.org)

t.test('a video gets a TranscodeJob that says what to convert and where to', async (t) => {
  const id = await world.upload()
  await react(uploaded(id))
  t.match(await world.job(id), {
    metadata: {
      name: transcodeJobName({ id, generation: 1 }),
      labels: { 'media.keepsake.dev/org': formatId('organization', world.org) },
      annotations: { 'media.keepsake.dev/media': formatId('media', id) },
    },
    spec: {
      inputs: [
        {
          id: formatId('media', id),
          type: 'video',
          sourceKey: originalKey(world.org, id),
          outputPrefix: world.prefixOf(id),
        },
      ],
      renditions: ['360p', '720p', '1080p'],
    },
  })
  await react(uploaded(id))
  t.equal((await world.jobs()).length, 1)
})

t.test('names are short enough for a Job and its pods', async (t) => {
  t.match(transcodeJobName({ id: newUuid(), generation: 12 }), /^tj-[0-9a-hjkmnp-tv-z]{26}-12$/)
})

for (const mimeType of ['image/jpeg', 'image/png', 'image/webp', 'image/gif', 'image/heic', 'image/avif']) {
  t.test(`${mimeType} gets one TranscodeJob, however often its event comes`, async (t) => {
    await admin.query('delete from media')
    const before = (await world.jobs()).length
    const id = await world.upload(mimeType)
    await Promise.all([react(uploaded(id)), react(uploaded(id))])
    await react(uploaded(id))
    t.match(await world.row(id), { upload_status: 'processing', conversion_state: 'queued' })
    t.match(await world.batchOf(id), {
      metadata: { labels: { 'media.keepsake.dev/org': formatId('organization', world.org) } },
      spec: {
        priority: 'interactive',
        inputs: [
          {
            id: formatId('media', id),
            type: 'image',
            sourceKey: originalKey(world.org, id),
            outputPrefix: world.prefixOf(id),
          },
        ],
      },
    })
    t.equal((await world.jobs()).length, before + 1)
  })
}

t.test('a specification that is refused fails the media; the event is done', async (t) => {
  const id = await world.upload()
  await react(uploaded(id), refusing('Invalid'))
  t.match(await world.row(id), { upload_status: 'failed', conversion_error: { code: 'INTERNAL' } })
})

for (const reason of ['Unavailable', 'Forbidden', 'TooManyRequests', 'NotFound'] as const) {
  t.test(`${reason} is for another time: the media waits`, async (t) => {
    const id = await world.upload()
    await t.rejects(react(uploaded(id), refusing(reason)), { message: reason })
    t.equal((await world.row(id)).upload_status, 'processing')
  })
}

t.test('nothing is begun for what is deleted, over or unknown', async (t) => {
  const before = (await world.jobs()).length
  const [deleted, over] = [await world.upload(), await world.upload()]
  await admin.query('update media set deleted_at = now() where id = $1', [deleted])
  await admin.query(`update media set upload_status = 'failed' where id = $1`, [over])
  for (const id of [deleted, over, newUuid()]) await react(uploaded(id))
  await react({ ...uploaded(await world.upload()), type: 'MediaTranscoded' })
  t.equal((await world.jobs()).length, before)
})
