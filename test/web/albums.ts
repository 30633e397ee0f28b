import t from 'tap'

/** What the page says about albums, and what it offers to whom: no browser is needed for these. */

const load = (name: string) => import(new URL(`../../web/${name}.js`, import.meta.url).href)
const words = await load('albums/words')
const { gridOf, windowOf } = await load('albums/window')
const { viewOf, withMedia, withoutKey, linkToAlbum } = await load('shell/views')

t.test('an album has an address, to which the viewer adds what it shows', async (t) => {
  t.strictSame(viewOf('#album=alb_1'), { name: 'album', id: 'alb_1' })
  t.strictSame(viewOf('#albums'), { name: 'albums' })
  t.equal(linkToAlbum('alb_1'), '/#album=alb_1')
  t.equal(withoutKey('#key=secret&account=admin&album=alb_1'), '#album=alb_1')
  for (const [hash, link] of [
    ['#album=alb_1', '#album=alb_1&media=med_2'],
    ['#album=alb_1&media=med_1', '#album=alb_1&media=med_2'],
    ['#event=evt_1', '#event=evt_1&media=med_2'],
    ['#albums', '#albums&media=med_2'],
    ['', '#media=med_2'],
    ['#media=med_1', '#media=med_2'],
  ]) {
    t.equal(withMedia(hash, 'med_2'), link)
    t.strictSame(viewOf(link ?? ''), viewOf(hash ?? ''), 'the view below stays')
  }
})

t.test('the status of an album is changed by those whom the server says, from what it is now', async (t) => {
  const steps = (status: string, can = ['album.set_status', 'album.update']) =>
    words.stepsOf({ status, can }).map(({ to, label }: { to: string; label: string }) => `${to}: ${label}`)
  t.strictSame(steps('DRAFT'), ['PUBLIC: Publish'])
  t.strictSame(steps('PUBLIC'), ['DRAFT: Make it a draft', 'ARCHIVE: Archive'])
  t.strictSame(steps('ARCHIVE'), ['PUBLIC: Open again'])
  for (const status of ['DRAFT', 'PUBLIC', 'ARCHIVE']) t.strictSame(steps(status, ['album.update']), [])
})

t.test('who sees an album depends on its status first', async (t) => {
  for (const visibility of ['organization', 'participants', 'private']) {
    for (const status of ['DRAFT', 'ARCHIVE']) {
      t.match(words.audienceOf({ status, visibility }), /owner and the administrators/)
    }
  }
  const ofEvent = { status: 'DRAFT', visibility: 'organization', event_id: 'evt_1' }
  t.match(words.audienceOf(ofEvent), /owner of its event/)
  t.match(words.audienceOf({ status: 'PUBLIC', visibility: 'organization' }), /Everyone/)
  t.match(words.audienceOf({ status: 'PUBLIC', visibility: 'participants' }), /take part/)
  t.match(words.noteOn({ status: 'PUBLIC' }, { status: 'archived' }), /event of this album is archived/)
  t.equal(words.noteOn({ status: 'PUBLIC' }, { status: 'active' }), '')
})

const listOf = (ids: string) => [...ids].map((media_id) => ({ media_id }))
const idsOf = (items: { media_id: string }[]) => items.map((m) => m.media_id).join('')

t.test('an item moves next to its new neighbours, also in a list that has changed', async (t) => {
  const rows: [string, object, string][] = [
    ['abcd', { id: 'd', after: 'a', before: 'b' }, 'adbc'],
    ['abcd', { id: 'd', before: 'a' }, 'dabc'],
    ['abcd', { id: 'a', after: 'd' }, 'bcda'],
    ['bcd', { id: 'd', after: 'a', before: 'b' }, 'dbc'],
    ['axbcd', { id: 'd', after: 'a', before: 'b' }, 'adxbc'],
    ['cd', { id: 'd', after: 'a', before: 'b' }, 'cd'],
    ['abc', { id: 'd', after: 'a', before: 'b' }, 'abc'],
    ['abc', { id: 'd' }, 'abc'],
  ]
  for (const [ids, change, wanted] of rows) {
    t.equal(idsOf(words.moved(listOf(ids), change)), wanted, `${ids} ${JSON.stringify(change)}`)
  }
})

