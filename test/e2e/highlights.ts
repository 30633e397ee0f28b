// A process of its own: the platform takes its settings from the environment.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import sharp from 'sharp'
import t, { type Test } from 'tap'
import * as z from 'zod'
import { type Client, signIn } from '../../local/demo/client.ts'
import { offerTracks } from '../../local/demo/tracks.ts'
import { uuidOf } from '../support/api.ts'
import { clip, ffmpeg } from '../support/clips.ts'
import { eventually } from '../support/eventually.ts'
import { button, lookAgain, openForTwoPeople, overflow } from '../support/two-people.ts'

/**
 * Highlights on the demo page, with two people in two browsers against the whole platform: one makes a highlight of an
 * album, the other one finds it. `SCREENSHOTS=folder` keeps what it looked like.
 * Takes over 20 s: highlights are rendered while the page is watched.
 */

const TITLE = 'Summer <img src=x onerror=boom()>'
const attributionOf = (title: string) => `${title}, by <b>Ann</b>`
/** Ann is Tomás, an administrator, who hosts; Bob is Mira, a member. */
const { under, ann, bob, folder, whileRendersWait } = await openForTwoPeople(t, { rateFactor: 20 })
const { demo, page } = under.platform
const org = demo.organizations[0]?.org_id ?? ''
let api: Client
let albumId: string
let eventId: string

/** Pictures and a clip that are too small for more than one rendition. */
const photo = (colour: string) =>
  sharp({ create: { width: 320, height: 180, channels: 3, background: colour } })
    .jpeg()
    .toBuffer()

async function addTrack(title: string): Promise<void> {
  const path = join(folder, `${title}.m4a`)
  await ffmpeg(['-f', 'lavfi', '-i', 'sine=frequency=330:duration=6', '-c:a', 'aac', path])
  const track = { path, title, license: 'CC BY 4.0', attribution: attributionOf(title) }
  await offerTracks({ database: demo.database_url, objects: join(folder, 'data/objects') }, [track])
}

const Listed = z.object({ media: z.array(z.object({ media_id: z.string(), original_filename: z.string() })) })
const Highlights = z.object({
  highlights: z.array(z.object({ highlight_id: z.string(), media_ids: z.array(z.string()), status: z.string() })),
})
/** An MP4 in its first bytes and nothing after: accepted, and found to be broken when it is converted. */
const BROKEN = Buffer.concat([Buffer.from('\0\0\0\x18ftypisom\0\0\x02\0isomiso2', 'latin1'), Buffer.alloc(3000, 7)])
const idOf = async (name: string) => {
  const { media } = Listed.parse(await api.call('GET', `/api/media/${org}?limit=100`))
  return media.find((m) => m.original_filename === name)?.media_id ?? ''
}
const newest = async () => {
  const [first] = Highlights.parse(await api.call('GET', `/api/media/${org}/highlights`)).highlights
  if (!first) throw new Error('there is no highlight')
  return first
}

t.before(async () => {
  api = await signIn(demo.base_url, demo.accounts.admin)
  await Promise.all([ann.goto(page.link({ account: 'admin' })), bob.goto(page.link({ account: 'member' }))])
  for (const one of [ann, bob]) await one.getByRole('heading', { level: 1, name: 'Class of 1994' }).waitFor()
  const planned = await api.call('POST', `/api/orgs/${org}/events`, { title: TITLE, start_at: '2031-05-10T16:00:00Z' })
  eventId = z.object({ event_id: z.string() }).parse(planned).event_id
  await api.call('POST', `/api/orgs/${org}/events/${eventId}/activate`)
  const made = await api.call('POST', `/api/orgs/${org}/albums`, { title: TITLE, event_id: eventId })
  albumId = z.object({ album_id: z.string() }).parse(made).album_id
})

