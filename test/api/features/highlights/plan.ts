import t from 'tap'
import {
  estimateOf,
  highlightText,
  itemOf,
  type Source,
  unavailable,
} from '../../../../api/features/highlights/plan.ts'

const source = (o: Partial<Source> = {}): Source => ({
  id: 'media',
  uploaderId: 'user',
  kind: 'image',
  isUsable: true,
  durationSec: null,
  takenOn: null,
  caption: null,
  captionBy: null,
  motion: undefined,
  ...o,
})
const image = source()
const video = (durationSec: number | null) => source({ kind: 'video', durationSec })
const live = (durationSec: number | null) => source({ motion: { id: 'half', durationSec } })

const LENGTHS: [what: string, sources: Source[], transition: 'cut' | 'crossfade' | 'fade', seconds: number][] = [
  ['an image', [image], 'cut', 3],
  ['three images', [image, image, image], 'cut', 9],
  ['a fade takes no time', [image, image, image], 'fade', 9],
  ['each crossfade takes half a second', [image, image, image], 'crossfade', 8],
  ['and the whole is rounded up', [image, image], 'crossfade', 6],
  ['a short video', [video(2.5)], 'cut', 3],
  ['a long video is cut', [video(600)], 'cut', 15],
  ['a video of unknown length', [video(null)], 'cut', 6],
  ['a Live Photo plays', [live(2.9), image], 'cut', 6],
  ['a Live Photo of unknown length counts as phones record it', [live(null)], 'cut', 3],
  ['a long Live Photo is cut', [live(40)], 'cut', 15],
  ['a crossfade next to a very short video is shorter', [image, video(0.6), image], 'crossfade', 6],
  ['a video without a picture still has one frame', [video(0)], 'cut', 1],
]
for (const [what, sources, transition, seconds] of LENGTHS) {
  t.test(`${what}: ${seconds} seconds`, async (t) => {
    t.equal(estimateOf(sources, transition), seconds)
  })
}

t.test('what a highlight cannot be made of', async (t) => {
  const [there, broken] = [source({ id: 'there' }), source({ id: 'broken', isUsable: false })]
  const places = (chosen: (Source | undefined)[], skipBroken: boolean, album?: string[]) =>
    unavailable(chosen, { skipBroken, inAlbum: album && (({ id }) => album.includes(id)) }).map(({ place }) => place)
  t.strictSame(places([there, there], false), [])
  t.strictSame(places([there, undefined, broken], false), [1, 2])
  t.strictSame(places([there, undefined, broken], true), [1])
  t.strictSame(places([there, broken], true), [])
  t.strictSame(places([broken, broken], true), [0, 1], 'nothing would be left')
  t.strictSame(places([there, broken], true, ['there']), [1], 'what is not in the album is not left out')
  t.equal(estimateOf([there, broken], 'crossfade'), 3, 'what is left out takes no time')
  t.ok(itemOf(broken, 'none').skipped)
  t.equal(itemOf(there, 'none').skipped, null)
})

t.test('an item is what was chosen; of a Live Photo, its video is played', async (t) => {
  const common = { mediaId: 'media', uploaderId: 'user', caption: '', captionBy: null, skipped: null }
  t.strictSame(itemOf(image, 'none'), { ...common, sourceId: 'media', type: 'image', seconds: 3 })
  t.strictSame(itemOf(video(3), 'none'), { ...common, sourceId: 'media', type: 'video', seconds: 15 })
  t.strictSame(itemOf(live(3), 'none'), { ...common, sourceId: 'half', type: 'motion', seconds: 15 })
})

t.test('captions are what was asked for', async (t) => {
  const both = source({ caption: 'The lake', takenOn: '2026-07-01' })
  t.equal(itemOf(both, 'none').caption, '')
  t.equal(itemOf(both, 'caption').caption, 'The lake')
  t.equal(itemOf(both, 'date').caption, '2026-07-01')
  for (const kind of ['none', 'caption', 'date'] as const) t.equal(itemOf(image, kind).caption, '')
})

t.test('text over an item is one line that the resource accepts', async (t) => {
  t.equal(highlightText('one\ntwo\t three'), 'one two  three')
  t.equal(highlightText('é'.repeat(200)), 'é'.repeat(200))
  const cut = highlightText('🎉'.repeat(201))
  t.equal(cut, `${'🎉'.repeat(199)}…`)
  t.match(cut, /^\P{Cc}{0,200}$/u)
})
