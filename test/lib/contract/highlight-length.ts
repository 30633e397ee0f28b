import fc from 'fast-check'
import t from 'tap'
import { framesOf, HIGHLIGHT_FPS, highlightFrames } from '../../../lib/contract/highlight-length.ts'

const of = (...frames: number[]) => frames.map((frames) => ({ frames }))

t.test('cuts and fades add up, and crossfades share half a second', async (t) => {
  const items = of(120, 90, 120)
  t.strictSame(highlightFrames(items, 'cut'), { starts: [0, 120, 210], overlaps: [0, 0], total: 330 })
  t.strictSame(highlightFrames(items, 'fade'), highlightFrames(items, 'cut'))
  t.strictSame(highlightFrames(items, 'crossfade'), { starts: [0, 105, 180], overlaps: [15, 15], total: 300 })
})

t.test('a crossfade takes at most half of the shorter item', async (t) => {
  t.strictSame(highlightFrames(of(120, 21, 120), 'crossfade'), {
    starts: [0, 110, 121],
    overlaps: [10, 10],
    total: 241,
  })
  t.strictSame(highlightFrames(of(1, 120), 'crossfade'), { starts: [0, 1], overlaps: [0], total: 121 })
  t.strictSame(highlightFrames(of(60), 'crossfade'), { starts: [0], overlaps: [], total: 60 })
})

t.test('two crossfades of an item never meet, and no frame is lost', async (t) => {
  const items = fc.array(fc.record({ frames: fc.integer({ min: 1, max: 1800 }) }), { minLength: 1, maxLength: 30 })
  fc.assert(
    fc.property(items, (items) => {
      const { starts, overlaps, total } = highlightFrames(items, 'crossfade')
      const sum = items.reduce((all, i) => all + i.frames, 0) - overlaps.reduce((all, o) => all + o, 0)
      return (
        sum === total &&
        items.every((item, k) => (overlaps[k - 1] ?? 0) + (overlaps[k] ?? 0) <= item.frames) &&
        starts.every((start, k) => k === 0 || start > (starts[k - 1] ?? 0) - 1)
      )
    }),
  )
  t.pass()
})

t.test('seconds become whole frames', async (t) => {
  t.equal(HIGHLIGHT_FPS, 30)
  t.equal(framesOf(4), 120)
  t.equal(framesOf(0.3), 9)
  t.equal(framesOf(0.001), 1)
})