t.test('photos and a video are in the library, and in a published album', async () => {
  const pictures = Object.entries({ 'one.jpg': '#c0392b', 'two.jpg': '#27ae60', 'three.jpg': '#2980b9' })
  await ann
    .locator('#files')
    .setInputFiles([
      ...(await Promise.all(
        pictures.map(async ([name, colour]) => ({ name, mimeType: 'image/jpeg', buffer: await photo(colour) })),
      )),
      { name: 'walk.mp4', mimeType: 'video/mp4', buffer: await readFile(await clip('upright')) },
    ])
  await ann.getByRole('heading', { name: '4 files uploaded' }).waitFor()
  for (const name of ['one.jpg', 'two.jpg', 'three.jpg', 'walk.mp4']) {
    await api.call('POST', `/api/orgs/${org}/albums/${albumId}/media`, { media_id: await idOf(name) })
  }
  await api.call('PUT', '/api/v1/albums/status', { album_id: albumId, status: 'PUBLIC' })
})

t.test('a group without highlights says what they are', async () => {
  await ann.getByRole('link', { name: 'Highlights' }).click()
  await ann.getByText('No highlights yet').waitFor()
  await under.shoot('h1-empty')
})

const picker = ann.locator('#picker')
const choose = (name: string) => picker.getByRole('button', { name: new RegExp(`^(Photo|Play|Video) ${name}`) }).click()
const places = (of = '.highlight-form .order') =>
  ann.evaluate<string[]>(`[...document.querySelectorAll('${of} > li')].map((item) => item.title)`)
const name = () => ann.locator('.highlight-form').getByLabel('Name', { exact: true })
const length = () => ann.locator('.highlight-form .length').textContent()

t.test('items of an album are chosen, in an order', async (t: Test) => {
  await ann.goto(`${page.url}/#album=${albumId}`)
  await under.until(`document.querySelector('#album-items .tile[data-kind=video][data-state=completed]')`)
  await button(ann, 'Make a highlight').click()
  await button(ann, 'Select all').click()
  await button(ann, 'Continue with 4').waitFor()
  for (const name of ['one.jpg', 'two.jpg', 'three.jpg', 'walk.mp4']) await choose(name)
  for (const name of ['two.jpg', 'walk.mp4', 'one.jpg', 'three.jpg']) await choose(name)
  t.equal(await picker.locator('.month-name').textContent(), TITLE, 'those of the album')
  t.equal(await picker.getByRole('button', { name: /^Photo one.jpg/ }).getAttribute('data-place'), '3')
  await under.shoot('h2-choose')
  await button(ann, 'Continue with 4').click()
  t.strictSame(await places(), ['two.jpg', 'walk.mp4', 'one.jpg', 'three.jpg'])
  t.equal(await name().inputValue(), TITLE)
  t.strictSame(await under.violations(), [])
})

t.test('as long as there is no music, the form says who adds some', async () => {
  await ann.getByText('There is no music yet.').waitFor()
  await addTrack('Waves')
  await addTrack('Hills')
  await lookAgain(ann)
  await ann.locator('.track', { hasText: 'Waves' }).waitFor()
})

t.test('they are put in order by dragging and by keys, and one is taken out', async (t: Test) => {
  const entry = (name: string) =>
    ann.locator('.order-item:not(.ghost)').filter({ has: button(ann, `Take out ${name}`) })
  const [from, to] = await Promise.all([entry('three.jpg').boundingBox(), entry('two.jpg').boundingBox()])
  if (!from || !to) throw new Error('the items are not shown')
  await ann.mouse.move(from.x + 50, from.y + 60)
  await ann.mouse.down()
  await ann.mouse.move(from.x + 30, from.y + 60, { steps: 3 })
  await ann.mouse.move(to.x + 40, to.y + 60, { steps: 6 })
  await under.shoot('h3-dragging')
  await ann.mouse.up()
  t.strictSame(await places(), ['three.jpg', 'two.jpg', 'walk.mp4', 'one.jpg'])
  await entry('one.jpg').locator('.handle').focus()
  await ann.keyboard.press('Home')
  t.strictSame(await places(), ['one.jpg', 'three.jpg', 'two.jpg', 'walk.mp4'])
  t.match(await ann.evaluate('document.activeElement.ariaLabel'), /^Move one.jpg, item 1/, 'it keeps the focus')
  await button(ann, 'Take out two.jpg').click()
  t.strictSame(await places(), ['one.jpg', 'three.jpg', 'walk.mp4'])
  t.match(await ann.evaluate('document.activeElement.ariaLabel'), 'Take out walk.mp4', 'the next one has the focus')
})

