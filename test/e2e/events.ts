// A process of its own: the platform takes its settings from the environment.
import { readFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { tokenOf } from '../support/invitations.ts'
import { readQr } from '../support/qr.ts'
import { button, lookAgain, openForTwoPeople, overflow } from '../support/two-people.ts'

/**
 * Events on the demo page, with two people in two browsers against the whole platform: one invites, the other answers.
 * `SCREENSHOTS=folder` keeps what it looked like.
 */

const TITLE = 'Reunion <img src=x onerror=boom()>'
const MESSAGE = '<b>Long time</b> no see'
/** Ann is Mira, who hosts; Bob is Ines, of another group. */
const { under, ann, bob, query } = await openForTwoPeople(t)
let inviteUrl: string
let tomasUrl: string
/** Addresses that Bob's browser asked for. */
const asked: string[] = []

bob.on('request', (request) => void asked.push(request.url()))

const member = () => under.platform.demo.accounts.member
const outsider = () => under.platform.demo.accounts.outsider

async function signInAs(page: typeof ann, { email, password }: { email: string; password: string }) {
  await page.getByLabel('E-mail').fill(email)
  await page.getByLabel('Password').fill(password)
  await button(page, 'Sign in').click()
}

t.test('a group without events says what they are for', async (t: Test) => {
  await under.signIn()
  await ann.getByRole('link', { name: 'Events' }).click()
  await ann.getByText('No events yet').waitFor()
  t.equal(new URL(ann.url()).hash, '#events')
  t.strictSame(await under.violations(), [])
  await under.shoot('e1-empty')
})

t.test('a form says what is missing, and makes a draft', async (t: Test) => {
  await button(ann, 'New event').click()
  await ann.getByLabel('Ends').fill('2020-01-01T10:00')
  await button(ann, 'Create draft').click()
  t.strictSame(await ann.getByRole('alert').filter({ visible: true }).allTextContents(), [
    'Give the event a title.',
    'The end is before the start.',
  ])
  t.strictSame(await under.violations(), [])
  await under.shoot('e2-form')
  await ann.getByLabel('Title').fill(TITLE)
  await ann.keyboard.press('Escape')
  const question = ann.getByRole('alertdialog', { name: 'Discard what you entered?' })
  await question.waitFor()
  t.strictSame(await under.violations(), [])
  await question.getByRole('button', { name: 'Keep editing' }).click()
  t.equal(await ann.getByLabel('Title').inputValue(), TITLE, 'Escape asks before it discards')
  await ann.evaluate('history.back()')
  await question.waitFor()
  t.equal(new URL(ann.url()).hash, '#events', 'and so does Back')
  await question.getByRole('button', { name: 'Discard' }).click()
  await ann.getByRole('heading', { level: 1, name: 'Class of 1994' }).waitFor()
  await ann.getByRole('link', { name: 'Events' }).click()
  await button(ann, 'New event').click()
  await ann.getByLabel('Title').fill(TITLE)
  await ann.getByLabel('Starts').fill('2031-05-10T16:00')
  await ann.getByLabel('Ends').fill('2031-05-10T22:30')
  await ann.getByLabel('Place').fill('The old school')
  await ann.getByLabel('Description').fill(`${MESSAGE}\n\nBring your yearbook.`)
  await button(ann, 'Create draft').click()
  await ann.getByRole('heading', { level: 1, name: TITLE }).waitFor()
  t.match(new URL(ann.url()).hash, /^#event=evt_/)
  t.equal(await ann.locator('#event-state').textContent(), 'Draft')
  t.equal(await ann.locator('#event-part').textContent(), 'You host')
  t.match(await ann.locator('#event-when').textContent(), /Sat, May 10, 2031.*4:00.*10:30/)
  t.match(await ann.locator('#event-description').textContent(), MESSAGE)
  t.strictSame(
    [await button(ann, 'Activate').isVisible(), await button(ann, 'Archive').isVisible()],
    [true, false],
    'a draft cannot be archived',
  )
  t.strictSame(await under.violations(), [])
  await under.shoot('e3-draft')
})

t.test('what is edited changes, and nothing else', async (t: Test) => {
  await button(ann, 'Edit').click()
  t.equal(await ann.getByLabel('Starts').inputValue(), '2031-05-10T16:00')
  await ann.getByLabel('Place').fill('The new school')
  const sent = ann.waitForRequest((request) => request.method() === 'PUT')
  await button(ann, 'Save').click()
  t.strictSame((await sent).postDataJSON(), { location_name: 'The new school' })
  await ann.getByText('The new school').waitFor()
})

t.test('activating asks first', async (t: Test) => {
  await button(ann, 'Activate').click()
  t.strictSame(await under.violations(), [])
  await ann.getByRole('alertdialog').getByRole('button', { name: 'Activate' }).click()
  await under.until(`document.querySelector('#event-state').textContent === 'Active'`)
  t.ok(await button(ann, 'Archive').isVisible())
  t.equal(await ann.getByLabel('More').count(), 0, 'only a draft can be deleted')
  await under.until(`document.activeElement.id === 'event-title'`)
})

t.test('a member is found by a part of the name, and invited', async (t: Test) => {
  await button(ann, 'Invite').click()
  await button(ann, 'Make the link').click()
  await ann.getByRole('alert').filter({ hasText: 'Choose a member.' }).waitFor()
  const found = ann.getByRole('list', { name: 'Members' }).getByRole('button')
  await found.first().waitFor()
  await ann.getByLabel('Search the members').fill('sil')
  await under.until(`document.querySelectorAll('.invite .members li').length === 1`)
  await ann
    .locator('.invite .members')
    .getByRole('button', { name: /Tomás Silva/ })
    .click()
  t.strictSame(await under.violations(), [])
  await under.shoot('e4-invite')
  await button(ann, 'Make the link').click()
  await ann.getByRole('heading', { name: 'Tomás Silva is invited' }).waitFor()
  tomasUrl = await ann.getByLabel('Link', { exact: true }).inputValue()
  await ann.locator('.invitation-row', { hasText: 'Tomás Silva' }).waitFor()
  await button(ann, 'Invite someone else').click()
  t.match(await found.filter({ hasText: 'Mira Okafor (you)' }).textContent(), /Going$/)
  const tomas = found.filter({ hasText: 'Tomás Silva' })
  t.match(await tomas.textContent(), /Invited$/)
  await tomas.click()
  await button(ann, 'Make the link').click()
  await ann.getByRole('alert').filter({ hasText: 'is invited already' }).waitFor()
  await under.reported(409)
})

t.test('a link and its QR code lead to the same place', async (t: Test) => {
  await ann.getByText('E-mail', { exact: true }).filter({ visible: true }).click()
  await ann.getByLabel('E-mail address').fill('bob at home')
  await button(ann, 'Make the link').click()
  await ann
    .getByRole('alert')
    .filter({ hasText: /^This is not an e-mail address\.$/ })
    .waitFor()
  await under.reported(400)
  await ann.getByLabel('E-mail address').fill('bob@example.org')
  await ann.getByLabel('Message').fill(MESSAGE)
  await button(ann, 'Make the link').click()
  await ann.getByRole('heading', { name: 'bob@example.org is invited' }).waitFor()
  await under.until(`document.querySelector('.qr').naturalWidth === 512`)
  inviteUrl = await ann.getByLabel('Link', { exact: true }).inputValue()
  t.equal(new URL(inviteUrl).origin, under.platform.page.url)
  t.match(await ann.locator('.invite .chip').textContent(), /^(1 hour|\d+ minutes) left$/)
  const picture = await ann.locator('.qr').screenshot({ scale: 'css', animations: 'disabled' })
  t.strictSame((await readQr(picture)).texts, [inviteUrl], 'as it is on the screen')
  t.strictSame(await under.violations(), [])
  await under.shoot('e5-link')
  await button(ann, 'Done').click()
  await ann.getByText('b***@example.org').waitFor()
  const row = ann.locator('.invitation-row', { hasText: 'b***' })
  t.match(await row.locator('.text').textContent(), /^Open · .* left$/)
  t.equal(await row.locator('.sent').textContent(), MESSAGE, 'what the host wrote')
  t.strictSame(await under.violations(), [])
  await under.shoot('e6-event')
})

t.test('a person who is invited already gets no second link', async () => {
  await button(ann, 'Invite').click()
  await ann.getByText('E-mail', { exact: true }).filter({ visible: true }).click()
  await ann.getByLabel('E-mail address').fill('BOB@example.org')
  await button(ann, 'Make the link').click()
  await ann.getByRole('alert').filter({ hasText: 'is invited already' }).waitFor()
  await ann.keyboard.press('Escape')
  await button(ann, 'Discard').click()
  await ann.getByRole('dialog').waitFor({ state: 'hidden' })
})

t.test('a new link ends the previous one', async (t: Test) => {
  const before = inviteUrl
  await button(ann, 'New link for b***@example.org').click()
  await ann.getByRole('heading', { name: 'New link for b***@example.org' }).waitFor()
  inviteUrl = await ann.getByLabel('Link', { exact: true }).inputValue()
  t.not(inviteUrl, before)
  await button(ann, 'Done').click()

  await bob.goto(before)
  await bob.getByRole('heading', { level: 1, name: TITLE }).waitFor()
  t.equal(await bob.getByText('Mira Okafor invites you to').count(), 1)
  t.notOk(await bob.locator('#message').isVisible(), 'the message is for those who have the link that works')
  t.strictSame(await under.violations(bob), [])
  await under.shoot('e7-landing', bob)
  await signInAs(bob, outsider())
  await bob.getByText('Ines Duarte').waitFor()
  await button(bob, 'Accept').click()
  await bob.getByRole('heading', { name: 'This link is not for you' }).waitFor()
  t.strictSame(await under.violations(bob), [])
  await under.shoot('e8-refused', bob)
  t.ok(await button(bob, 'Sign in as someone else').isVisible())
  await under.reported(404)
})

t.test('the token leaves the address at once, also when only the fragment changes', async (t: Test) => {
  await bob.goto(inviteUrl)
  await button(bob, 'Accept').waitFor()
  t.equal(await bob.locator('#message').textContent(), MESSAGE)
  t.equal(bob.url(), `${under.platform.page.url}${new URL(inviteUrl).pathname}`)
})

t.test('an answer whose response is lost counts once', async (t: Test) => {
  await bob.getByLabel('A few words').fill(MESSAGE)
  t.strictSame(await under.violations(bob), [])
  await under.shoot('e9-answer', bob)
  const keys = new Set<string | undefined>()
  let lost = 0
  await bob.route('**/respond', async (route) => {
    keys.add(route.request().headers()['idempotency-key'])
    if (lost++ > 0) return route.continue()
    await route.fetch()
    await route.abort()
  })
  await button(bob, 'Accept').dblclick()
  await bob.getByRole('heading', { name: 'Your answer may not have arrived' }).waitFor()
  await bob.reload()
  await bob.getByRole('heading', { name: 'You’re in!' }).waitFor()
  t.strictSame([lost, keys.size], [2, 1], 'repeated under the same key')
  await bob.unroute('**/respond')
  await bob.reload()
  await bob.getByRole('heading', { name: 'You’re in!' }).waitFor()
  await under.shoot('e10-accepted', bob)
  await under.reported(/ERR_FAILED/)
})

t.test('who has accepted finds the event in the page, as a new member of the group', async (t: Test) => {
  await bob.getByRole('link', { name: 'See the event' }).click()
  await bob.getByRole('heading', { level: 1, name: TITLE }).waitFor()
  await bob.locator('[data-status=accepted]', { hasText: 'Ines Duarte (you)' }).waitFor()
  t.equal(await bob.locator('#event-part').textContent(), 'You’re going')
  t.equal(await bob.locator('#organization option:checked').textContent(), 'Class of 1994')
  for (const name of ['Invite', 'Edit', 'Archive']) t.notOk(await button(bob, name).isVisible(), name)
  t.equal(await bob.getByRole('heading', { name: 'Invitations' }).count(), 0, 'addresses are for those who invite')
  t.strictSame(await under.violations(bob), [])
  await under.shoot('e11-guest', bob)
  await under.reported(404) // of the person's other group
})

t.test('an administrator who is none any more keeps the event, without its invitations', async (t: Test) => {
  const become = (role: string) =>
    query(`update memberships m set role = '${role}' from organizations o, users u
      where o.id = m.org_id and o.name = 'Class of 1994' and u.id = m.user_id and u.display_name = 'Ines Duarte'`)
  await become('admin')
  await bob.reload()
  await bob.locator('.invitation-row').first().waitFor()
  // The event says what its viewer may do after the list of invitations was refused.
  const refused = bob.waitForResponse(
    (response) => response.url().includes('/invitations?') && response.status() === 404,
  )
  await bob.route(/\/events\/evt_\w+$/, async (route) => {
    await refused
    await route.continue()
  })
  await become('member')
  await lookAgain(bob)
  await bob.getByRole('heading', { name: 'Invitations' }).waitFor({ state: 'hidden' })
  await bob.unroute(/\/events\/evt_\w+$/)
  t.ok(await bob.getByRole('heading', { level: 1, name: TITLE }).isVisible())
  for (const name of ['Invite', 'Edit', 'Archive']) t.notOk(await button(bob, name).isVisible(), name)
  await under.reported(404) // of the invitations
})

t.test('the host sees the guest without doing anything', async (t: Test) => {
  await ann.locator('[data-status=accepted] .person', { hasText: 'Ines Duarte' }).waitFor()
  // Guests and invitations are two answers.
  const row = ann.locator('.invitation-row', { hasText: 'b***' })
  await row.locator('.text', { hasText: /^Accepted by Ines Duarte$/ }).waitFor()
  t.equal(await ann.locator('.invitation-row .said').filter({ visible: true }).textContent(), MESSAGE)
  t.equal(await ann.locator('.person', { hasText: 'Tomás' }).count(), 1)
  await under.shoot('e12-host')
})

t.test('a link that was used says so, and one that never was too', async () => {
  await bob.goto('about:blank')
  await bob.goto(inviteUrl)
  await button(bob, 'Accept').click()
  await bob.getByRole('heading', { name: 'This invitation was answered already' }).waitFor()
  await bob.goto(`${under.platform.page.url}/i/AAAAAAAA#t=x`)
  await bob.getByRole('heading', { name: 'There is no such invitation' }).waitFor()
  await under.shoot('e13-unknown', bob)
  await under.reported(409, 404)
})

t.test('an invitee can answer though the link has expired, which the host sees', async () => {
  await button(bob, 'Sign in').waitFor({ state: 'hidden' })
  await bob.goto(tomasUrl)
  await button(bob, 'Not you?').click()
  await signInAs(bob, under.platform.demo.accounts.admin)
  await button(bob, 'Decline').waitFor()
  await query(`update invitations set token_expires_at = date_trunc('second', now()) where status = 'pending'`)
  await bob.reload()
  await button(bob, 'Decline').waitFor()
  await lookAgain(ann)
  await ann.locator('.invitation-row', { hasText: 'Link expired' }).waitFor()
})

t.test('a new link can be declined, which the host sees', async () => {
  await button(ann, 'New link for Tomás Silva').click()
  await ann.getByRole('heading', { name: 'New link for Tomás Silva' }).waitFor()
  const href = (await ann.getByRole('link', { name: 'Open it as someone else' }).getAttribute('href')) ?? ''
  await button(ann, 'Done').click()
  await under.until(`!/#t=/.test(document.documentElement.outerHTML)`)
  await bob.goto('about:blank')
  await bob.goto(href)
  await button(bob, 'Decline').click()
  await bob.getByRole('heading', { name: 'You declined' }).waitFor()
  await lookAgain(ann)
  await ann.locator('.invitation-row', { hasText: 'Declined' }).waitFor()
  await ann.locator('[data-status=declined] .person', { hasText: 'Tomás Silva' }).waitFor()
  await under.shoot('e12-declined')
})

t.test('a member answers without the link', async (t: Test) => {
  await button(ann, 'Invite').click()
  await ann.getByLabel('Search the members').fill('sil')
  await under.until(`document.querySelectorAll('.invite .members li').length === 1`)
  await ann
    .locator('.invite .members')
    .getByRole('button', { name: /Tomás Silva/ })
    .click()
  await button(ann, 'Make the link').click()
  await ann.getByRole('heading', { name: 'Tomás Silva is invited' }).waitFor()
  await button(ann, 'Done').click()
  t.notOk(await button(ann, 'Accept').isVisible())
  await bob.goto(`${under.platform.page.url}/${new URL(ann.url()).hash}`)
  await button(bob, 'Decline').waitFor()
  t.equal(await bob.locator('#event-note').textContent(), 'You are invited. Accept to take part.')
  await under.shoot('e12-answer', bob)
  await button(bob, 'Accept').click()
  await bob.locator('[data-status=accepted] .person', { hasText: 'Tomás Silva (you)' }).waitFor()
  await bob.locator('#event-part', { hasText: /^You’re going$/ }).waitFor()
  for (const name of ['Accept', 'Decline']) await button(bob, name).waitFor({ state: 'hidden' })
})

t.test('the demo offers its accounts on the landing page', async (t: Test) => {
  // The page of the event would go on asking, without a session.
  await bob.goto(inviteUrl)
  await button(bob, 'Accept').waitFor()
  await bob.evaluate('localStorage.clear(), sessionStorage.clear()')
  await bob.goto('about:blank')
  const key = new URLSearchParams(new URL(under.platform.page.link()).hash.slice(1)).get('key')
  await bob.goto(`${inviteUrl}&key=${key}`)
  await button(bob, /Jonas Weber/).click()
  await under.shoot('e13-accounts', bob)
  await button(bob, 'Sign in').click()
  await bob.getByText('You answer as').waitFor()
  t.equal(await bob.locator('#as-name').textContent(), 'Jonas Weber')
})

t.test('an event that is not for the viewer cannot be shown', async (t: Test) => {
  for (const id of ['evt_00000000000000000000000000', '%3Cb%3E']) {
    await bob.goto(`${under.platform.page.url}/#event=${id}`)
    await bob.getByRole('heading', { name: 'This event cannot be shown' }).waitFor()
  }
  t.notOk(await bob.locator('#event-shown').isVisible())
  await under.reported(404, 404)
  await bob.goto(inviteUrl)
  await button(bob, 'Accept').waitFor()
})

t.test('the back button leads from an event to the list and on', async (t: Test) => {
  await ann.getByRole('link', { name: 'All events' }).click()
  const card = ann.locator('.event-card')
  await card.waitFor()
  t.equal(await card.locator('.name').textContent(), TITLE)
  // A list that was seen before is shown until there is a new one.
  await card.locator('.going', { hasText: /^3 going$/ }).waitFor()
  t.strictSame(await under.violations(), [])
  await under.shoot('e14-list')
  await card.click()
  await ann.getByRole('heading', { level: 1, name: TITLE }).waitFor()
  await ann.goBack()
  await card.waitFor()
  await ann.goForward()
  await ann.getByRole('heading', { level: 1, name: TITLE }).waitFor()
  await ann.reload()
  await ann.getByRole('heading', { level: 1, name: TITLE }).waitFor()
})

t.test('nothing sticks out on a phone, by day and by night', async (t: Test) => {
  for (const [width, colorScheme] of [
    [390, 'light'],
    [360, 'dark'],
  ] as const) {
    await ann.emulateMedia({ colorScheme })
    await ann.setViewportSize({ width, height: 800 })
    await under.shoot(`e15-phone-event-${width}`)
    t.equal(await overflow(ann), 0, `event ${width}`)
    await button(ann, 'Edit').click()
    await under.shoot(`e15-phone-form-${width}`)
    await button(ann, 'Cancel').click()
    await button(ann, 'Invite').click()
    await ann.locator('.invite .account').first().waitFor()
    await under.shoot(`e15-phone-invite-${width}`)
    await button(ann, 'Cancel').click()
    await ann.getByRole('link', { name: 'All events' }).click()
    await ann.locator('.event-card').waitFor()
    await under.shoot(`e15-phone-list-${width}`)
    t.equal(await overflow(ann), 0, `list ${width}`)
    await ann.locator('.event-card').click()
    await ann.getByRole('heading', { level: 1, name: TITLE }).waitFor()
  }
  await ann.emulateMedia({ colorScheme: 'light' })
  await ann.setViewportSize({ width: 1280, height: 860 })
  await bob.setViewportSize({ width: 360, height: 800 })
  await under.shoot('e15-phone-landing', bob)
  t.equal(await overflow(bob), 0, 'landing page')
})

t.test('an archived event is read-only', async (t: Test) => {
  await button(ann, 'Archive').click()
  await under.shoot('e16-ask')
  await ann.getByRole('alertdialog').getByRole('button', { name: 'Archive' }).click()
  await under.until(`document.querySelector('#event-state').textContent === 'Archived'`)
  // Its button has the name of one that must be gone.
  await ann.getByRole('alertdialog').waitFor({ state: 'hidden' })
  for (const name of ['Invite', 'Edit', 'Activate', 'Archive', /New link/]) {
    t.equal(await button(ann, name).filter({ visible: true }).count(), 0, String(name))
  }
  t.match(
    await ann.locator('#event-purge').textContent(),
    /^Will be deleted on \d+ \w+ \d{4}|^Will be deleted on \w+ \d+, \d{4}/,
  )
  t.strictSame(await under.violations(), [])
  await under.shoot('e17-archived')
  await ann.getByRole('link', { name: 'All events' }).click()
  await ann.locator('.event-card .purge', { hasText: 'Will be deleted on' }).waitFor()
  await ann.locator('.event-card').click()
  await ann.getByRole('heading', { level: 1, name: TITLE }).waitFor()
})

t.test('its host downloads everything of it, also from the page of their data, and removes the download', async (t) => {
  await button(ann, 'Download everything').click()
  const link = ann.locator('#event-save .copy a')
  await link.waitFor()
  t.match(await link.textContent(), /^keepsake-\d{4}-\d\d-\d\d\.zip$/)
  const file = await ann.request.get((await link.getAttribute('href')) ?? '')
  t.equal(file.headers()['content-type'], 'application/zip')
  t.equal((await file.body()).subarray(0, 2).toString(), 'PK')
  t.strictSame(await under.violations(), [])
  await under.shoot('e17-download')
  await ann.setViewportSize({ width: 360, height: 800 })
  await under.shoot('e17-download-phone')
  t.equal(await overflow(ann), 0)
  await ann.setViewportSize({ width: 1280, height: 860 })
  await ann.goto(`${under.platform.page.url}/#my-data`)
  const saved = ann.getByRole('list', { name: 'Events that you saved' })
  await saved.getByRole('heading', { name: TITLE }).waitFor()
  t.strictSame(await under.violations(), [])
  await under.shoot('e17-my-data')
  await saved.getByRole('button', { name: /^Remove/ }).click()
  await saved.waitFor({ state: 'detached' })
  await ann.goBack()
  await ann.getByRole('heading', { level: 1, name: TITLE }).waitFor()
})

t.test('a draft can be deleted, which asks', async (t: Test) => {
  await bob.evaluate('localStorage.clear(), sessionStorage.clear()')
  await bob.goto(under.platform.page.link({ account: 'admin' }))
  await bob.getByRole('link', { name: 'Events' }).click()
  await button(bob, 'New event').click()
  await bob.getByLabel('Title').fill('A mistake')
  await button(bob, 'Create draft').click()
  await bob.getByRole('heading', { level: 1, name: 'A mistake' }).waitFor()
  await bob.getByLabel('More').click()
  t.strictSame(await under.violations(bob), [])
  await under.shoot('e17-menu', bob)
  await bob.keyboard.press('Escape')
  t.notOk(await button(bob, 'Delete the draft').isVisible())
  await bob.getByLabel('More').press('Enter')
  await button(bob, 'Delete the draft').click()
  const question = bob.getByRole('alertdialog', { name: 'Delete “A mistake”?' })
  await question.getByRole('button', { name: 'Cancel' }).click()
  await question.waitFor({ state: 'hidden' })
  t.equal(await bob.evaluate('document.activeElement.ariaLabel'), 'More')
  await bob.getByLabel('More').press('Enter')
  await button(bob, 'Delete the draft').click()
  await under.lookAway(bob)
  await question.getByRole('button', { name: 'Delete' }).click()
  await bob.getByRole('heading', { level: 1, name: 'Events' }).waitFor()
  await bob.locator('.event-card').first().waitFor()
  t.equal(await bob.locator('.event-card', { hasText: 'A mistake' }).count(), 0)
  await bob.getByText('The event is deleted').waitFor()
  await bob.goBack()
  t.equal(new URL(bob.url()).hash, '#events', 'not the event that is gone')
  await bob.goto(inviteUrl)
  await button(bob, 'Accept').waitFor()
})

t.test('an invitation to an archived event cannot be answered', async () => {
  await bob.reload()
  await button(bob, 'Accept').click()
  await bob.getByRole('heading', { name: 'The event is archived' }).waitFor()
  await under.reported(422)
})

t.test('a person in two groups has room for both on a phone', async (t: Test) => {
  await bob.evaluate('localStorage.clear(), sessionStorage.clear()')
  await bob.goto(under.platform.page.link({ account: 'member of lake' }))
  await bob.getByRole('heading', { level: 1 }).filter({ visible: true }).waitFor()
  await bob.getByRole('link', { name: 'Events' }).click()
  await bob.locator('#organization').selectOption({ label: 'Class of 1994' })
  await bob.locator('.event-card').waitFor()
  await under.shoot('e18-phone-groups', bob)
  t.equal(await overflow(bob), 0)
  await bob.locator('.event-card').click()
  await bob.getByRole('heading', { level: 1, name: TITLE }).waitFor()
  await bob.locator('#organization').selectOption({ label: 'Lake House Friends' })
  await bob.getByText('No events yet').waitFor()
  t.equal(new URL(bob.url()).hash, '#events')
})

t.test(
  'nor is anything of the bar outside of the window on tablets, whatever the groups are called',
  async (t: Test) => {
    const rename = (from: string, to: string) => query('update organizations set name = $2 where name = $1', [from, to])
    const NAMES = {
      'Class of 1994': 'Abiturjahrgang neunzehnhundertvierundneunzig',
      'Lake House Friends': 'Everyone who was ever at the lake house',
    }
    for (const [name, long] of Object.entries(NAMES)) await rename(name, long)
    await bob.route('**/users/me', async (route) => {
      const response = await route.fetch()
      const { data } = (await response.json()) as { data: object }
      await route.fulfill({ response, json: { data: { ...data, platform_admin: true } } })
    })
    await bob.reload()
    await bob.getByRole('link', { name: 'Audit', exact: true }).waitFor()
    for (const width of [641, 768, 832, 833, 844, 961, 1024, 1100, 1200, 1201]) {
      await bob.setViewportSize({ width, height: 700 })
      t.equal(await overflow(bob), 0, `${width}`)
      const outside = await bob.evaluate(`[...document.querySelectorAll('#bar :is(a:not(.skip), button, select)')]
      .map((e) => [e.outerHTML, e.getBoundingClientRect()]).filter(([, r]) => r.left < 0 || r.right > innerWidth).map(([text]) => text)`)
      t.strictSame(outside, [], `${width}`)
      if ([768, 844, 1024].includes(width)) await under.shoot(`e18-tablet-${width}`, bob)
    }
    for (const [name, long] of Object.entries(NAMES)) await rename(long, name)
    await bob.unroute('**/users/me')
    await bob.setViewportSize({ width: 360, height: 800 })
  },
)

t.test('what comes up is there at once, however early it was planned; a long list is continued', async (t: Test) => {
  await query(`insert into events (id, org_id, owner_id, title, start_at, status, created_at, activated_at, archived_at)
    select gen_random_uuid(), org_id, owner_id, case new when 'active' then 'Evening ' else 'Old evening ' end || n,
      now() + n * interval '1 day', new, now() - interval '1 hour' + n * interval '1 second', now(),
      case new when 'archived' then now() end
    from events, unnest(array['active', 'archived']) new, generate_series(1, 60) n`)
  await query(`insert into event_participants (event_id, user_id, org_id, status, joined_at)
    select id, owner_id, org_id, 'accepted', now() from events where title ~ 'vening '`)
  await ann.getByRole('link', { name: 'All events' }).click()
  const cardsOf = (section: number) =>
    `document.querySelectorAll('.event-section')[${section}].querySelectorAll('.event-card').length`
  await under.until(`/60 events coming up/.test(document.querySelector('.view-events .intro')?.textContent)`)
  t.match(await ann.locator('.event-card .name').first().textContent(), /^Evening 1$/)
  await under.until(`${cardsOf(0)} === 60`)
  const more = ann.getByRole('button', { name: 'Show more' }).filter({ visible: true })
  await more.click()
  await under.until(`${cardsOf(1)} === 61`)
  t.equal(await more.count(), 0)
  const asked = ann.waitForResponse((response) => /status=archived.*cursor=/.test(response.url()))
  await lookAgain(ann)
  await asked
  await under.until(`${cardsOf(1)} === 61`)
  await under.shoot('e19-many')
  await ann.goBack()
  await ann.getByRole('heading', { level: 1, name: TITLE }).waitFor()
})

t.test('HTML in what people write stays text', async (t: Test) => {
  t.equal(await ann.evaluate(`document.querySelectorAll('img[src=x], .view-event b').length`), 0)
  t.equal(await bob.evaluate(`document.querySelectorAll('img[src=x]').length`), 0)
  t.equal(await ann.locator('#event-title').textContent(), TITLE)
})

t.test('no token is in an address that was asked for, or in the log', async (t: Test) => {
  const token = tokenOf(inviteUrl)
  t.ok(token.length > 100 && asked.some((url) => url.endsWith('/respond')))
  t.strictSame(
    asked.filter((url) => url.includes('#') || url.includes(token)),
    [],
  )
  const log = await readFile(under.platform.logFile, 'utf8')
  t.match(log, /\/respond/, 'requests are in the log')
  t.notOk(log.includes(token) || log.includes(token.split('.')[2] ?? token))
  t.notOk(log.includes(member().password))
})

t.test('an address that guesses slugs is told when to come back', async (t: Test) => {
  const LETTERS = '23456789ABCDEFGHJKMNPQRSTUVWXYZ'
  let guessed = 0
  const look = async () => {
    const slug = `AAAAAA${LETTERS[Math.floor(guessed / 31) % 31]}${LETTERS[guessed++ % 31]}`
    return (await fetch(`${under.platform.demo.base_url}/api/invitations/by-slug/${slug}`)).status
  }
  while ((await look()) !== 429) if (guessed > 900) throw new Error('never refused')
  // Some more are allowed from time to time: others take them, not the page.
  let isOver = false
  const others = (async () => {
    while (!isOver) await look()
  })()
  await bob.goto(`${under.platform.page.url}/i/ZZZZZZZZ`)
  await bob.getByRole('heading', { name: 'Too many tries' }).waitFor()
  isOver = true
  await others
  t.match(await bob.locator('#result-text').textContent(), /Try again in \d+ seconds?\.$/)
  t.ok(await button(bob, 'Try again').isVisible())
  await under.reported(429)
})

t.test('all of it without an error in the console and without a request to anywhere else', (t: Test) => {
  t.strictSame(under.consoleErrors, [])
  t.strictSame(under.elsewhere, [])
  t.end()
})
