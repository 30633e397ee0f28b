import t from 'tap'

/** The decisions of the page that need no browser: where tiles lie, which files are uploaded, and what things are called. */

const load = (name: string) => import(new URL(`../../web/${name}.js`, import.meta.url).href)
const { gridFor, layOut, monthAt, placesBetween, topOf } = await load('library/grid-layout')
const { keyOf, planUpload } = await load('uploads/plan')
const { newLinks } = await load('viewer/new-links')
const { newDetails } = await load('lib/media-details')
const { clock, day, dayHere, daysLeft, monthName, seconds, size, timeHere } = await load('lib/words')

t.test('a grid fills the width, with at least three columns', async (t) => {
  for (const width of [280, 320, 360, 390, 768, 1280, 2560]) {
    const { columns, side, gap } = gridFor(width)
    t.ok(columns >= 3)
    t.ok(Math.abs(columns * side + (columns - 1) * gap - width) < 0.001, `${width}`)
  }
  t.equal(gridFor(390).columns, 3)
  t.ok(gridFor(1280).columns >= 6)
})

t.test('a video gets new links each time that they expire, and none where new ones have just failed', async (t) => {
  let [at, asked] = [0, 0]
  const links = newLinks(
    async () => ({ asked: ++asked }),
    () => at,
  )
  for (const expired of [0, 3_700_000, 8_000_000]) {
    at = expired
    t.strictSame(await Promise.all([links.ask(), links.ask()]), [{ asked }, { asked }])
    at += 20_000
    t.equal(await links.ask(), undefined)
  }
  t.equal(asked, 3)
  const failing = newLinks(() => Promise.reject(new Error('offline')))
  t.equal(await failing.ask(), undefined)
  t.equal(await newLinks().ask(), undefined)
})

t.test('only rows near the window have places, and together they are all of them', async (t) => {
  const grid = gridFor(1000)
  const [first, second] = layOut(
    [
      { month: '2026-05', count: 100, places: 100 },
      { month: '2026-04', count: 7, places: 7 },
    ],
    grid,
  )
  t.equal(second.top, first.top + first.height)
  const seen = new Set<number>()
  for (let top = -500; top < first.height + 500; top += 300) {
    const { from, to, above } = placesBetween(first, grid, top, top + 300)
    t.equal(above * grid.columns, from)
    for (let i = from; i < to; i++) seen.add(i)
  }
  t.equal(seen.size, 100)
  t.strictSame(placesBetween(second, grid, 0, 100), { from: 0, to: 0, above: 0 })
  const { above } = placesBetween(second, grid, topOf(second, grid, 6) + 1, topOf(second, grid, 6) + 2)
  t.equal(above, Math.floor(6 / grid.columns), 'a place is in the row that begins at its top')
  t.equal(monthAt([first, second], -50).month, '2026-05')
  t.equal(monthAt([first, second], second.top).month, '2026-04')
})

const file = (path: string, bytes = 1000) => ({
  path,
  file: { name: path.split('/').at(-1), size: bytes, lastModified: 5 },
})
const stems = (...entries: ReturnType<typeof file>[]): Record<string, string | undefined> =>
  Object.fromEntries(planUpload(entries).accepted.map((e: { path: string; stem?: string }) => [e.path, e.stem]))

t.test('one photo and one short video of the same name in the same folder are a Live Photo', async (t) => {
  const { accepted } = planUpload([file('trip/IMG_1234.HEIC'), file('trip/IMG_1234.MOV'), file('trip/IMG_1235.JPG')])
  t.match(accepted, [
    { path: 'trip/IMG_1234.HEIC', type: 'image/heic', stem: 'trip/img_1234' },
    { path: 'trip/IMG_1234.MOV', type: 'video/quicktime', stem: 'trip/img_1234' },
    { path: 'trip/IMG_1235.JPG', type: 'image/jpeg', stem: undefined },
  ])
  const alone = undefined
  t.strictSame(stems(file('a/1.jpg'), file('b/1.mov')), { 'a/1.jpg': alone, 'b/1.mov': alone }, 'of two folders')
  t.strictSame(
    stems(file('1.heic'), file('1.jpg'), file('1.mov')),
    { '1.heic': alone, '1.jpg': alone, '1.mov': alone },
    'of three files it is unclear which two',
  )
  t.strictSame(stems(file('1.jpg'), file('1.mov', 900e6)), { '1.jpg': alone, '1.mov': alone }, 'a video stays a video')
  t.strictSame(stems(file('1.png'), file('1.mov')), { '1.png': alone, '1.mov': alone }, 'a screenshot')
})

