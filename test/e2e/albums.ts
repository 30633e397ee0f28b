// A process of its own: the platform takes its settings from the environment.
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import sharp from 'sharp'
import t, { type Test } from 'tap'
import * as z from 'zod'
import { type Client, signIn } from '../../local/demo/client.ts'
import { COUNT_MOTIONS } from '../support/browser.ts'
import { clip } from '../support/clips.ts'
import { PHONE } from '../support/pictures.ts'
import { button, lookAgain, openForTwoPeople, overflow } from '../support/two-people.ts'

/**
 * Albums on the demo page, with two people in two browsers against the whole platform: one makes the album of an event,
 * the other finds it. `SCREENSHOTS=folder` keeps what it looked like.
 * Takes over 20 s: every part of it is walked through by hand.
 */

const TITLE = 'Summer <img src=x onerror=boom()>'
/** The right-to-left override would turn around what follows it on the line. */
const CAPTION = '<b>First</b> \u202Eevening'
/** More than a page. */
const LARGE = 600
const LONG_TITLE = 'Everything that the five of us photographed at the lake in the summer of 2031'
const PHOTOS = [
  ['one.jpg', '#c0392b'],
  ['two.jpg', '#27ae60'],
  ['three.jpg', '#2980b9'],
] as const
/** Ann is Tomás, an administrator, who hosts; Bob is Mira, a member. */
const { under, ann, bob, query } = await openForTwoPeople(t, { rateFactor: 20, script: COUNT_MOTIONS, moves: true })
const CONVERTING = {
  upload_status: 'processing',
  conversion_progress: { percent: 40 },
  variants: { live_photo_video_url: `${under.platform.page.url}/motion.mp4` },
}
let api: Client
let eventId: string
let eventPath: string

const photo = (colour: string, day: number) =>
  sharp({ create: { width: 900, height: 600, channels: 3, background: colour } })
    .withExif({ ...PHONE, IFD2: { ...PHONE['IFD2'], DateTimeOriginal: `2024:05:${10 + day} 12:00:00` } })
    .jpeg()
    .toBuffer()

t.before(async () => {
  const { demo, page } = under.platform
  api = await signIn(demo.base_url, demo.accounts.admin)
  const events = `/api/orgs/${demo.organizations[0]?.org_id}/events`
  const made = await api.call('POST', events, { title: TITLE, start_at: '2031-05-10T16:00:00Z' })
  eventId = z.object({ event_id: z.string() }).parse(made).event_id
  eventPath = `${events}/${eventId}`
  await api.call('POST', `${eventPath}/activate`)
  await Promise.all([ann.goto(page.link({ account: 'admin' })), bob.goto(page.link({ account: 'member' }))])
  for (const one of [ann, bob]) await one.getByRole('heading', { level: 1, name: 'Class of 1994' }).waitFor()
})

const item = (page: typeof ann, name: string) =>
  page.locator('#album-items .tile', {
    has: page.getByRole('button', { name: new RegExp(`^(Photo|Live Photo) ${name}`) }),
  })
const names = (page: typeof ann) =>
  page.evaluate<string[]>(
    `[...document.querySelectorAll('#album-items .frame')].map((f) => f.ariaLabel.match(/\\w+\\.\\w+/)[0])`,
  )
const untilOrder = (...wanted: string[]) =>
  under.until(
    `[...document.querySelectorAll('#album-items .frame')].map((f) => f.ariaLabel.match(/\\w+\\.\\w+/)[0]).join() === '${wanted.join()}'`,
  )
