// A process of its own: the code of Jobs forbids sharp to read uploads, and the tests of other files read them with it.
import t from 'tap'
import { bufferAtStart } from '../../../jobs/highlight/render-piece.ts'

t.test('a piece spends at most a quarter more than its bitrate, or 0.4 s of it for its keyframe', async (t) => {
  const rendition = { maxrate: 3_000_000, bufsize: 6_000_000 }
  for (const [frames, share] of [
    [15, 0.2],
    [60, 0.25],
    [120, 0.5],
    [216, 0.9],
    [900, 0.9],
  ] as const) {
    t.equal(bufferAtStart(frames, rendition), share, `${frames} frames`)
    const allowed = rendition.maxrate * Math.max(0.4, (0.25 * frames) / 30)
    t.ok(share * rendition.bufsize <= allowed, `${frames} frames`)
  }
})
