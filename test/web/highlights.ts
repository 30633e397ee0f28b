import t from 'tap'
import { estimateOf, type Source } from '../../api/features/highlights/plan.ts'
import { framesOf, HIGHLIGHT_FPS, highlightFrames } from '../../lib/contract/highlight-length.ts'

/** What the page says about highlights, and what it offers to whom: no browser is needed for these. */

const load = (name: string) => import(new URL(`../../web/${name}.js`, import.meta.url).href)
const words = await load('highlights/words')
const { viewOf, withoutKey, linkToHighlight } = await load('shell/views')

t.test('a highlight has an address', async (t) => {
  t.strictSame(viewOf('#highlight=hlt_1'), { name: 'highlight', id: 'hlt_1' })
  t.strictSame(viewOf('#highlights'), { name: 'highlights' })
  t.equal(linkToHighlight('hlt_1'), '/#highlight=hlt_1')
  t.equal(withoutKey('#key=secret&account=member&highlight=hlt_1'), '#highlight=hlt_1')
})

t.test('the length that the page shows is that of the API', async (t) => {
  const photo = { kind: 'photo' }
  const video = (seconds: number) => ({ kind: 'video', seconds })
  const cases: { kind: string; seconds?: number }[][] = [
    [],
    [photo],
    [photo, photo, video(1)],
    [video(0.01), video(0.5), video(40)],
    [video(2.34), photo],
  ]
  for (const items of cases) {
    for (const transition of ['cut', 'crossfade', 'fade'] as const) {
      const frames = items.map((item) => ({
        frames: framesOf(Math.min(15, item.seconds ?? 3)),
      }))
      const wanted = Math.ceil(highlightFrames(frames, transition).total / HIGHLIGHT_FPS)
      t.equal(words.estimateOf(items, transition), wanted, `${JSON.stringify(items)} ${transition}`)
    }
  }
  const api = (source: Partial<Source>) => estimateOf([{ kind: 'image', isUsable: true, ...source } as Source], 'cut')
  const half = (durationSec: number | null) => api({ motion: { id: 'half', durationSec } })
  for (const seconds of [2.5, 40]) t.equal(words.estimateOf([{ kind: 'live', seconds }], 'cut'), half(seconds))
  t.equal(words.estimateOf([{ kind: 'live' }], 'cut'), half(null), 'a Live Photo that is being converted')
  t.equal(words.estimateOf([{ kind: 'video' }], 'cut'), api({ kind: 'video', durationSec: null }), 'and a video')
})

const items = (...types: string[]) => types.map((type) => ({ type, start_sec: null, skipped: null }))

t.test('progress is told item by item', async (t) => {
  const one = { items: items('image', 'video', 'image'), estimated_duration_sec: 20, progress: null }
  t.match(words.progressOf(one), { done: 0, text: 'Waiting to be made' })
  const rows: [number, number, string][] = [
    [2, 0, 'Fetching the items'],
    [5, 0, 'Item 1 of 3'],
    [18, 0, 'Item 1 of 3'],
    [20, 1, 'Item 2 of 3'],
    [82, 1, 'Item 2 of 3'],
    [84, 2, 'Item 3 of 3'],
    [96.9, 2, 'Item 3 of 3'],
    [97, 3, 'Finishing'],
    [100, 3, 'Finishing'],
  ]
  for (const [percent, done, text] of rows) {
    t.match(words.progressOf({ ...one, progress: { percent } }), { done, text }, `${percent} %`)
  }
})

t.test('with any lengths, progress goes from the first item to the last', async (t) => {
  for (const total of [0.1, 3, 40, 900]) {
    for (const types of [['image'], ['video', 'video'], Array(30).fill('image'), ['image', 'motion', 'video']]) {
      const one = { items: items(...types), estimated_duration_sec: total }
      const seen: number[] = []
      for (let percent = 5; percent < 97; percent++) {
        seen.push(words.progressOf({ ...one, progress: { percent } }).done)
      }
      t.strictSame(
        seen,
        seen.toSorted((a, b) => a - b),
        `${total} s of ${types.length}: never back`,
      )
      t.strictSame([seen[0], seen.at(-1)], [0, types.length - 1], 'from the first to the last')
    }
  }
})

t.test('a failure names the item that is to blame', async (t) => {
  const failed = (code: string, media_id: string | null, message = 'Item med_2: secret') =>
    words.failureOf({ error: { code, media_id, message }, media_ids: ['med_1', 'med_2'] }, (id: string) =>
      id === 'med_2' ? 'walk.mov' : undefined,
    ).text
  t.equal(failed('SOURCE_DELETED', 'med_1'), 'Item 1 was deleted before the highlight was finished.')
  t.match(failed('ITEM_FAILED', 'med_2'), /^Item 2 \(walk\.mov\) cannot be used/)
  t.match(failed('ITEM_FAILED', null), /^One of the items cannot be used/)
  for (const code of ['SOURCE_ERASED', 'TIMEOUT', 'INTERNAL']) t.notMatch(failed(code, null), /med_|secret/)
  t.equal(failed('LATER', null, 'In other words'), 'In other words', 'a code of a later version')
})