const Items = z.looseObject({
  media: z.array(z.looseObject({ media_id: z.string(), original_filename: z.string(), caption: z.string().nullish() })),
})
const itemsPath = async () => {
  const { album_id } = z.object({ album_id: z.string() }).parse(await api.call('GET', `${eventPath}/album`))
  return `${eventPath.replace(/events.*/, `albums/${album_id}`)}/media`
}
/** What the API has, which is what another person gets. */
const stored = async () => Items.parse(await api.call('GET', await itemsPath())).media
const mediaId = async (name: string) => {
  const org = eventPath.split('/')[3]
  const { media } = Items.parse(await api.call('GET', `/api/media/${org}?limit=100`))
  return media.find((m) => m.original_filename === name)?.media_id
}
/** Opens what is behind the button of an album, and takes an action there. */
const choose = async (page: typeof ann, name: string) => {
  await page.locator('.view-album .menu summary').click()
  await button(page, name).click()
}
const accessible = async (t: Test, what: string, page = ann) => t.strictSame(await under.violations(page), [], what)
const orderSaved = () => ann.waitForResponse((r) => r.url().endsWith('/reorder') && r.ok())

t.test('photos and a Live Photo are in the library', async () => {
  const files = await Promise.all(
    PHOTOS.map(async ([name, colour], day) => ({ name, mimeType: 'image/jpeg', buffer: await photo(colour, day) })),
  )
  await ann
    .locator('#files')
    .setInputFiles([
      ...files,
      { name: 'live.jpg', mimeType: 'image/jpeg', buffer: await photo('#8e44ad', 9) },
      { name: 'live.mov', mimeType: 'video/quicktime', buffer: await readFile(await clip('portrait')) },
    ])
  // The list of uploads hides itself six seconds after the last one.
  await ann.getByRole('heading', { name: '5 files uploaded' }).waitFor()
  await under.until(`document.querySelectorAll('.months .tile').length >= 4`)
})

t.test('a group without albums says what they are for', async (t: Test) => {
  await ann.getByRole('link', { name: 'Albums' }).click()
  await ann.getByText('No albums yet').waitFor()
  await accessible(t, 'no albums')
  await under.shoot('a1-empty')
})

t.test('an album is made for an event, as a draft', async (t: Test) => {
  await button(ann, 'New album').click()
  const event = ann.getByRole('combobox', { name: /^Event/ })
  await event.locator('option').nth(1).waitFor({ state: 'attached' })
  await ann.getByLabel('Who can see it').selectOption('participants')
  await button(ann, 'Create draft').click()
  t.strictSame(await ann.getByRole('alert').filter({ visible: true }).allTextContents(), [
    'Give the album a name.',
    'Choose the event whose participants you mean.',
  ])
  await under.shoot('a2-form')
  await accessible(t, 'the form')
  await ann.getByLabel('Name', { exact: true }).fill(TITLE)
  await event.selectOption({ label: TITLE })
  await ann.getByLabel('Who can see it').selectOption('organization')
  await button(ann, 'Create draft').click()
  await ann.getByRole('heading', { level: 1, name: TITLE }).waitFor()
  t.match(new URL(ann.url()).hash, /^#album=alb_/)
  t.equal(await ann.locator('#album-state').textContent(), 'Draft')
  t.ok(await button(ann, 'Publish').isVisible())
})

t.test('what is discarded while it is added stays out of the album, but for what is on its way', async (t: Test) => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const added: unknown[] = []
  const adding = /\/albums\/alb_\w+\/media$/
  await ann.route(adding, async (route) => {
    added.push(route.request().postDataJSON())
    await released
    await route.continue()
  })
  await button(ann, 'Choose photos').click()
  const dialog = ann.getByRole('dialog')
  for (const name of ['one.jpg', 'two.jpg']) {
    await dialog.getByRole('button', { name: new RegExp(`^Photo ${name}`) }).click()
  }
  await button(ann, 'Add 2').click()
  await button(ann, 'Adding 1 of 2').waitFor()
  await button(ann, 'Cancel').click()
  await button(ann, 'Discard').click()
  await dialog.waitFor({ state: 'detached' })
  release()
  await untilOrder('one.jpg')
  t.equal(added.length, 1)
  await ann.unroute(adding)
  await api.call('DELETE', `${await itemsPath()}/${await mediaId('one.jpg')}`)
  await lookAgain(ann)
  await button(ann, 'Choose photos').waitFor()
})