t.test('keys move an item by places and to the ends', async (t) => {
  const rows: [string, number, string | undefined][] = [
    ['b', 1, 'acbd'],
    ['b', -1, 'bacd'],
    ['b', Number.POSITIVE_INFINITY, 'acdb'],
    ['c', Number.NEGATIVE_INFINITY, 'cabd'],
    ['a', -1, undefined],
    ['d', Number.POSITIVE_INFINITY, undefined],
    ['x', 1, undefined],
  ]
  for (const [id, by, wanted] of rows) {
    const neighbours = words.neighboursAfter(listOf('abcd'), id, by)
    t.equal(neighbours && idsOf(words.moved(listOf('abcd'), { id, ...neighbours })), wanted, `${id} ${by}`)
  }
})

t.test('of a long list, whole rows near the window have elements', async (t) => {
  const grid = { count: 23, columns: 5, row: 90, gap: 10 }
  t.strictSame(windowOf(grid, 0, 150), { from: 0, to: 10, above: 0, height: 490 })
  t.strictSame(windowOf(grid, 210, 390), { from: 10, to: 20, above: 200, height: 490 })
  t.strictSame(windowOf(grid, 210, 390, [1]), { from: 0, to: 20, above: 0, height: 490 })
  t.strictSame(windowOf(grid, -500, -300, [22, -1]), { from: 0, to: 23, above: 0, height: 490 })
  t.strictSame(windowOf(grid, 450, 9000), { from: 20, to: 23, above: 400, height: 490 })
  t.strictSame(windowOf({ ...grid, count: 0 }, 0, 900), { from: 0, to: 0, above: 0, height: 0 })
})

t.test('of 5,000 items, a few screens have elements, wherever the window is', async (t) => {
  for (const width of [358, 1216]) {
    const grid = { count: 5000, ...gridOf(width, { hasWords: true, rem: 16 }) }
    const { height } = windowOf(grid, 0, 0)
    let most = 0
    const gaps = []
    for (let top = 0; top < height; top += 997) {
      const { from, to, above } = windowOf(grid, top - 860, top + 2 * 860)
      const below = above + Math.ceil((to - from) / grid.columns) * (grid.row + grid.gap)
      most = Math.max(most, to - from)
      if (above > Math.max(0, top - 860) || (below < top + 2 * 860 && to < 5000)) gaps.push(top)
    }
    t.ok(most < 100, `${most} elements`)
    t.strictSame(gaps, [], 'all that is in the window')
  }
})

t.test('an album has columns that fill its width', async (t) => {
  for (const [width, columns] of [
    [328, 2],
    [358, 2],
    [640, 2],
    [960, 4],
    [1216, 5],
  ]) {
    const grid = gridOf(width, { hasWords: false, rem: 16 })
    t.equal(grid.columns, columns, `${width}`)
    t.equal(Math.round(grid.columns * grid.row + (grid.columns - 1) * grid.across), width)
    t.ok(gridOf(width, { hasWords: true, rem: 16 }).row > grid.row)
  }
})

t.test('a form of an album sends what differs, and says what is missing', async (t) => {
  const album = { title: 'Trip', description: 'One\nTwo', visibility: 'organization', event_id: 'evt_1' }
  const form = { title: ' Trip ', description: 'One\r\nTwo', visibility: 'organization', event_id: '' }
  t.strictSame(words.albumChanges(album, form), {})
  t.strictSame(words.albumChanges(album, { ...form, description: '', visibility: 'private' }), {
    description: null,
    visibility: 'private',
  })
  t.strictSame(words.albumChanges(undefined, { ...form, description: '', event_id: 'evt_2' }), {
    title: 'Trip',
    event_id: 'evt_2',
  })
  t.strictSame(words.albumMistakes(form), {})
  t.strictSame(Object.keys(words.albumMistakes({ ...form, title: ' ', visibility: 'participants' })), [
    'title',
    'visibility',
  ])
  t.strictSame(words.albumMistakes({ ...form, visibility: 'participants', event_id: 'evt_1' }), {})
})
