import t from 'tap'
import { sampleEvents } from '../../../local/demo/events.ts'
import { sampleHighlight } from '../../../local/demo/highlight.ts'
import { sampleMemories } from '../../../local/demo/memories.ts'
import { albumWorld } from '../../support/albums.ts'
import { startTestApi } from '../../support/api.ts'
import { demoClient, untilDone } from '../../support/demo-client.ts'

/** The highlight of the demo, against a whole API that renders nothing. */
const api = await startTestApi(t)
const { member, owner } = api.people
const { aMedia } = albumWorld(api)
const host = demoClient(api, member)

const media = [await aMedia(), await aMedia(), await aMedia()]
const { event_id: event } = await sampleEvents(host, api.org, [])
const friends = { host, guest: demoClient(api, owner), hostId: member.wireId }
const { album_id: album } = await sampleMemories(friends, { organization: api.org, event, media })
const highlights = async () => (await api.call(member, 'GET', `/api/media/${api.org}/highlights`)).data.highlights

t.test('a demo that is cut off anywhere makes one highlight, and the next run finds it', async (t) => {
  const video = await aMedia({ kind: 'video' })
  const sources = { organization: api.org, event, album, video, track: undefined }
  await untilDone((limit) => sampleHighlight(demoClient(api, member, limit), sources))
  const made = await highlights()
  t.equal(made.length, 1)
  t.match(made[0], { album_id: album, transition: 'crossfade', status: 'processing' })
  t.ok(made[0].media_ids.includes(video))
  t.equal(await sampleHighlight(host, { ...sources, video: await aMedia({ kind: 'video' }) }), made[0].highlight_id)
  t.equal((await highlights()).length, 1)
})