t.test('several photos are chosen in the library and added', async (t: Test) => {
  // A Live Photo whose conversion has not ended: what it shows is part of its name too.
  const list = /\/api\/media\/org_\w+\?/
  await ann.route(list, async (route) => {
    const response = await route.fetch()
    if (!response.ok()) return route.fulfill({ response })
    const { data } = z.object({ data: Items }).parse(await response.json())
    const media = data.media.map((m) => (m.original_filename === 'live.jpg' ? { ...m, ...CONVERTING } : m))
    await route.fulfill({ response, json: { data: { ...data, media } } })
  })
  await button(ann, 'Choose photos').click()
  const dialog = ann.getByRole('dialog')
  const pick = (name: string) => dialog.getByRole('button', { name: new RegExp(`^(Photo|Live Photo) ${name}`) }).click()
  for (const name of ['one.jpg', 'two.jpg', 'three.jpg']) await pick(name)
  t.equal(await dialog.locator('#picker-count').textContent(), '3 items chosen')
  t.match(await dialog.locator('.tile', { hasText: '40 %' }).textContent(), /^Live 40 %$/)
  await under.shoot('a3-picker')
  await accessible(t, 'the choice of photos')
  await ann.unroute(list)
  await button(ann, 'Add 3').click()
  await dialog.waitFor({ state: 'hidden' })
  await under.until(`document.activeElement.id === 'album-title'`)
  await untilOrder('one.jpg', 'two.jpg', 'three.jpg')
  await button(ann, 'Add photos').click()
  await ann.locator('.picker .there').nth(2).waitFor()
  t.equal(await ann.locator('.picker .there').count(), 3, 'those that are there cannot be added again')
  await pick('live.jpg')
  await button(ann, 'Cancel').click()
  await button(ann, 'Keep editing').click()
  await button(ann, 'Add 1').click()
  await untilOrder('one.jpg', 'two.jpg', 'three.jpg', 'live.jpg')
})

/** Takes an item with the mouse to a place, which `x` and `y` count from the corner of another item, and lets it go. */
async function drag(name: string, to: { item: string; x: number; y: number }, held = async () => {}) {
  const [from, target] = await Promise.all([name, to.item].map((each) => item(ann, each).boundingBox()))
  if (!from || !target) throw new Error('the items are not shown')
  const saved = orderSaved()
  await ann.mouse.move(from.x + 100, from.y + 100)
  await ann.mouse.down()
  await ann.mouse.move(from.x + 60, from.y + 90, { steps: 4 })
  await ann.mouse.move(target.x + to.x, target.y + to.y, { steps: 6 })
  await held()
  await ann.mouse.up()
  await saved
}

t.test('an item is dragged to another place with the mouse', async () => {
  await button(ann, 'Arrange').click()
  await drag('three.jpg', { item: 'one.jpg', x: 60, y: 80 }, () => under.shoot('a4-dragging'))
  await untilOrder('three.jpg', 'one.jpg', 'two.jpg', 'live.jpg')
})

t.test('a finger drags it by its handle', async (t: Test) => {
  const [from, to] = await Promise.all([
    item(ann, 'two.jpg').locator('.handle').boundingBox(),
    item(ann, 'one.jpg').boundingBox(),
  ])
  if (!from || !to) throw new Error('the items are not shown')
  const saved = orderSaved()
  const touch = (type: 'touchStart' | 'touchMove' | 'touchEnd', x = 0, y = 0) =>
    under.devtools.send('Input.dispatchTouchEvent', { type, touchPoints: type === 'touchEnd' ? [] : [{ x, y }] })
  const [x, y] = [from.x + from.width / 2, from.y + from.height / 2]
  await touch('touchStart', x, y)
  for (const part of [0.2, 0.6, 1]) await touch('touchMove', x + (to.x + 50 - x) * part, y + (to.y + 60 - y) * part)
  await touch('touchEnd')
  await saved
  await untilOrder('three.jpg', 'two.jpg', 'one.jpg', 'live.jpg')
  t.strictSame(
    (await stored()).map((m) => m.original_filename),
    ['three.jpg', 'two.jpg', 'one.jpg', 'live.jpg'],
  )
})

