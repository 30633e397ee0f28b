// A process of its own: the platform takes its settings from the environment.
import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import sharp from 'sharp'
import t, { type Test } from 'tap'
import * as z from 'zod'
import { type Client, signIn, untilConverted, upload } from '../../local/demo/client.ts'
import { clip } from '../support/clips.ts'
import { button, lookAgain, openForTwoPeople, overflow } from '../support/two-people.ts'

/**
 * Comments and reactions on the demo page, with two people in two browsers against the whole platform: one writes below
 * an event and beside its photos, the other one finds it and answers. `SCREENSHOTS=folder` keeps what it looked like.
 * Takes over 20 s: every part of it is walked through by hand.
 */

const TITLE = 'Summer <img src=x onerror=boom()>'
/** Overrides of direction, HTML, and marks that would cover what stands above. */
const HTML_COMMENT = `<b>Ann</b> \u202E${'a\u0301'.repeat(3)} ${'\u0310'.repeat(30)}`.normalize()
/** Ann is Tomás, an administrator, who hosts; Bob is Mira, a member. */
const { under, ann, bob, folder } = await openForTwoPeople(t, { rateFactor: 20 })
const org = under.platform.demo.organizations[0]?.org_id ?? ''
let api: Client
let eventId: string
let eventPath: string
let albumId: string

const photo = async (name: string, colour: string) => {
  const path = join(folder, name)
  await sharp({ create: { width: 900, height: 600, channels: 3, background: colour } }).toFile(path)
  return path
}

/** An active event whose published album has two photos and a video; another photo is in the library alone. */
t.before(async () => {
  const { demo, page } = under.platform
  api = await signIn(demo.base_url, demo.accounts.admin)
  const add = async (path: string) => {
    const id = await upload(api, org, path, () => {})
    await untilConverted(api, org, id, () => {})
    return id
  }
  const walk = join(folder, 'walk.mp4')
  await copyFile(await clip('portrait'), walk)
  const [one, next, video] = await Promise.all([
    photo('one.jpg', '#c0392b').then(add),
    photo('next.jpg', '#2980b9').then(add),
    add(walk),
    photo('two.jpg', '#27ae60').then(add),
  ])
  const events = `/api/orgs/${org}/events`
  const made = await api.call('POST', events, { title: TITLE, start_at: '2031-05-10T16:00:00Z' })
  eventId = z.object({ event_id: z.string() }).parse(made).event_id
  eventPath = `${events}/${eventId}`
  await api.call('POST', `${eventPath}/activate`)
  const album = await api.call('POST', `/api/orgs/${org}/albums`, { title: TITLE, event_id: eventId })
  albumId = z.object({ album_id: z.string() }).parse(album).album_id
  for (const media_id of [one, next, video]) {
    await api.call('POST', `/api/orgs/${org}/albums/${albumId}/media`, { media_id })
  }
  await api.call('PUT', '/api/v1/albums/status', { album_id: albumId, status: 'PUBLIC' })
  await Promise.all([ann.goto(page.link({ account: 'admin' })), bob.goto(page.link({ account: 'member' }))])
  for (const one of [ann, bob]) await one.getByRole('heading', { level: 1, name: 'Class of 1994' }).waitFor()
})

const openView = async (page: typeof ann, hash: string) => {
  await page.goto(`${under.platform.page.url}/${hash}`)
  await page.getByRole('heading', { level: 1, name: TITLE }).waitFor()
}
const openEvent = (page: typeof ann) => openView(page, `#event=${eventId}`)
const openAlbum = (page: typeof ann) => openView(page, `#album=${albumId}`)
/** What is said about the event. */
const below = (page: typeof ann) => page.getByRole('region', { name: 'Comments' })
const comment = (page: typeof ann, text: string) => below(page).locator('.comment-list > .comment', { hasText: text })

