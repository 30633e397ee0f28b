import t from 'tap'
import { archiveWorld } from '../../../support/archived-events.ts'
import { startConversionTest } from '../../../support/conversion-world.ts'
import { aRun, retentionHere, startRetention } from '../../../support/retention.ts'

/** The program is killed at each step of a move and of a purge; the next process finishes, and each thing happens once. */
const { database, place: storage, world } = await startConversionTest(t)
const { admin } = database
const { store } = storage
const made = archiveWorld({ admin, store, ...world })
const { sql, anEvent, anAlbum, aMedia, place, aComment, exists, keysOf, audited, announced } = made
const run = () =>
  aRun('EventArchive', {
    rules: [
      { after: 'P2Y', action: 'moveToTier', tier: 'cold' },
      { after: 'P7Y', action: 'purge' },
    ],
  })
const here = retentionHere({ database, store })
const program = (failpoint: string) =>
  startRetention(t, {
    databaseUrl: database.url,
    storeFolder: storage.storeFolder,
    run: run(),
    failpoint,
  })

async function aParty(archived: number) {
  const event = await anEvent({ archived })
  const media = [await aMedia(), await aMedia()] as const
  await place(await anAlbum(event), media[0])
  await aComment(event, [media[1]])
  return { event, media }
}
async function dies(failpoint: string): Promise<void> {
  const { ended, output } = await program(failpoint)
  t.equal(await ended, 'SIGKILL', output())
  // As if the leases of the dead were over.
  await sql('update events set lease_at = now()')
  await sql('update media set lease_at = now()')
}

for (const failpoint of ['event-purge.taken-out', 'purge.objects-deleted', 'event-purge.removed']) {
  t.test(`a purge that is killed at ${failpoint} is finished by the next process`, async (t) => {
    await made.clear()
    const { event, media } = await aParty(8)
    await dies(failpoint)
    const gone = await sql('select id from media where purging_at is not null')
    t.ok(gone.length <= 1, 'at most one has left the library')
    t.match(await here(run()), { failures: 0, ended: 'Finished' })
    t.notOk(await exists('events', event))
    t.equal((await audited('EVENT_PURGED', event)).length, 1)
    t.equal((await announced('EventDeleted', event)).length, 1)
    for (const id of media) {
      t.notOk(await exists('media', id))
      t.strictSame(await keysOf(id), [])
      t.equal((await announced('MediaPurged', id)).length, 1)
    }
  })
}

for (const failpoint of ['event-cold.copied', 'event-cold.switched', 'event-cold.deleted']) {
  t.test(`a move that is killed at ${failpoint} is finished by the next process`, async (t) => {
    await made.clear()
    const { event, media } = await aParty(3)
    await dies(failpoint)
    for (const id of media) {
      const [row] = await sql('select original_tier as tier from media where id = $1', [id])
      const key = row?.tier === 'hot' ? 'original' : 'cold/original'
      t.ok((await keysOf(id)).includes(key), 'the row says where it is')
    }
    t.match(await here(run()), { failures: 0, ended: 'Finished' })
    for (const id of media) t.strictSame(await keysOf(id), ['cold/original', 'v1/image.webp'])
    t.equal((await audited('EVENT_COLD_TIER', event)).length, 1)
  })
}
