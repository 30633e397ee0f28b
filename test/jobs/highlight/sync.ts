import t from 'tap'
import { highlightBench } from '../../support/highlight-run.ts'
import { flashClip, flashesAndClicks } from '../../support/highlight-sync.ts'

/** Ten clips; the benchmark tries thirty. */
const CLIPS = 10

for (const transition of ['cut', 'crossfade'] as const) {
  t.test(`after ten clips with ${transition}, a click is heard when its flash is seen`, async (t) => {
    const bench = await highlightBench(t)
    // One source ten times, which is fetched and encoded once: what could drift is how the clips are joined.
    const item = await bench.videoOf(await flashClip(), 'clip')
    const items = Array.from({ length: CLIPS }, (_, k) => ({ ...item, id: `clip-${k}` }))
    const { exit, output } = await bench.run(items, { transition })
    t.equal(exit, 0, 'exits with 0', { output })
    const { flashes, clicks } = await flashesAndClicks(await bench.checkout())
    t.same([flashes.length, clicks.length], [CLIPS, CLIPS])
    for (const [k, flash] of flashes.entries()) {
      const apart = Math.abs(flash - (clicks[k] ?? Number.NaN))
      t.ok(apart <= 0.02, `clip ${k}: ${(apart * 1000).toFixed(1)} ms apart`)
    }
  })
}