t.test('a comment mentions a member whose name is completed', async (t: Test) => {
  await openEvent(bob)
  const field = bob.getByRole('textbox', { name: /Write a comment/ })
  await field.fill(`${HTML_COMMENT} @tom`)
  await bob.getByRole('option', { name: 'Tomás Silva' }).waitFor()
  t.strictSame(await under.violations(bob), [])
  await under.shoot('c2-completion', bob)
  await field.press('Enter')
  t.equal(await field.inputValue(), `${HTML_COMMENT} @Tomás Silva `)
  await field.pressSequentially('do you remember?')
  t.equal(await bob.getByRole('option').count(), 0)
  await button(bob, 'Attach photos').click()
  await bob
    .getByRole('dialog')
    .getByRole('button', { name: /^Photo two.jpg/ })
    .click()
  await button(bob, 'Attach 1').click()
  const sent = bob.waitForRequest((r) => r.method() === 'POST' && r.url().endsWith('/comments'))
  await button(bob, 'Comment').click()
  t.match((await sent).postDataJSON().body, /@[0-9a-f-]{36} do you remember\?$/, 'by the id')
  const mine = comment(bob, 'do you remember?')
  await mine.waitFor()
  t.equal(await mine.locator('.comment-body').textContent(), `${HTML_COMMENT} @Tomás Silva do you remember?`)
  t.equal(await mine.locator('.mention').textContent(), '@Tomás Silva')
  await under.until(`document.querySelector('.comment-media img')?.naturalWidth > 0`, bob)
  t.equal(await bob.evaluate(`getComputedStyle(document.querySelector('.comment-body')).unicodeBidi`), 'isolate')
})

t.test('reactions count once, and can be taken back', async (t: Test) => {
  const react = (name: string, pressed: boolean) =>
    bob.getByRole('group', { name: 'Reactions' }).first().getByRole('button', { name, pressed })
  await react('React with party, 0 so far', false).click()
  await react('React with party, 1 so far', true).waitFor()
  await react('React with fire, 0 so far', false).click()
  await react('React with fire, 1 so far', true).waitFor()
  t.ok(await react('React with party, 0 so far', false).isVisible(), 'one of each person')
  await react('React with fire, 1 so far', true).click()
  await react('React with fire, 0 so far', false).waitFor()
  // It is shown before it is saved. The host would see it only when asking again.
  const saved = bob.waitForResponse((r) => r.request().method() === 'POST' && r.url().endsWith('/reactions/meta'))
  await react('React with heart, 0 so far', false).click()
  await react('React with heart, 1 so far', true).waitFor()
  await saved
})

t.test('the host sees both, replies and reacts', async (t: Test) => {
  await openEvent(ann)
  const his = comment(ann, 'do you remember?')
  await his.waitFor()
  t.equal(await his.locator('.comment-author').textContent(), 'Mira Okafor')
  t.equal(await his.locator('.mention').textContent(), '@Tomás Silva')
  await ann.getByRole('button', { name: 'React with heart, 1 so far', pressed: false }).waitFor()
  t.notOk(await button(ann, 'Change').isVisible(), 'only its author changes a comment')
  await his.getByRole('button', { name: 'React with laughing, 0 so far' }).click()
  await his.getByRole('button', { name: 'React with laughing, 1 so far', pressed: true }).waitFor()
  await his.getByRole('button', { name: 'Reply' }).click()
  await ann.getByRole('textbox', { name: 'Reply to Mira Okafor' }).fill('Every minute of it')
  await his.locator('.reply-new').getByRole('button', { name: 'Reply' }).click()
  await his.locator('.replies .comment', { hasText: 'Every minute of it' }).waitFor()
  t.ok(await his.getByRole('button', { name: 'Reply' }).evaluate((it) => it.matches(':focus')), 'the focus is kept')
  t.strictSame(await under.violations(ann), [])
  await under.shoot('c3-replied')
})

t.test('the author changes a comment, and keeps its mention', async (t: Test) => {
  await lookAgain(bob)
  const mine = comment(bob, 'do you remember?')
  await mine.getByRole('button', { name: '1 reply' }).click()
  await mine.locator('.replies .comment', { hasText: 'Every minute of it' }).waitFor()
  await mine.getByRole('button', { name: 'React with laughing, 1 so far', pressed: false }).waitFor()
  await mine.getByRole('button', { name: 'Change' }).click()
  const field = bob.getByRole('textbox', { name: 'Change the comment' })
  t.equal(await field.inputValue(), `${HTML_COMMENT} @Tomás Silva do you remember?`)
  await field.press('Escape')
  await field.waitFor({ state: 'detached' })
  await mine.getByRole('button', { name: 'Change' }).click()
  await field.fill(`${HTML_COMMENT} @Tomás Silva do you still know?`)
  await button(bob, 'Save').click()
  await comment(bob, 'do you still know?').locator('.comment-edited', { hasText: 'edited' }).waitFor()
  t.equal(await comment(bob, 'do you still know?').locator('.mention').textContent(), '@Tomás Silva')
  await under.shoot('c4-changed', bob)
})

