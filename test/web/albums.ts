import t from 'tap'

/** What the page says about albums, and what it offers to whom: no browser is needed for these. */

const load = (name: string) => import(new URL(`../../web/${name}.js`, import.meta.url).href)
const words = await load('album-words')
const { windowOf } = await load('album-window')
const { viewOf, withMedia, withoutKey, linkToAlbum } = await load('views')

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

t.test('buttons of an album are for those who may, in the states that allow it', async (t) => {
  const active = { status: 'active', my_participation: 'accepted' }
  const offered = (album: object, event: object | undefined, userId: string, role: string) => {
    const { manage, add, steps } = words.albumActionsFor(
      { owner_id: 'ann', visibility: 'organization', ...album },
      event,
      { userId, role },
    )
    return [manage && 'manage', add && 'add', ...steps.map(({ to }: { to: string }) => to)].filter(Boolean).join(' ')
  }
  const rows: [string, object | undefined, string, string, string][] = [
    ['DRAFT', undefined, 'ann', 'member', 'manage add PUBLIC'],
    ['PUBLIC', active, 'ann', 'member', 'manage add DRAFT ARCHIVE'],
    ['ARCHIVE', active, 'ann', 'member', 'PUBLIC'],
    ['PUBLIC', { ...active, status: 'archived' }, 'ann', 'member', 'DRAFT ARCHIVE'],
    ['PUBLIC', undefined, 'bob', 'admin', 'manage add'],
    ['PUBLIC', undefined, 'bob', 'owner', 'manage add'],
    ['ARCHIVE', undefined, 'bob', 'owner', ''],
    ['PUBLIC', active, 'bob', 'member', 'add'],
    ['DRAFT', active, 'bob', 'member', ''],
    ['PUBLIC', { ...active, my_participation: 'invited' }, 'bob', 'member', ''],
    ['PUBLIC', { ...active, status: 'draft' }, 'bob', 'member', ''],
    ['PUBLIC', { ...active, status: 'archived' }, 'bob', 'member', ''],
    ['PUBLIC', undefined, 'bob', 'member', ''],
  ]
  for (const [status, event, who, role, wanted] of rows) {
    t.equal(offered({ status }, event, who, role), wanted, [status, JSON.stringify(event), who, role].join(' '))
  }
  t.equal(offered({ status: 'PUBLIC', visibility: 'private' }, active, 'bob', 'member'), '')
})

t.test('who sees an album depends on its status first', async (t) => {
  for (const visibility of ['organization', 'participants', 'private']) {
    for (const status of ['DRAFT', 'ARCHIVE']) {
      t.match(words.audienceOf({ status, visibility }), /owner and the administrators/)
    }
  }
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
