import fc from 'fast-check'
import t from 'tap'
import { highlightLadder, shapeOf } from '../../../jobs/highlight/canvas.ts'
import { layoutOf, planHighlight } from '../../../jobs/highlight/plan.ts'

const of = (...frames: number[]) => frames.map((frames) => ({ frames }))
const brief = (frames: number[], transition: 'cut' | 'crossfade' | 'fade') =>
  planHighlight(of(...frames), transition).pieces.map((p) => [p.kind, p.item, p.from, p.frames, p.start])

t.test('with cuts and fades every item is one piece', async (t) => {
  for (const transition of ['cut', 'fade'] as const) {
    t.strictSame(brief([120, 9, 90], transition), [
      ['clip', 0, 0, 120, 0],
      ['clip', 1, 0, 9, 120],
      ['clip', 2, 0, 90, 129],
    ])
  }
})

t.test('a crossfade is a piece of its own, and the ends of the highlight are cut off their items', async (t) => {
  t.strictSame(brief([120, 120, 120], 'crossfade'), [
    ['clip', 0, 0, 15, 0],
    ['clip', 0, 15, 90, 15],
    ['crossfade', 0, 105, 15, 105],
    ['clip', 1, 15, 90, 120],
    ['crossfade', 1, 105, 15, 210],
    ['clip', 2, 15, 90, 225],
    ['clip', 2, 105, 15, 315],
  ])
  t.strictSame(brief([120], 'crossfade'), [['clip', 0, 0, 120, 0]])
})

t.test('an item of one second between crossfades has no frames of its own', async (t) => {
  t.strictSame(
    brief([120, 30, 120], 'crossfade').filter(([, item]) => item === 1),
    [['crossfade', 1, 15, 15, 120]],
  )
})

const highlights = fc.record({
  items: fc.array(fc.record({ frames: fc.integer({ min: 1, max: 400 }) }), { minLength: 1, maxLength: 30 }),
  transition: fc.constantFrom('cut' as const, 'crossfade' as const, 'fade' as const),
  segmentSeconds: fc.integer({ min: 1, max: 20 }),
})

t.test('pieces follow each other without a gap to the end of the highlight', async (t) => {
  fc.assert(
    fc.property(highlights, ({ items, transition }) => {
      const { pieces, total } = planHighlight(items, transition)
      let end = 0
      for (const piece of pieces) {
        const shown = items[piece.item]?.frames ?? 0
        if (piece.start !== end || piece.frames < 1 || piece.from + piece.frames > shown) return false
        end += piece.frames
      }
      return end === total
    }),
  )
  t.pass()
})

t.test('segments begin at keyframes, are not too long, and none could hold another second', async (t) => {
  fc.assert(
    fc.property(highlights, ({ items, transition, segmentSeconds }) => {
      const { keyframes, starts, frames } = layoutOf(planHighlight(items, transition), segmentSeconds)
      const most = segmentSeconds * 30
      const isKeyframe = new Set(keyframes)
      return (
        starts[0] === 0 &&
        [...starts, frames].every((start, k, all) => {
          const next = all[k + 1]
          if (next === undefined) return true
          const after = keyframes.find((at) => at > next)
          return isKeyframe.has(start) && next - start <= most && (after === undefined || after - start > most)
        })
      )
    }),
  )
  t.pass()
})

t.test('segments end at the last keyframe at or before six seconds', async (t) => {
  const layout = layoutOf(planHighlight(of(75, 120, 60), 'cut'), 6)
  t.strictSame(layout, { keyframes: [0, 30, 60, 75, 105, 135, 165, 195, 225], starts: [0, 165], frames: 255 })
  t.strictSame(layoutOf(planHighlight(of(360), 'cut'), 6).starts, [0, 180])
})

const [wide, tall, even] = [
  { width: 1920, height: 1080 },
  { width: 1080, height: 1920 },
  { width: 800, height: 800 },
]
t.test('the shape of a highlight is that of most of its items', async (t) => {
  t.equal(shapeOf('auto', [wide, tall, tall]), 'portrait')
  t.equal(shapeOf('auto', [wide, tall]), 'landscape')
  t.equal(shapeOf('auto', [even]), 'landscape')
  t.equal(shapeOf('square', [wide]), 'square')
})

const WANTED = ['360p', '720p', '1080p']
const sizes = (...args: Parameters<typeof highlightLadder>) =>
  highlightLadder(...args).map((r) => [r.name, r.width, r.height])
t.test('renditions have the shape of the highlight, and none is larger than any item can use', async (t) => {
  t.strictSame(sizes('landscape', [wide], WANTED), [
    ['360p', 640, 360],
    ['720p', 1280, 720],
    ['1080p', 1920, 1080],
  ])
  t.strictSame(sizes('portrait', [wide], WANTED).at(-1), ['1080p', 1080, 1920])
  t.strictSame(sizes('square', [even], WANTED), [
    ['360p', 360, 360],
    ['720p', 720, 720],
  ])
  t.strictSame(sizes('landscape', [{ width: 640, height: 360 }, even], WANTED).at(-1), ['720p', 1280, 720])
  t.strictSame(sizes('landscape', [{ width: 320, height: 240 }], WANTED), [['240p', 426, 240]])
  t.strictSame(sizes('landscape', [{ width: 1, height: 1 }], WANTED), [['180p', 320, 180]])
})