t.test('the host deletes a comment, with a reason; what is typed elsewhere stays', async (t: Test) => {
  const field = bob.getByRole('textbox', { name: /Write a comment/ })
  await field.fill('Wrong place')
  await button(bob, 'Comment').click()
  await comment(bob, 'Wrong place').waitFor()
  await field.fill('Still typing')
  await comment(bob, 'Wrong place').getByRole('button', { name: 'Change' }).click()
  await bob.getByRole('textbox', { name: 'Change the comment' }).fill('Right place')
  await lookAgain(ann)
  await comment(ann, 'Wrong place').getByRole('button', { name: 'Delete' }).click()
  await ann.getByLabel('Reason').fill('Not here')
  t.strictSame(await under.violations(ann), [])
  const sent = ann.waitForRequest((r) => r.method() === 'DELETE')
  await ann.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
  t.strictSame((await sent).postDataJSON(), { reason: 'Not here' })
  await comment(ann, 'Wrong place').waitFor({ state: 'detached' })
  await under.until(`document.activeElement.matches('.comment')`, ann)
  await lookAgain(bob)
  const deleted = comment(bob, '').filter({ has: bob.getByRole('textbox', { name: 'Change the comment' }) })
  await deleted.and(bob.locator('.deleted')).waitFor()
  t.equal(await bob.getByRole('textbox', { name: 'Change the comment' }).inputValue(), 'Right place', 'to be copied')
  await deleted.getByRole('button', { name: 'Cancel' }).click()
  await deleted.waitFor({ state: 'detached' })
  t.equal(await field.inputValue(), 'Still typing')
  await field.fill('')
})

/** The item of the album whose name this is, in the viewer. */
const viewer = (page: typeof ann, name: string) => page.getByRole('dialog', { name, exact: true })
const openItem = async (page: typeof ann, name: string) => {
  await page.getByRole('button', { name: new RegExp(`^(Photo|Play) ${name}`) }).click()
  await viewer(page, name).waitFor()
}
const closeItem = async (page: typeof ann, name: string) => {
  await viewer(page, name).getByRole('button', { name: 'Close', exact: true }).click()
  await viewer(page, name).waitFor({ state: 'detached' })
  // The address follows what is closed.
  await under.until(`!location.hash.includes('media=')`, page)
}
const discussion = (page: typeof ann) => page.getByRole('complementary', { name: 'Comments' })
const writing = (page: typeof ann) => discussion(page).getByRole('textbox', { name: /Write a comment/ })
const beside = (page: typeof ann, text: string) =>
  discussion(page).locator('.comment-list > .comment', { hasText: text })
/** The reactions to the item come before those to the comments. */
const itsReactions = (page: typeof ann) => discussion(page).getByRole('group', { name: 'Reactions' }).first()

t.test('a photo of the album is discussed beside it', async (t: Test) => {
  await openAlbum(bob)
  await openItem(bob, 'one.jpg')
  await writing(bob).fill('Who took this one?')
  await button(bob, 'Attach photos').click()
  await bob
    .getByRole('dialog', { name: 'Attach photos' })
    .getByRole('button', { name: /^Photo two.jpg/ })
    .click()
  await button(bob, 'Attach 1').click()
  await discussion(bob).getByRole('button', { name: 'Comment', exact: true }).click()
  await beside(bob, 'Who took this one?').waitFor()
  // What is outside of the viewer is inert while it is open.
  await viewer(bob, 'one.jpg').getByRole('status').filter({ hasText: 'The comment is posted' }).waitFor()
  await under.until(`[...document.querySelectorAll('.beside textarea')].every((text) => text.value === '')`, bob)
  await itsReactions(bob).getByRole('button', { name: 'React with fire' }).click()
  await itsReactions(bob).getByRole('button', { name: 'React with fire, 1 so far', pressed: true }).waitFor()
  await under.until(`document.querySelector('.beside .comment-list img')?.naturalWidth > 0`, bob)
  t.strictSame(await under.violations(bob), [])
  await under.shoot('v1-discussed', bob)
})