t.test('a highlight can be made of what the API allows', async (t) => {
  const can = ['highlight.create_in_album']
  t.ok(words.mayMakeOf({ can, media_count: 1 }))
  t.notOk(words.mayMakeOf({ can, media_count: 0 }), 'an empty album')
  t.notOk(words.mayMakeOf({ can: ['album.read'], media_count: 1 }), 'an archived album')
  t.ok(words.mayMakeAgain({ album_id: null }))
  t.ok(words.mayMakeAgain({ album_id: 'alb_1' }, { can, media_count: 1 }))
  for (const album of [undefined, { can: [], media_count: 1 }]) {
    t.notOk(words.mayMakeAgain({ album_id: 'alb_1' }, album))
  }
})

t.test('a highlight is made where its items come from', async (t) => {
  const [org, album, event] = [{ org_id: 'org_1' }, { album_id: 'alb_1' }, { event_id: 'evt_1' }]
  t.equal(words.pathTo({ org }), '/api/media/org_1/highlights')
  t.equal(words.pathTo({ org, album }), '/api/orgs/org_1/albums/alb_1/highlights')
  t.equal(words.pathTo({ org, album, event }), '/api/orgs/org_1/events/evt_1/highlights')
})

t.test('what is left out is told with its names, and is not chosen again', async (t) => {
  const media_ids = ['med_1', 'med_2', 'med_3', 'med_4']
  const made = {
    ...{ media_ids, error: { code: 'ITEM_FAILED', media_id: 'med_4', message: '' } },
    items: [null, 'Its conversion has failed', null, null].map((skipped) => ({ skipped })),
  }
  const names: Record<string, string> = { med_2: 'walk.mov', med_3: 'sea.jpg', med_4: 'sky.jpg' }
  const nameOf = (id: string) => names[id]
  t.equal(words.leftOutOf(made, nameOf), 'Left out, because it could not be read: item 2 (walk.mov).')
  t.equal(words.leftOutOf({ media_ids, items: media_ids.map(() => ({ skipped: null })) }, nameOf), '')
  const of = (id: string) => names[id] && { name: names[id] }
  t.strictSame(
    words.itemsAgain(made, of, (m: { name: string }) => m.name),
    {
      kept: [{ name: 'sea.jpg' }],
      note: 'Not chosen again, because they were deleted or could not be read: item 1, item 2 (walk.mov), item 4 (sky.jpg).',
    },
  )
  const whole = { media_ids: ['med_3'], items: [{ skipped: null }], error: null }
  t.strictSame(words.itemsAgain(whole, of).note, '')
})

t.test('an item is moved by some places, or to an end', async (t) => {
  const rows: [number, number, string][] = [
    [0, 1, 'bacd'],
    [3, -1, 'abdc'],
    [2, -Infinity, 'cabd'],
    [0, Infinity, 'bcda'],
    [0, -1, 'abcd'],
    [3, 1, 'abcd'],
  ]
  for (const [index, by, wanted] of rows) t.equal(words.movedBy([...'abcd'], index, by).join(''), wanted)
})

t.test('the items that the API refused are those at their places, each with its reason', async (t) => {
  const details = [
    { field: 'body.media_ids.1', issue: 'could not be converted' },
    { field: 'body.title', issue: 'is too long' },
    { field: 'body.media_ids.12', issue: 'is of a later version' },
  ]
  t.strictSame(
    [...words.refusedItems({ details })],
    [
      [1, 'Cannot be read'],
      [12, 'is of a later version'],
    ],
  )
  t.strictSame([...words.refusedItems({})], [])
})

t.test('who sees it, how long it is, and how far', async (t) => {
  t.match(words.audienceOf({ album_id: null }), /^Only its creator/)
  t.match(words.audienceOf({ album_id: 'alb_1' }, {}), /^Those who can see its album/)
  t.match(words.audienceOf({ album_id: 'alb_1' }), /not published/)
  t.equal(words.lengthOf({ duration_sec: null, estimated_duration_sec: 24.4 }), 'About 0:24')
  t.equal(words.lengthOf({ duration_sec: 61, estimated_duration_sec: 60 }), '1:01')
  const none = { hls_master_url: null }
  t.equal(words.statusOf({ status: 'processing', variants: none }), 'Being made')
  t.equal(words.statusOf({ status: 'processing', variants: { hls_master_url: '/x' } }), 'Playable')
  t.equal(words.statusOf({ status: 'failed', variants: none }), 'Could not be made')
})