t.test('the length follows from the items and the transition', async (t: Test) => {
  await under.until(`/about 0:06$/.test(document.querySelector('.highlight-form .length').textContent)`)
  await ann.getByLabel('From item to item').selectOption('cut')
  t.equal(await length(), '3 items, about 0:07')
  await ann.getByLabel('From item to item').selectOption('crossfade')
})

t.test('one track at a time can be heard, with its license and attribution', async (t: Test) => {
  const track = ann.locator('.track', { hasText: 'Waves' })
  t.equal(await track.locator('.about').textContent(), `0:06 · ${attributionOf('Waves')}, CC BY 4.0`)
  await button(ann, 'Play Waves').click()
  await under.until(`document.querySelector('.tracks audio').currentTime > 0.2`)
  await button(ann, 'Play Hills').click()
  await button(ann, 'Pause Hills').waitFor()
  await button(ann, 'Play Waves').click()
  await button(ann, 'Play Hills').waitFor()
  await button(ann, 'Pause Waves').click()
  t.ok(await ann.evaluate(`document.querySelector('.tracks audio').paused`))
  await track.locator('input').check()
  await under.shoot('h4-form')
})

t.test('what is seldom changed is among more options', async (t: Test) => {
  const moves = ann.getByLabel('Photos move slowly')
  t.notOk(await moves.isVisible())
  await ann.getByText('More options').click()
  await under.shoot('h4-options')
  await moves.uncheck()
})

t.test('a highlight without a name is refused beside the field', async (t: Test) => {
  await name().fill(' ')
  await button(ann, 'Make the highlight').click()
  t.strictSame(await ann.getByRole('alert').filter({ visible: true }).allTextContents(), ['Give the highlight a name.'])
  await name().fill(TITLE)
})

const STEPS = `
  globalThis.steps = new Set()
  new MutationObserver(() => steps.add(document.querySelector('.highlight-progress .step')?.textContent))
    .observe(document.querySelector('#content'), { childList: true, characterData: true, subtree: true })`
/** The highlight that plays; undefined while its player begins anew, with less than all of it. */
const playing = () =>
  ann.evaluate<{ length: number; height: number } | undefined>(
    `((v) => (v?.currentTime > 0.5 && v.videoHeight > 0 && Math.abs(v.duration - 6) < 0.6 ? { length: v.duration, height: v.videoHeight } : undefined))(document.querySelector('.highlight-stage video'))`,
  )

t.test('it is watched being made, and plays', async (t: Test) => {
  await ann.evaluate(STEPS)
  const sending = ann.waitForRequest((request) => request.method() === 'POST' && /highlights$/.test(request.url()))
  await button(ann, 'Make the highlight').click()
  const sent = await sending
  t.match(new URL(sent.url()).pathname, /\/events\/evt_\w+\/highlights$/, 'as a highlight of the event of the album')
  t.match(sent.postDataJSON(), { title: TITLE, transition: 'crossfade', ken_burns: false, show_title: true })
  await ann.getByRole('heading', { level: 1, name: TITLE }).waitFor()
  await ann.locator('.highlight-progress').waitFor()
  await under.shoot('h5-being-made')
  await under.until(`document.querySelector('.view-highlight .badge-state')?.textContent === 'Ready'`)
  const steps = await ann.evaluate<string[]>('[...steps]')
  t.comment(steps.join(' | '))
  t.ok(steps.some((step) => /^(Waiting|Fetching|Item \d of 3|Finishing)/.test(step)))
  // Its player begins anew once it is finished.
  const { length: seconds, height } = await eventually('the whole of it to play', playing)
  t.comment(`lasts ${seconds} s, ${height} lines`)
  t.match(await ann.locator('.highlight-words .facts').textContent(), /^0:06 · 3 items · Crossfades/)
  t.equal(await ann.locator('.highlight-music').textContent(), `Waves · ${attributionOf('Waves')}, CC BY 4.0`)
  t.equal(await ann.locator('.highlight-stage select').inputValue(), '-1', 'with a choice of its renditions')
  t.strictSame(await under.violations(), [])
  await under.shoot('h6-playing')
})

