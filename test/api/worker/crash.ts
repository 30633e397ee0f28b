import t from 'tap'
import { formatId } from '../../../lib/contract/ids.ts'
import { conversionWorld, succeeded, testStore } from '../../support/conversion-world.ts'
import { testDatabase } from '../../support/database.ts'
import { whileHeld } from '../../support/while-held.ts'
import { dyingWorkers, patiently } from '../../support/worker-process.ts'

// The worker as it runs in a pod, killed where it hurts most; Postgres, the API server and the store live on. Each case
// starts a worker as a process.
const database = await testDatabase(t)
const place = await testStore(t)
const { cluster, start, startMain, startHere, died } = await dyingWorkers(t, database, place, 'media')
const world = await conversionWorld(database, place, cluster)
const { admin } = database

/** Where a worker can only be once the resource has ended. */
const isAtEnd = (place: string) => place === 'conversion.read' || place === 'conversion.recorded'

const unpublished = async () =>
  (await admin.query('select count(*)::int as n from outbox where published_at is null')).rows[0].n as number

for (const place of [
  'relay.claimed',
  'conversion.admitted',
  'conversion.created',
  'relay.reacted',
  'relay.published',
  'conversion.read',
  'conversion.recorded',
]) {
  t.test(
    `killed at ${place}, the next worker finishes: one TranscodeJob, one MediaTranscoded, all published`,
    async (t) => {
      const id = await world.upload()
      const first = start(t, { KEEPSAKE_FAILPOINT: place })
      if (isAtEnd(place)) {
        await patiently('a TranscodeJob', () => world.job(id))
        await world.writeOutput(id)
        await world.setStatus(id, succeeded(id))
      }
      await died(t, first)
      const isCommitted = place === 'conversion.recorded'
      t.equal((await world.row(id)).upload_status, isCommitted ? 'completed' : 'processing')
      // After the commit the relay may be as fast as the death of its process.
      t.ok((await unpublished()) > 0 || isAtEnd(place), 'something was left to do')

      const second = await startHere(t)
      await patiently('a TranscodeJob', () => world.job(id))
      if (!isAtEnd(place)) {
        await world.writeOutput(id)
        await world.setStatus(id, succeeded(id))
      }
      await patiently('the end', async () => (await world.row(id)).upload_status === 'completed')
      await patiently('an empty outbox', async () => (await unpublished()) === 0)
      await second.close()
      t.equal(await world.count(id, 'MediaUploaded'), 1)
      t.equal(await world.count(id, 'MediaTranscoded'), 1)
      const mine = (await world.jobs()).filter((job) => job.metadata.name === world.keyOf(id).name)
      t.equal(mine.length, 1)
    },
  )
}

for (const place of ['conversion.recorded', 'conversion.admitted:2']) {
  t.test(`killed at ${place}, the next worker gives the slot that became free to the video that waits`, async (t) => {
    const settings = { MAX_CONVERSIONS_PER_ORGANIZATION: '1' }
    const first = start(t, { ...settings, KEEPSAKE_FAILPOINT: place })
    const [one, two] = [await world.upload(), await world.upload()]
    await patiently('a TranscodeJob', () => world.job(one))
    await world.writeOutput(one)
    const lock = { text: 'select from organizations where id = $1 for no key update', values: [world.org] }
    const end = async () => {
      await world.setStatus(one, succeeded(one))
      await died(t, first)
    }
    // The worker hears of the free slot before the answer to its commit, and may fill the slot before it dies.
    if (isAtEnd(place)) await whileHeld(database, lock, end)
    else await end()
    t.equal(await world.job(two), undefined)

    const second = await startHere(t, settings)
    await patiently('the TranscodeJob of the other', () => world.job(two))
    await world.writeOutput(two)
    await world.setStatus(two, succeeded(two))
    await patiently('the end', async () => (await world.row(two)).upload_status === 'completed')
    await patiently('an empty outbox', async () => (await unpublished()) === 0)
    await second.close()
    t.equal(await world.count(two, 'MediaTranscoded'), 1)
  })
}

for (const place of ['batch.admitted', 'conversion.created', 'conversion.recorded']) {
  t.test(`killed at ${place}, the next worker finishes the batch of an image: one TranscodeJob`, async (t) => {
    const before = (await world.jobs()).length
    const ids = [await world.upload('image/jpeg'), await world.upload('image/heic')] as const
    const finish = async () => {
      for (const id of ids) {
        await patiently('a TranscodeJob', () => world.batchOf(id))
        await world.writeImage(id)
      }
      for (const id of ids) {
        const batch = await world.batchIdOf(id)
        const inputs = (await world.batchOf(id))?.spec.inputs.map((input) => input.id)
        const members = ids.filter((one) => inputs?.includes(formatId('media', one)))
        if (batch) await world.setBatchStatus(batch, succeeded(...members))
      }
    }
    const first = start(t, { KEEPSAKE_FAILPOINT: place })
    if (isAtEnd(place)) await finish()
    await died(t, first)
    const decided = await Promise.all(ids.map((id) => world.batchIdOf(id)))
    t.ok(decided.some(Boolean), 'a batch was committed')

    const second = await startHere(t)
    if (!isAtEnd(place)) await finish()
    for (const id of ids) {
      await patiently('the end', async () => (await world.row(id)).upload_status === 'completed')
      t.equal(await world.count(id, 'MediaTranscoded'), 1)
    }
    await patiently('an empty outbox', async () => (await unpublished()) === 0)
    await second.close()
    for (const [i, id] of ids.entries()) {
      if (decided[i]) t.equal(await world.batchIdOf(id), decided[i], 'a batch that was decided stays')
    }
    const batches = new Set(await Promise.all(ids.map((id) => world.batchIdOf(id))))
    t.equal((await world.jobs()).length, before + batches.size)
  })
}

t.test('an outbox that was emptied before the resource was made is no loss either', async (t) => {
  const id = await world.upload()
  await admin.query('update outbox set published_at = now()')
  const worker = startMain(t)
  await patiently('a TranscodeJob', () => world.job(id))
  t.pass('the sweep made it')
  worker.child.kill('SIGTERM')
  t.equal(await worker.ended, 0, 'it stops cleanly')
})

t.test('a configuration that is wrong is named at once, all of it', async (t) => {
  const worker = startMain(t, { NAMESPACE: 'No Name', POLL_MS: 'often' })
  t.equal(await worker.ended, 1)
  t.match(worker.output(), /NAMESPACE: must be the name of a namespace/)
  t.match(worker.output(), /POLL_MS: /)
})