t.test('the keyboard moves it, and keeps the focus', async (t: Test) => {
  const saved = orderSaved()
  await item(ann, 'one.jpg').locator('.handle').focus()
  await ann.keyboard.press('ArrowLeft')
  await saved
  t.strictSame(await names(ann), ['three.jpg', 'one.jpg', 'two.jpg', 'live.jpg'])
  t.match(await ann.evaluate(`document.activeElement.ariaLabel`), /^Move one.jpg/)
  const again = orderSaved()
  await button(ann, 'Move live.jpg to the left').click()
  await again
  await untilOrder('three.jpg', 'one.jpg', 'live.jpg', 'two.jpg')
})

t.test('an order that is dropped with Escape changes nothing', async (t: Test) => {
  const box = await item(ann, 'two.jpg').boundingBox()
  if (!box) throw new Error('the item is not shown')
  await ann.mouse.move(box.x + 90, box.y + 90)
  await ann.mouse.down()
  await ann.mouse.move(box.x - 400, box.y + 90, { steps: 4 })
  t.strictSame(await names(ann), ['three.jpg', 'two.jpg', 'one.jpg', 'live.jpg'].toSorted(byShown(await names(ann))))
  await ann.keyboard.press('Escape')
  await ann.mouse.up()
  t.strictSame(await names(ann), ['three.jpg', 'one.jpg', 'live.jpg', 'two.jpg'])
})
const byShown = (shown: string[]) => (a: string, b: string) => shown.indexOf(a) - shown.indexOf(b)

t.test('an order that another person has made impossible meanwhile is made again, and said so', async (t: Test) => {
  const answers: number[] = []
  ann.on('response', (r) => void (r.url().endsWith('/reorder') && answers.push(r.status())))
  const path = await itemsPath()
  const two = await mediaId('two.jpg')
  const told = ann.getByText('Someone else changed the album meanwhile')
  await drag('live.jpg', { item: 'three.jpg', x: 40, y: 80 }, () => api.call('DELETE', `${path}/${two}`).then(() => {}))
  await told.waitFor()
  await untilOrder('live.jpg', 'three.jpg', 'one.jpg')
  t.strictSame(answers.splice(0), [422, 200])
  await under.shoot('a5-merged')
  await ann.evaluate(`document.querySelector('#toast').hidden = true`)
  const add = () => api.call('POST', path, { media_id: two }).then(() => {})
  await drag('live.jpg', { item: 'one.jpg', x: 180, y: 80 }, add)
  await told.waitFor()
  await untilOrder('three.jpg', 'one.jpg', 'live.jpg', 'two.jpg')
  t.strictSame(answers, [422, 200])
  t.strictSame(
    (await stored()).map((m) => m.original_filename),
    ['three.jpg', 'one.jpg', 'live.jpg', 'two.jpg'],
  )
  await under.reported(422)
})

t.test('the cover is chosen, and an item is taken out', async (t: Test) => {
  await button(ann, 'Make one.jpg the cover').click()
  await ann.getByRole('button', { name: 'Make one.jpg the cover', pressed: true }).waitFor()
  await under.shoot('a5-arranging')
  await accessible(t, 'arranging')
  await button(ann, 'Remove two.jpg from the album').click()
  await untilOrder('three.jpg', 'one.jpg', 'live.jpg')
  await under.until(`/^Remove live.jpg/.test(document.activeElement.ariaLabel)`)
  await button(ann, 'Done').click()
  await ann.locator('#album-count', { hasText: /^3 items/ }).waitFor()
})

t.test('a caption is written in place, and stays text', async (t: Test) => {
  await button(ann, 'Add a caption to three.jpg').click()
  await ann.getByLabel('Caption of three.jpg').fill(CAPTION)
  await ann.keyboard.press('Enter')
  await item(ann, 'three.jpg').locator('.edit-caption', { hasText: 'evening' }).waitFor()
  t.equal(await item(ann, 'three.jpg').locator('.edit-caption').textContent(), CAPTION)
  t.strictSame(
    (await stored()).map((m) => m.caption),
    [CAPTION, null, null],
  )
  await item(ann, 'one.jpg').locator('.edit-caption').click()
  await ann.getByLabel('Caption of one.jpg').fill('never')
  await ann.keyboard.press('Escape')
  t.equal(await item(ann, 'one.jpg').locator('.edit-caption').textContent(), 'Add a caption')
})

