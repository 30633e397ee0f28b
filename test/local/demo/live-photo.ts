import { join } from 'node:path'
import t from 'tap'
import { library, upload } from '../../../local/demo/client.ts'
import { sendLivePhoto } from '../../../local/demo/content.ts'
import { startTestApi } from '../../support/api.ts'
import { ffmpeg } from '../../support/clips.ts'
import { demoClient, untilDone } from '../../support/demo-client.ts'

/** The Live Photo of the demo, against a whole API that converts nothing. */
const api = await startTestApi(t)
const { member } = api.people
const folder = t.testdir({})
const live = { image: join(folder, 'IMG_1.JPG'), video: join(folder, 'IMG_1.MOV') }
const picture = ['-f', 'lavfi', '-i', 'testsrc2=size=64x64:rate=10:duration=1']
await ffmpeg([...picture, '-frames:v', '1', '-f', 'mjpeg', live.image])
await ffmpeg([...picture, '-c:v', 'libx264', '-pix_fmt', 'yuv420p', live.video])

t.test('a Live Photo whose upload is cut off anywhere is one item, and the next run finds it', async (t) => {
  const run = async (limit?: number) => {
    const { media } = await library(demoClient(api, member), api.org)
    const client = demoClient(api, member, limit)
    return sendLivePhoto(live, media, (path, pairId) => upload(client, api.org, path, () => {}, pairId))
  }
  await untilDone(run)
  const { media } = await library(demoClient(api, member), api.org)
  t.match(media, [{ original_filename: 'IMG_1.JPG' }])
  t.equal(media.length, 1)
  t.strictSame(await run(), { image: media[0]?.media_id, video: undefined })
  t.equal((await library(demoClient(api, member), api.org)).total, 1)
})