t.test('a comment that is half written stays, wherever the viewer goes', async (t: Test) => {
  await writing(bob).fill('Half a thought')
  for (const key of ['ArrowLeft', 'ArrowRight', 'Delete']) await writing(bob).press(key)
  t.ok(await viewer(bob, 'one.jpg').isVisible(), 'keys of the viewer are keys of the text here')
  await button(bob, 'Next').click()
  await viewer(bob, 'next.jpg').waitFor()
  t.equal(await writing(bob).inputValue(), '')
  await bob.getByText('Your comment is not sent').waitFor()
  await under.shoot('v2-unsent', bob)
  await button(bob, 'Go back').click()
  await viewer(bob, 'one.jpg').waitFor()
  t.equal(await writing(bob).inputValue(), 'Half a thought')
  await bob.keyboard.press('Escape')
  await viewer(bob, 'one.jpg').waitFor({ state: 'detached' })
  t.match(await bob.evaluate(`document.activeElement.ariaLabel`), /one.jpg/)
  await openItem(bob, 'one.jpg')
  t.equal(await writing(bob).inputValue(), 'Half a thought')
  await bob.evaluate(`new Promise((resolve) => {
    addEventListener('popstate', resolve, { once: true })
    document.querySelector('#viewer-close').click()
    const tiles = [...document.querySelectorAll('#album-items .frame')]
    tiles.find((tile) => tile.ariaLabel.startsWith('Photo one.jpg')).click()
  })`)
  await viewer(bob, 'one.jpg').waitFor()
  t.equal(await writing(bob).inputValue(), 'Half a thought', 'also when it is opened before the history has followed')
  await bob.reload()
  await viewer(bob, 'one.jpg').waitFor()
  t.equal(await writing(bob).inputValue(), 'Half a thought', 'also after a reload')
  await button(bob, 'Comments').click()
  t.notOk(await discussion(bob).isVisible())
  await button(bob, 'Comments').click()
  await discussion(bob).getByRole('button', { name: 'Comment', exact: true }).click()
  await beside(bob, 'Half a thought').waitFor()
  await beside(bob, 'Half a thought').getByRole('button', { name: 'Change' }).click()
  const changed = discussion(bob).getByRole('textbox', { name: 'Change the comment' })
  await changed.press('Escape')
  await changed.waitFor({ state: 'detached' })
  await beside(bob, 'Half a thought').getByRole('button', { name: 'Change' }).click()
  await changed.fill('Another thought')
  await changed.press('Escape')
  t.equal(await changed.inputValue(), 'Another thought', 'Escape leaves the text, and discards nothing')
  t.ok(await viewer(bob, 'one.jpg').isVisible())
  await button(bob, 'Cancel').click()
  await closeItem(bob, 'one.jpg')
})

t.test('a comment that is on its way is neither unsent nor sent twice, wherever the viewer goes', async (t: Test) => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  let posts = 0
  await bob.route('**/comments', async (route) => {
    if (route.request().method() === 'POST' && posts++ === 0) await released
    await route.continue()
  })
  await openItem(bob, 'next.jpg')
  await writing(bob).fill('Slow, but sent')
  await discussion(bob).getByRole('button', { name: 'Comment', exact: true }).click()
  await button(bob, 'Previous').click()
  await viewer(bob, 'one.jpg').waitFor()
  await writing(bob).waitFor()
  t.equal(await bob.getByText('Your comment is not sent').filter({ visible: true }).count(), 0)
  await button(bob, 'Next').click()
  await viewer(bob, 'next.jpg').waitFor()
  t.equal(await writing(bob).inputValue(), 'Slow, but sent')
  t.notOk(await writing(bob).isEditable(), 'while it is on its way')
  await writing(bob).press('Control+Enter')
  release()
  await beside(bob, 'Slow, but sent').waitFor()
  await under.until(`document.querySelector('.beside textarea').value === ''`, bob)
  t.ok(await writing(bob).isEditable())
  t.strictSame([posts, await beside(bob, 'Slow, but sent').count()], [1, 1])
  await bob.unroute('**/comments')
  await closeItem(bob, 'next.jpg')
})