t.test('what is neither a photo nor a video is named, and what systems leave in folders is not', async (t) => {
  const names = ['a.jpg', 'notes.txt', 'x/report.PDF', '.DS_Store', 'x/Thumbs.db', 'x/desktop.ini', '._a.jpg', 'noext']
  const { accepted, skipped } = planUpload([...names.map((n) => file(n)), file('empty.jpg', 0)])
  t.strictSame(
    accepted.map((e: { path: string }) => e.path),
    ['a.jpg'],
  )
  t.strictSame(skipped, ['notes.txt', 'report.PDF', 'noext', 'empty.jpg'])
})

t.test('files go up in the order in which people count', async (t) => {
  const { accepted } = planUpload([file('b/IMG_10.jpg'), file('b/IMG_9.jpg'), file('a/z.mp4')])
  t.strictSame(
    accepted.map((e: { path: string }) => e.path),
    ['a/z.mp4', 'b/IMG_9.jpg', 'b/IMG_10.jpg'],
  )
})

t.test('a file has another key in another group, and when it has changed', async (t) => {
  const one = file('a.jpg')
  t.equal(keyOf('org_1', one), keyOf('org_1', file('a.jpg')))
  t.not(keyOf('org_1', one), keyOf('org_2', one))
  t.not(keyOf('org_1', one), keyOf('org_1', file('a.jpg', 1001)))
})

t.test('days left are those of the API, and the last day counts', async (t) => {
  const now = Date.parse('2026-05-01T12:00:00Z')
  t.equal(daysLeft('2026-05-31T12:00:00Z', now), '30 days left')
  t.equal(daysLeft('2026-05-02T12:00:00Z', now), '1 day left')
  t.equal(daysLeft('2026-05-01T13:00:00Z', now), '1 day left')
  t.equal(daysLeft('2026-05-01T12:00:00Z', now), 'Ending today')
})

t.test('a photo is of a day in UTC, as its month is; a deadline is by the clock of the viewer', async (t) => {
  const [late, where] = ['2026-05-31T22:30:00Z', { locale: 'en-GB', timeZone: 'Europe/Berlin' }]
  t.match(day(late), /May 31|31 May/)
  t.equal(dayHere(late, where), '1 June 2026')
  t.match(timeHere(late, where), /^1 June 2026(,| at) 0?0:30$/)
})

t.test('names of months, lengths and sizes', async (t) => {
  t.match(monthName('2026-05'), /May 2026/)
  t.strictSame([0.2, 59.4, 59.7, 119.7, 3599.8].map(seconds), ['1 s', '59 s', '1 min 0 s', '2 min 0 s', '1 h 0 min'])
  t.strictSame([clock(59.7), clock(75), clock(3725)], ['1:00', '1:15', '1:02:05'])
  t.strictSame([size(0), size(999), size(1500), size(123_456_789)], ['0 B', '999 B', '1.5 KB', '123 MB'])
})

t.test('metadata is asked for until it can no longer change', async (t) => {
  const answers = [
    { live_photo_duration_sec: null },
    { live_photo_duration_sec: null },
    { live_photo_duration_sec: null },
    { live_photo_duration_sec: 2.5 },
  ]
  let asked = 0
  const details = newDetails(async () => answers[asked++])
  const converting = { media_id: 'med_1', mime_type: 'image/heic', upload_status: 'processing' }
  const photo = { ...converting, upload_status: 'completed' }
  const live = { ...photo, variants: { live_photo_video_url: '/video' } }
  const asks = async (m: object) => {
    await details.of(m)
    return asked
  }
  t.equal(await asks(converting), 1)
  t.equal(await asks(photo), 2)
  t.equal(await asks(photo), 2, 'kept')
  t.equal(await asks(live), 3, 'the photo has become a Live Photo')
  t.equal(await asks(live), 4, 'how long it moves was not known yet')
  t.equal(await asks(live), 4, 'kept')
  t.equal(details.known(live).live_photo_duration_sec, 2.5)
})