t.test('a caption that is being written is saved when its author goes back', async (t: Test) => {
  const saved: unknown[] = []
  ann.on('request', (r) => void (r.method() === 'PATCH' && saved.push(r.postDataJSON())))
  await button(ann, 'Add a caption to one.jpg').click()
  await ann.getByLabel('Caption of one.jpg').fill('By the lake')
  const answered = ann.waitForResponse((r) => r.request().method() === 'PATCH')
  await ann.goBack()
  t.ok((await answered).ok())
  await ann.locator('.view-album').waitFor({ state: 'detached' })
  await ann.goForward()
  await item(ann, 'one.jpg').locator('.edit-caption', { hasText: 'By the lake' }).waitFor()
  t.strictSame(saved, [{ caption: 'By the lake' }])
  await item(ann, 'one.jpg').locator('.edit-caption').click()
  await ann.getByLabel('Caption of one.jpg').fill('')
  await ann.keyboard.press('Enter')
  await button(ann, 'Add a caption to one.jpg').waitFor()
})

t.test('a Live Photo moves, and the viewer goes through the album', async (t: Test) => {
  await ann.locator('#album-items .tile[data-kind=live]').waitFor()
  await ann.mouse.move(5, 5)
  await ann.evaluate('motions = 0')
  await ann.locator('#album-items .tile[data-kind=live] .frame').hover()
  await under.until('motions > 0')
  await item(ann, 'three.jpg').locator('.frame').click()
  t.equal(await ann.locator('#viewer-caption').textContent(), CAPTION)
  t.match(new URL(ann.url()).hash, /^#album=alb_\w+&media=med_\w+$/)
  await under.until(`document.querySelector('#viewer-picture').dataset.loaded`)
  await under.shoot('a6-viewer')
  await ann.keyboard.press('ArrowRight')
  await under.until(`document.querySelector('#viewer-title').textContent === 'one.jpg'`)
  t.notOk(await ann.locator('#viewer-caption').isVisible())
  await ann.goBack()
  await under.until(`!document.querySelector('#viewer').open`)
  t.strictSame(await names(ann), ['three.jpg', 'one.jpg', 'live.jpg'], 'the album is as it was')
})

t.test('nobody else sees a draft; published, it is there for all members', async (t: Test) => {
  await bob.goto(
    `${under.platform.page.url}/#album=${new URLSearchParams(new URL(ann.url()).hash.slice(1)).get('album')}`,
  )
  await bob.getByRole('heading', { name: 'This album cannot be shown' }).waitFor()
  await under.reported(404)
  await button(ann, 'Publish').click()
  await accessible(t, 'a question')
  await ann.getByRole('alertdialog').getByRole('button', { name: 'Publish' }).click()
  await under.until(`document.querySelector('#album-state').textContent === 'Published'`)
  await under.until(`document.activeElement.id === 'album-title'`)
  await under.shoot('a7-published')
  await bob.getByRole('link', { name: 'All albums' }).click()
  await under.until(`document.title === 'Albums · Keepsake'`, bob)
  await bob.getByRole('link', { name: TITLE }).click()
  await bob.getByRole('heading', { level: 1, name: TITLE }).waitFor()
  t.equal(await bob.evaluate('document.activeElement.id'), 'content', 'what had the focus is gone')
  await item(bob, 'live.jpg').waitFor()
  t.strictSame(await names(bob), ['three.jpg', 'one.jpg', 'live.jpg'])
  t.equal(await item(bob, 'three.jpg').locator('.caption').textContent(), CAPTION)
  for (const name of ['Add photos', 'Arrange', 'Publish']) t.notOk(await button(bob, name).isVisible(), name)
  t.equal(await bob.locator('.view-album .menu').count(), 0)
  await accessible(t, 'an album of another person', bob)
  t.equal(await bob.locator('.edit-caption:visible').count(), 0)
  await bob.goBack()
  await under.until(`document.querySelector('.album-cover .thumb.loaded')`, bob)
  await under.shoot('a8-list', bob)
  await accessible(t, 'the list', bob)
})

const openEvent = async (page: typeof ann) => {
  await page.goto(`${under.platform.page.url}/#event=${eventId}`)
  await page.getByRole('heading', { level: 1, name: TITLE }).waitFor()
}

t.test('the event shows its album', async (t: Test) => {
  await openEvent(bob)
  await bob.locator('#event-album-link').waitFor()
  t.equal(await bob.locator('#event-album-title').textContent(), TITLE)
  t.equal(await bob.locator('#event-album-facts').textContent(), '3 items')
  await bob.locator('.strip-picture').nth(2).waitFor()
  t.equal(await bob.locator('.strip-picture').count(), 3)
  t.notOk(await button(bob, 'Make an album').isVisible())
  await under.shoot('c1-event', bob)
  await bob.locator('#event-album-link').click()
  await item(bob, 'three.jpg').waitFor()
})

t.test('HTML of others never becomes an element', async (t: Test) => {
  for (const page of [ann, bob]) {
    t.equal(await page.evaluate(`document.querySelectorAll('img[src=x]').length`), 0)
    t.equal(await page.evaluate(`document.querySelectorAll('.caption b, .edit-caption b').length`), 0)
  }
})

t.test('nothing sticks out on a phone, by day and by night', async (t: Test) => {
  for (const [width, colorScheme] of [
    [390, 'light'],
    [360, 'dark'],
  ] as const) {
    await ann.emulateMedia({ colorScheme })
    await ann.setViewportSize({ width, height: 800 })
    await under.shoot(`a9-phone-album-${width}`)
    t.equal(await overflow(ann), 0, `album ${width}`)
    await button(ann, 'Arrange').click()
    await under.shoot(`a9-phone-arrange-${width}`)
    t.equal(await overflow(ann), 0, `arrange ${width}`)
    await button(ann, 'Done').click()
    await button(ann, 'Add photos').click()
    await ann.locator('.picker .there').nth(2).waitFor()
    await under.shoot(`a9-phone-picker-${width}`)
    await button(ann, 'Cancel').click()
  }
  await ann.emulateMedia({ colorScheme: 'light' })
  await ann.setViewportSize({ width: 1280, height: 860 })
})

t.test('an archived album is read-only, and its owner opens it again', async (t: Test) => {
  await choose(ann, 'Archive')
  await ann.getByRole('alertdialog').getByRole('button', { name: 'Archive' }).click()
  await under.until(`document.querySelector('#album-state').textContent === 'Archived'`)
  for (const name of ['Add photos', 'Arrange']) t.notOk(await button(ann, name).isVisible(), name)
  t.equal(await ann.locator('.menu').count(), 0)
  await lookAgain(bob)
  await bob.goto(`${under.platform.page.url}/#albums`)
  await bob.getByText('No albums yet').waitFor()
  await openEvent(bob)
  await bob.getByText('No album of this event').waitFor()
  await button(ann, 'Open again').click()
  await ann
    .getByRole('alertdialog', { name: `Open “${TITLE}” again?` })
    .getByRole('button', { name: 'Open again' })
    .click()
  await under.until(`document.querySelector('#album-state').textContent === 'Published'`)
})

t.test('the album of an archived event is read-only', async (t: Test) => {
  await api.call('POST', `${eventPath}/archive`)
  await lookAgain(ann)
  await ann.getByText('The event of this album is archived').waitFor()
  for (const name of ['Add photos', 'Arrange']) await button(ann, name).waitFor({ state: 'hidden' })
  t.strictSame(await ann.locator('.menu li button').allTextContents(), ['Make it a draft', 'Archive'])
})

/** What opens may have to be loaded first. */
const titled = (page: typeof ann, text: string) => page.locator('#viewer-title', { hasText: text }).waitFor()
const tiles = `document.querySelectorAll('#album-items .tile')`
const old = (page: typeof ann, n: number) => item(page, `OLD_${n}.jpg`)

t.test('a long album is loaded in pages, with elements for what is near the window', async (t: Test) => {
  const base = eventPath.replace(/events.*/, 'albums')
  const made = z.object({ album_id: z.string() }).parse(await api.call('POST', base, { title: LONG_TITLE }))
  await fill(LARGE)
  const lists: string[] = []
  ann.on('request', (request) => void (/\/albums\/.*\/media\?/.test(request.url()) && lists.push(request.url())))
  await ann.goto(`${under.platform.page.url}/#album=${made.album_id}`)
  await ann.locator('#album-count', { hasText: `${LARGE} items` }).waitFor()
  t.equal(lists.length, 1, 'only a page is loaded')
  let most = 0
  while (await ann.locator('#album-more').isVisible()) {
    await ann.evaluate('scrollTo(0, document.body.scrollHeight)')
    most = Math.max(most, await ann.evaluate<number>(`${tiles}.length`))
    await sleep(20)
  }
  await ann.evaluate('scrollTo(0, document.body.scrollHeight)')
  await old(ann, LARGE).waitFor()
  most = Math.max(most, await ann.evaluate<number>(`${tiles}.length`))
  t.ok(most < 100, `${most} elements at once`)
  t.equal(lists.length, 2, 'each page once')
})

t.test('an item at its end is opened, and has the focus afterwards', async (t: Test) => {
  await old(ann, LARGE).locator('.frame').click()
  await titled(ann, `OLD_${LARGE}.jpg`)
  for (let n = 0; n < 60; n++) await ann.keyboard.press('ArrowLeft')
  await titled(ann, `OLD_${LARGE - 60}.jpg`)
  await ann.keyboard.press('Escape')
  await under.until(`/OLD_${LARGE - 60}.jpg/.test(document.activeElement.ariaLabel)`)
  t.ok(await old(ann, LARGE - 60).isVisible())
})

t.test('near its end, and beyond what is in the window, an item is dragged', async (t: Test) => {
  await ann.evaluate('scrollTo(0, document.body.scrollHeight)')
  await ann.evaluate(`[...document.querySelectorAll('button')].find((b) => b.textContent === 'Arrange').click()`)
  await old(ann, LARGE).locator('.handle').waitFor()
  const ids = async () => {
    const sent = await ann.waitForRequest((request) => request.url().endsWith('/reorder'))
    return z.object({ media_ids: z.array(z.string()) }).parse(sent.postDataJSON()).media_ids
  }
  const idOf = (n: number) => old(ann, n).getAttribute('data-media')
  const [last, other] = [await idOf(LARGE), await idOf(LARGE - 4)]
  const near = ids()
  await drag(`OLD_${LARGE}.jpg`, { item: `OLD_${LARGE - 4}.jpg`, x: 40, y: 80 })
  t.strictSame((await near).slice(-5, -3), [last, other])
  t.equal(new Set(await near).size, LARGE, 'all of them')
  const before = await ann.evaluate<number>(`scrollY`)
  const far = ids()
  await drag(`OLD_${LARGE}.jpg`, { item: `OLD_${LARGE - 4}.jpg`, x: 40, y: 80 }, async () => {
    await ann.mouse.move(600, 70)
    await under.until(`scrollY < ${before} - 1.5 * innerHeight`)
    await ann.mouse.move(600, 430, { steps: 3 })
  })
  const order = await far
  t.equal(new Set(order).size, LARGE)
  t.ok(order.indexOf(last ?? '') < LARGE - 20, 'further up than what had elements')
  await under.shoot('a10-large')
})

t.test('keys take an item to the other end of the album, with the focus', async (t: Test) => {
  const handle = ann.locator('#album-items .tile .handle').and(button(ann, new RegExp(`^Move OLD_${LARGE}.jpg`)))
  const saved = orderSaved()
  await handle.focus()
  await handle.press('Home')
  await saved
  t.strictSame((await names(ann)).slice(0, 2), [`OLD_${LARGE}.jpg`, 'OLD_1.jpg'])
  await under.until(`/^Move OLD_${LARGE}.jpg/.test(document.activeElement.ariaLabel)`)
  t.ok((await ann.evaluate<number>('scrollY')) < 600)
})

t.test('the first 30 items of an album are chosen at once, below its title in one line', async (t: Test) => {
  await ann.setViewportSize({ width: 390, height: 800 })
  await button(ann, 'Make a highlight').click()
  const picker = ann.getByRole('dialog')
  await picker.locator('.tile').first().waitFor()
  await button(ann, 'Select the first 30').click()
  const place = (n: number) => picker.locator(`[data-place="${n}"]`)
  t.match(await place(1).getAttribute('aria-label'), `OLD_${LARGE}.jpg`, 'in their order')
  t.match(await place(2).getAttribute('aria-label'), 'OLD_1.jpg')
  t.equal(await button(ann, 'Continue with 30').isVisible(), true)
  const [name, tile] = await Promise.all([picker.locator('.month-name').boundingBox(), place(1).boundingBox()])
  t.ok(name && tile && name.height < 40 && name.y + name.height <= tile.y, 'the title covers nothing')
  await under.shoot('a11-phone-select-all')
  await accessible(t, 'the choice for a highlight')
  await button(ann, 'Cancel').click()
  await button(ann, 'Discard').click()
  await ann.setViewportSize({ width: 1280, height: 860 })
})

t.test('an album is deleted after a question; its items stay in the library', async (t: Test) => {
  await ann.locator('.view-album .menu summary').click()
  await under.shoot('a12-menu')
  await accessible(t, 'the menu')
  await ann.keyboard.press('Escape')
  t.notOk(await button(ann, 'Delete album').isVisible())
  await choose(ann, 'Delete album')
  const question = ann.getByRole('alertdialog')
  await question.getByRole('button', { name: 'Cancel' }).click()
  await choose(ann, 'Delete album')
  await under.lookAway()
  await question.getByRole('button', { name: 'Delete album' }).click()
  await ann.getByRole('heading', { level: 1, name: 'Albums' }).waitFor()
  await ann.getByText('The album is deleted').waitFor()
  await ann.getByRole('link', { name: TITLE }).waitFor()
  t.equal(await ann.getByRole('link', { name: LONG_TITLE }).count(), 0)
  t.equal(Items.parse(await api.call('GET', `/api/media/${eventPath.split('/')[3]}?limit=100`)).media.length, 100)
})

/** Items of the album that was made last, without files. */
async function fill(rows: number): Promise<void> {
  await query(
    `with made as (select id, org_id, owner_id from albums order by created_at desc limit 1),
      added as (
        insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
            conversion_state)
          select gen_random_uuid(), org_id, owner_id, 'OLD_' || n || '.jpg', 'image/jpeg', 'image', 1000, 'completed',
            'succeeded'
          from made, generate_series(1, $1::int) n
          returning id, org_id, uploader_id, split_part(split_part(original_filename, '_', 2), '.', 1)::bigint as n)
      insert into album_media (album_id, media_id, org_id, position, listed, added_by)
        select made.id, added.id, added.org_id, n << 20, true, uploader_id from made, added`,
    [rows],
  )
  await query(
    `update albums set next_position = ($1::bigint + 1) << 20 where id = (select id from albums order by created_at desc limit 1)`,
    [rows],
  )
}

t.test('all of it without an error in the console and without a request to anywhere else', (t: Test) => {
  // An album that was withdrawn is as unknown to the shelf of its highlights, if that asks once more.
  const ofShelf = /status of 404 .*\/albums\/alb_\w+\/highlights/
  t.strictSame(
    under.consoleErrors.filter((text) => !ofShelf.test(text)),
    [],
  )
  t.strictSame(under.elsewhere, [])
  t.end()
})
