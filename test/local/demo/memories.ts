import t, { type Test } from 'tap'
import { sampleEvents } from '../../../local/demo/events.ts'
import { sampleMemories } from '../../../local/demo/memories.ts'
import { albumWorld } from '../../support/albums.ts'
import { startTestApi } from '../../support/api.ts'
import { demoClient, untilDone } from '../../support/demo-client.ts'

/** The album of the demo, and what is said about its event, against a whole API. */
const api = await startTestApi(t)
const { member, owner } = api.people
const { aMedia } = albumWorld(api)

const media = [await aMedia(), await aMedia(), await aMedia()]
const { event_id: event } = await sampleEvents(demoClient(api, member), api.org, [
  { userId: owner.wireId, client: demoClient(api, owner) },
])
const run = (limit?: number) =>
  sampleMemories(
    { host: demoClient(api, member, limit), guest: demoClient(api, owner, limit), hostId: member.wireId },
    { organization: api.org, event, media },
  )

async function isWhole(t: Test): Promise<void> {
  const path = `/api/orgs/${api.org}/events/${event}`
  const ask = async (where: string) => (await api.call(member, 'GET', where)).data
  const album = await ask(`${path}/album`)
  t.match(album, { status: 'PUBLIC', media_count: 3 })
  const items = (await ask(`/api/orgs/${api.org}/albums/${album.album_id}/media`)).media
  t.strictSame(
    items.map((m: { media_id: string }) => m.media_id),
    media,
  )
  const { comments } = await ask(`${path}/meta/${event}/comments`)
  t.match(comments, [{ mentions: [member.wireId] }, { reply_count: 1, reaction_counts: { '😂': 1 } }])
  t.equal(comments.length, 2)
  t.match((await ask(path)).reaction_counts, { '🎉': 1 })
}

t.test('a demo that is cut off anywhere is completed by the next, and a third changes nothing', async (t) => {
  await untilDone(run)
  await isWhole(t)
  t.equal((await run()).status, 'PUBLIC')
  await isWhole(t)
})