t.test('its link can be taken along, by the share sheet of a device or by copying', async (t: Test) => {
  await ann.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: page.url })
  await button(ann, 'Share').click()
  await ann.getByRole('status').filter({ hasText: 'The link is copied. Those who can see its album' }).waitFor()
  t.equal(await ann.evaluate('navigator.clipboard.readText()'), ann.url())
  await ann.evaluate('navigator.share = async (given) => { globalThis.shared = given }')
  await button(ann, 'Share').click()
  t.strictSame(await ann.evaluate('shared'), { title: TITLE, url: ann.url() })
  await ann.evaluate(`navigator.clipboard.writeText('before')`)
  await ann.evaluate(
    `navigator.share = async () => { globalThis.shared = 0; throw new DOMException('', 'AbortError') }`,
  )
  await button(ann, 'Share').click()
  await under.until('shared === 0')
  t.equal(await ann.evaluate('navigator.clipboard.readText()'), 'before', 'who closes the sheet wants nothing copied')
  await ann.evaluate(`delete navigator.share`)
})

t.test('an item leads to its place in the highlight, which plays to its end', async () => {
  await ann.getByRole('button', { name: /^Item 3, walk.mp4, at/ }).click()
  await under.until(`document.querySelector('.highlight-stage video')?.currentTime > 6`)
  await under.until(`document.querySelector('.highlight-stage video')?.ended`)
})

const card = (of: typeof ann) => of.locator('.highlight-card', { hasText: 'Summer' })

t.test('another person who sees the album finds the highlight there, and plays it', async (t: Test) => {
  await bob.goto(`${page.url}/#event=${eventId}`)
  await card(bob).waitFor()
  await under.shoot('h7-event', bob)
  await bob.goto(`${page.url}/#album=${albumId}`)
  await card(bob).waitFor()
  await under.until(`document.querySelector('.highlight-shelf .thumb.loaded')`, bob)
  await under.shoot('h7-album', bob)
  await card(bob).click()
  await under.until(`document.querySelector('.highlight-stage video')?.currentTime > 0.3`, bob)
  t.notOk(await button(bob, 'Delete this highlight').isVisible(), 'another person made it')
  await bob.getByRole('link', { name: 'All highlights' }).click()
  await card(bob).waitFor()
  t.match(await card(bob).locator('.badge').textContent(), /^0:06$/)
  t.strictSame(await under.violations(bob), [])
  await under.shoot('h8-list', bob)
})