t.test('a video plays on while a comment is written', async (t: Test) => {
  await openItem(bob, 'walk.mp4')
  await writing(bob).pressSequentially('It pl')
  await under.until(`document.querySelector('dialog[open] video').currentTime > 0`, bob)
  await bob.evaluate(`document.querySelector('dialog[open] video').pause()`)
  await bob.evaluate(`document.querySelector('dialog[open] video').play()`)
  await writing(bob).pressSequentially('ays')
  t.equal(await writing(bob).inputValue(), 'It plays')
  await discussion(bob).getByRole('button', { name: 'Comment', exact: true }).click()
  await beside(bob, 'It plays').waitFor()
  await closeItem(bob, 'walk.mp4')
})

t.test('another member answers, and sees what is attached without losing the place', async (t: Test) => {
  await openAlbum(ann)
  await openItem(ann, 'one.jpg')
  const counted = itsReactions(ann).getByRole('button', { name: 'React with fire, 1 so far' })
  await counted.waitFor()
  t.equal(await counted.getAttribute('aria-pressed'), 'false', 'the reaction of another')
  const his = beside(ann, 'Who took this one?')
  await his.getByRole('button', { name: 'Reply' }).click()
  await ann.getByRole('textbox', { name: 'Reply to Mira Okafor' }).fill('That was me')
  await his.getByRole('button', { name: 'Open two.jpg' }).click()
  await viewer(ann, 'two.jpg').waitFor()
  await ann.keyboard.press('Escape')
  await viewer(ann, 'one.jpg').waitFor()
  await his.getByRole('button', { name: 'Open two.jpg' }).click()
  await viewer(ann, 'two.jpg').waitFor()
  await ann.goBack()
  await viewer(ann, 'one.jpg').waitFor()
  await ann.goForward()
  await viewer(ann, 'two.jpg').waitFor()
  await ann.goBack()
  await viewer(ann, 'one.jpg').waitFor()
  t.equal(await ann.getByRole('textbox', { name: 'Reply to Mira Okafor' }).inputValue(), 'That was me')
  await his.locator('.reply-new').getByRole('button', { name: 'Reply' }).click()
  await his.locator('.replies .comment', { hasText: 'That was me' }).waitFor()
})

t.test('replies to a comment that is deleted stay where they can be read', async (t: Test) => {
  await openItem(bob, 'one.jpg')
  await itsReactions(bob).getByRole('button', { name: 'fire, 1 so far', pressed: true }).waitFor()
  await beside(bob, 'Who took this one?').getByRole('button', { name: '1 reply' }).click()
  await beside(ann, 'Who took this one?').getByRole('button', { name: 'Delete' }).first().click()
  await ann.getByRole('dialog').last().getByRole('button', { name: 'Delete' }).click()
  for (const page of [ann, bob]) {
    await lookAgain(page)
    const deleted = beside(page, 'This comment was deleted.')
    await deleted.locator('.replies .comment', { hasText: 'That was me' }).waitFor()
    t.equal(await beside(page, 'Who took this one?').count(), 0)
    t.equal(await deleted.locator('> .comment-main > .comment-foot').isVisible(), false)
    t.equal(await discussion(page).locator('.comment-list > .comment').count(), 2)
  }
  await under.shoot('v3-deleted')
  await closeItem(bob, 'one.jpg')
  // As for a reader who never saw the comment: the page remembers nothing.
  await bob.reload()
  await openItem(bob, 'one.jpg')
  await beside(bob, 'This comment was deleted.').getByRole('button', { name: '1 reply' }).click()
  await beside(bob, 'This comment was deleted.').getByText('That was me').waitFor()
  await beside(ann, 'This comment was deleted.').locator('.replies').getByRole('button', { name: 'Delete' }).click()
  await ann.getByRole('dialog').last().getByRole('button', { name: 'Delete' }).click()
  await beside(ann, 'This comment was deleted.').waitFor({ state: 'detached' })
  await lookAgain(bob)
  await beside(bob, 'This comment was deleted.').waitFor({ state: 'detached' })
})

