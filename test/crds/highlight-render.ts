import t from 'tap'
import { parseHighlightRender } from '../../crds/highlight-render.ts'
import { aHighlightItem, newHighlightRender } from '../support/highlight-render.ts'

const parsed = (spec: object) => parseHighlightRender(newHighlightRender({ metadata: { uid: 'u' }, spec }))

t.test('parsing fills in the defaults', async (t) => {
  t.match(parsed({}), {
    resource: {
      spec: { transition: 'cut', orientation: 'auto', kenBurns: true, skipBroken: false, priority: 'normal' },
    },
  })
})

const refused: [string, object, RegExp][] = [
  ['no item', { items: [] }, /spec.items/],
  ['31 items', { items: Array.from({ length: 31 }, (_, i) => aHighlightItem(`i${i}`)) }, /spec.items/],
  ['an item twice', { items: [aHighlightItem('a'), aHighlightItem('a')] }, /ids must be unique/],
  ['an item that lasts no time', { items: [{ ...aHighlightItem(), seconds: 0.4 }] }, /spec.items.0.seconds/],
  [
    'a caption of 201 code points',
    { items: [{ ...aHighlightItem(), caption: 'a'.repeat(201) }] },
    /spec.items.0.caption/,
  ],
  ['a line break in a caption', { items: [{ ...aHighlightItem(), caption: 'a\nb' }] }, /spec.items.0.caption/],
  ['a source below the output', { outputPrefix: 'org/' }, /may lie below/],
  ['another transition', { transition: 'wipe' }, /spec.transition/],
  ['music without a file', { music: { id: 'trk_1' } }, /spec.music.sourceKey/],
]
for (const [name, spec, message] of refused) {
  t.test(`parsing refuses ${name}`, async (t) => t.match(parsed(spec), { problem: message }))
}

t.test('30 items of the longest keys and texts fit in one environment variable', async (t) => {
  const key = 'k'.repeat(511)
  const items = Array.from({ length: 30 }, (_, i) => ({
    id: String(i).padStart(64, '0'),
    type: 'video',
    sourceKey: `${key}s`,
    cachePrefix: `${key}/`,
    seconds: 59.999,
    caption: '😀'.repeat(200),
  }))
  const largest = parsed({ items, title: '😀'.repeat(200), music: { id: 'm', sourceKey: key } })
  t.ok('resource' in largest)
  t.ok(Buffer.byteLength(JSON.stringify(largest)) < 128 * 1024 - 1024)
})