t.test(
  'a source that was deleted or cannot be read is named, and the highlight can be made again without it',
  async (t: Test) => {
    await ann.goto(`${page.url}/#`)
    await ann.locator('#files').setInputFiles([{ name: 'broken.mp4', mimeType: 'video/mp4', buffer: BROKEN }])
    await ann.locator('.tile[data-state=failed]').waitFor()
    await button(ann, 'Make a highlight').click()
    for (const name of ['one.jpg', 'broken.mp4', 'two.jpg']) await choose(name)
    await button(ann, 'Continue with 3').click()
    await ann.getByText('Cannot be read: broken.mp4.').waitFor()
    t.strictSame(await ann.locator('.order-item .mark').allTextContents(), ['Cannot be read'])
    await button(ann, 'Leave out').click()
    await ann.getByText('Left out, because it cannot be read: broken.mp4.').waitFor()
    t.equal(await length(), '2 items, about 0:06')
    await name().fill('Mine alone')
    const two = await idOf('two.jpg')
    await api.call('DELETE', `/api/media/${org}/${two}`)
    await button(ann, 'Make the highlight').click()
    await ann.getByText('The marked items cannot be used').waitFor()
    t.strictSame(await ann.locator('.order-item .mark').allTextContents(), ['Is left out', 'Deleted'])
    await under.shoot('h9-refused')
    await under.reported(422)
    await api.call('POST', `/api/media/${org}/${two}/restore`)
    await whileRendersWait(uuidOf('organization', org), async () => {
      await button(ann, 'Make the highlight').click()
      await ann.getByRole('heading', { level: 1, name: 'Mine alone' }).waitFor()
      await ann.getByText('Waiting to be made').waitFor()
      // The page gets to know its name with the picture.
      await under.until(`document.querySelector('.highlight-items li:nth-child(3) .thumb.loaded')`)
      await api.call('DELETE', `/api/media/${org}/${two}`)
    })
    await ann.getByText('Item 3 (two.jpg) was deleted before the highlight was finished.').waitFor()
    await ann.getByText('Left out, because it could not be read: item 2 (broken.mp4).').waitFor()
    await under.shoot('h10-failed')
    t.strictSame(await under.violations(), [])
    await button(ann, 'Make it again').click()
    t.strictSame(await places(), ['one.jpg'])
    await ann
      .getByText('Not chosen again, because they were deleted or could not be read: item 2 (broken.mp4), item 3')
      .waitFor()
    await name().fill('Mine alone, again')
    await ann.keyboard.press('Escape')
    await button(ann, 'Keep editing').click()
    t.equal(await name().inputValue(), 'Mine alone, again', 'Escape does not discard what was typed')
    await button(ann, 'Cancel').click()
    await button(ann, 'Discard').click()
  },
)

t.test('what has no album is for its creator alone, who deletes it', async (t: Test) => {
  await lookAgain(bob)
  await bob.goto(`${page.url}/#highlight=${(await newest()).highlight_id}`)
  await bob.getByRole('heading', { name: 'This highlight cannot be shown' }).waitFor()
  await under.reported(404)
  await button(ann, 'Delete this highlight').click()
  await ann.getByRole('alertdialog').getByRole('button', { name: 'Delete' }).click()
  await ann.getByText('The highlight is deleted').waitFor()
  await card(ann).waitFor()
  t.equal(await ann.locator('.highlight-card').count(), 1)
})

/** What is too small for a finger. */
const small = () =>
  ann.evaluate<string[]>(
    `[...document.querySelectorAll(':is(.view-highlights, .view-highlight, .highlight-form) :is(button, select, summary, .check, .track label)')]
      .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 44).map((one) => one.outerHTML)`,
  )

t.test('nothing sticks out on a phone, by day and by night', async (t: Test) => {
  for (const [width, colorScheme] of [
    [390, 'light'],
    [360, 'dark'],
  ] as const) {
    await ann.emulateMedia({ colorScheme })
    await ann.setViewportSize({ width, height: 800 })
    await ann.goto(`${page.url}/#highlights`)
    await card(ann).waitFor()
    await under.shoot(`h11-phone-list-${width}`)
    t.equal(await overflow(ann), 0, `list ${width}`)
    await card(ann).click()
    await under.until(`document.querySelector('.highlight-stage video')?.readyState >= 2`)
    await under.shoot(`h11-phone-one-${width}`)
    t.equal(await overflow(ann), 0, `one ${width}`)
    t.strictSame([...(await small()), ...(await under.violations())], [])
    await button(ann, 'Make it again').click()
    await ann.locator('.track', { hasText: 'Waves' }).waitFor()
    await under.shoot(`h11-phone-form-${width}`)
    await ann.getByText('More options').click()
    t.strictSame([...(await small()), ...(await under.violations())], [])
    t.equal(
      await ann.evaluate(
        `(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('.highlight-form .form-body'))`,
      ),
      0,
    )
    await button(ann, 'Cancel').click()
  }
})

t.test('HTML of others never becomes an element, and all of it without an error in the console', async (t: Test) => {
  t.equal(await ann.evaluate(`document.querySelectorAll('img[src=x], .track b').length`), 0)
  t.strictSame(under.consoleErrors, [])
  t.strictSame(under.elsewhere, [])
})