t.test('on a phone the picture has the room until the comments are wanted', async (t: Test) => {
  await bob.setViewportSize({ width: 360, height: 740 })
  await bob.reload()
  await viewer(bob, 'one.jpg').waitFor()
  t.notOk(await discussion(bob).isVisible())
  await under.shoot('v4-phone-picture', bob)
  await button(bob, 'Comments').click()
  await beside(bob, 'Half a thought').waitFor()
  await writing(bob).fill('From the road')
  await under.shoot('v4-phone-comments', bob)
  t.equal(
    await bob.evaluate(
      `(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('dialog[open]'))`,
    ),
    0,
  )
  const [picture, panel] = await Promise.all([
    viewer(bob, 'one.jpg').locator('.stage').boundingBox(),
    discussion(bob).boundingBox(),
  ])
  t.ok(picture && panel && picture.height > 150 && panel.y >= picture.y + picture.height, 'one below the other')
  await closeItem(bob, 'one.jpg')
  await bob.getByText('Your comment is not sent').waitFor()
  await bob.setViewportSize({ width: 1280, height: 860 })
  await closeItem(ann, 'one.jpg')
  for (const page of [ann, bob]) await openEvent(page)
})

t.test('HTML of others never becomes an element', async (t: Test) => {
  for (const page of [ann, bob]) {
    await comment(page, 'do you still know?').waitFor()
    t.equal(await page.evaluate(`document.querySelectorAll('img[src=x], .comment-body b').length`), 0)
  }
})

interface Shown {
  getBoundingClientRect(): { width: number; height: number; right: number }
  textContent: string | null
}
const tooSmall = (buttons: Shown[]) =>
  buttons.flatMap((it) => {
    const { width, height } = it.getBoundingClientRect()
    return width < 44 || height < 44 ? [`${it.textContent} ${width} x ${height}`] : []
  })

interface Form extends Shown {
  querySelectorAll(selector: string): Iterable<Shown>
}
const beyondItsEdge = (form: Form) =>
  [...form.querySelectorAll('button, textarea')].flatMap((it) =>
    it.getBoundingClientRect().right > form.getBoundingClientRect().right + 0.5 ? [it.textContent] : [],
  )

t.test('nothing sticks out on a phone, by day and by night', async (t: Test) => {
  await comment(ann, 'do you still know?').getByRole('button', { name: '1 reply' }).click()
  await ann.getByText('Every minute of it').waitFor()
  await comment(ann, 'do you still know?').getByRole('button', { name: 'Reply', exact: true }).first().click()
  await ann.locator('.comment .composer').waitFor()
  for (const [width, colorScheme] of [
    [390, 'light'],
    [360, 'dark'],
    [320, 'light'],
  ] as const) {
    await ann.emulateMedia({ colorScheme })
    await ann.setViewportSize({ width, height: 800 })
    await ann.screenshot({
      path: join(process.env['SCREENSHOTS'] ?? folder, `c5-phone-event-${width}.png`),
      fullPage: true,
    })
    t.equal(await overflow(ann), 0, `event ${width}`)
    // A picture of the whole page ends the emulation.
    await under.devtools.send('Emulation.setTouchEmulationEnabled', { enabled: true })
    t.ok(await ann.evaluate(`matchMedia('(pointer: coarse)').matches`))
    t.strictSame(await below(ann).getByRole('button').evaluateAll(tooSmall), [], 'large enough for a finger')
    await under.shoot(`c5-touch-${width}`)
    t.equal(await overflow(ann), 0, `event ${width}, with a finger`)
    t.strictSame(await ann.locator('.comment .composer').first().evaluate(beyondItsEdge), [], 'the form of a reply')
  }
  await ann.locator('.comment .composer').getByRole('button', { name: 'Cancel' }).click()
  await ann.emulateMedia({ colorScheme: 'light' })
  await ann.setViewportSize({ width: 1280, height: 860 })
})

t.test('an archived event is read-only', async (t: Test) => {
  await api.call('POST', `${eventPath}/archive`)
  await lookAgain(bob)
  await bob.getByText('Archived', { exact: true }).waitFor()
  await below(bob).locator('.comment-new').waitFor({ state: 'hidden' })
  for (const name of ['Reply', 'Change', 'Comment']) await button(bob, name).waitFor({ state: 'detached' })
  t.ok(await button(bob, 'Delete').filter({ visible: true }).count(), 'what one has said can still be deleted')
  t.ok(await bob.getByRole('button', { name: 'React with heart, 1 so far' }).isDisabled())
  await under.shoot('c6-archived', bob)
})

t.test('all of it without an error in the console and without a request to anywhere else', (t: Test) => {
  t.strictSame(under.consoleErrors, [])
  t.strictSame(under.elsewhere, [])
  t.end()
})
