// A process of its own: the platform takes its settings from the environment.
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import t from 'tap'
import { aPerson, startApiOn, startTestApi } from '../support/api.ts'
import { ask } from '../support/ask.ts'
import { noBrowser, openBrowser } from '../support/browser.ts'
import { anEvent } from '../support/events.ts'
import { invitationWorld } from '../support/invitations.ts'
import { aMember } from '../support/organizations.ts'

/** The landing page as an installation without an app serves it. `SCREENSHOTS=folder` keeps what it looked like. */
const skip = noBrowser ?? false
const api = await startTestApi(t, { settings: { APP_STORE_URL: 'https://apps.example/keepsake' } })
const world = invitationWorld(api)
const { origin } = new URL(api.publicUrl)
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
// Without one every test is skipped.
const browser = (skip ? undefined : await openBrowser()) as Browser

async function signIn(page: Page, { email, password }: { email: string; password: string }): Promise<void> {
  await page.getByLabel('E-mail').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
}
t.teardown(() => browser?.close())

/** The same installation, where an invitation makes no one a member. */
const guestsOnly = await startApiOn(t, {
  ...{ database: api.database, identity: api.identity },
  settings: {
    AUTH_TOKEN_URL: api.identity.tokenUrl,
    AUTH_CLIENT_ID: 'keepsake',
    AUTH_CLIENT_SECRET: 'a client secret of the tests',
    LINK_KEYS: JSON.stringify(api.config.LINK_KEYS),
    JOIN_ORG_ON_ACCEPT: 'false',
  },
})

const at = await anEvent(api, {
  org: api.org,
  orgId: world.orgId,
  owner: api.people.member,
  title: 'Reunion <img src=x>',
})
/** A link as people paste it, without a place to break it. */
const PLACE = `The old school, https://maps.example/place/${'HauptstrasseElf'.repeat(12)}`
await api.database.admin.query('update events set location_name = $2 where id = $1', [at.id, PLACE])
const made = await world.invite(at, { email: world.newEmail(), message: 'It has been too long.' })

const SIZES = [
  { name: 'phone', width: 375, height: 720, colorScheme: 'dark' },
  { name: 'desktop', width: 1280, height: 800, colorScheme: 'light' },
] as const

for (const { name, width, height, colorScheme } of SIZES) {
  t.test(`the page says what it is about before it asks anything: ${name}`, { skip }, async (t) => {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme, bypassCSP: true })
    t.teardown(() => context.close())
    const page = await context.newPage()
    const [errors, asked]: string[][] = [[], []]
    page.on('pageerror', (error) => void errors?.push(String(error)))
    page.on('request', (request) => void asked?.push(request.url()))
    await page.goto(`${origin}/i/${made.slug}#t=${made.token}`)
    await page.getByText('It has been too long.').waitFor()
    t.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'Reunion <img src=x>')
    t.equal(await page.locator('#where').textContent(), PLACE)
    t.match(await page.locator('#when').textContent(), /20\d\d/)
    t.match(await page.locator('#joins').textContent(), 'you become a member of the group')
    await page.getByRole('button', { name: 'Sign in' }).waitFor()
    t.notMatch(page.url(), 't=', 'the token is taken out of the address')
    t.ok(
      asked?.every((url) => url.startsWith(origin) && !url.includes(made.token)),
      'nothing elsewhere',
    )
    t.strictSame(errors, [])
    const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
    t.ok(Number(overflow) <= 0, 'nothing is cut off')
    await page.evaluate(`${axe}; undefined`)
    const found = (await page.evaluate(`axe.run(document, { resultTypes: ['violations'] })`)) as {
      violations: { id: string }[]
    }
    t.strictSame(
      found.violations.map(({ id }) => id),
      [],
    )
    const folder = process.env['SCREENSHOTS']
    if (folder) await page.screenshot({ path: join(folder, `landing-${name}.png`), fullPage: true })
  })
}

t.test('without JavaScript it says who invites to what, and where the app is', { skip }, async (t) => {
  const context = await browser.newContext({ javaScriptEnabled: false, viewport: { width: 375, height: 720 } })
  t.teardown(() => context.close())
  const page = await context.newPage()
  await page.goto(`${origin}/i/${made.slug}#t=${made.token}`)
  await page.getByRole('heading', { level: 1, name: 'Reunion <img src=x>' }).waitFor()
  t.equal(
    await page.getByRole('link', { name: 'Get the app for iPhone' }).getAttribute('href'),
    'https://apps.example/keepsake',
  )
  const folder = process.env['SCREENSHOTS']
  if (folder) await page.screenshot({ path: join(folder, 'landing-plain.png') })
})

t.test('a browser that is too old is told so, and what the page says without it', { skip }, async (t) => {
  const warning = 'This browser is too old to show this page.'
  for (const [what, script, isOld] of [
    ['without import maps', 'delete HTMLScriptElement.supports', true],
    ['without what the page uses', 'delete Array.prototype.toSpliced', true],
    ['a supported one', '', false],
  ] as const) {
    const context = await browser.newContext()
    t.teardown(() => context.close())
    await context.addInitScript({ content: script })
    const page = await context.newPage()
    await page.goto(`${origin}/i/${made.slug}#t=${made.token}`)
    await page.getByRole('heading', { level: 1, name: 'Reunion <img src=x>' }).waitFor()
    t.equal(await page.getByText(warning).isVisible(), isOld, what)
    await page.goto(`${origin}/i/AAAAAAAA`)
    await page.getByRole('heading', { level: 1, name: 'There is no such invitation' }).waitFor()
    t.equal(await page.getByText(warning).isVisible(), false, 'what needs no script')
  }
})

t.test('a link that has expired offers a fresh one', { skip }, async (t) => {
  const late = await world.invite(at)
  await world.expire(late)
  const page = await browser.newPage()
  t.teardown(() => page.close())
  // As the page has it an hour later: the expiry is what the token says.
  const [head, body, end] = late.token.split('.')
  const claims = JSON.parse(Buffer.from(body ?? '', 'base64url').toString())
  const old = Buffer.from(JSON.stringify({ ...claims, exp: 1 })).toString('base64url')
  await page.goto(`${origin}/i/${late.slug}#t=${head}.${old}.${end}`)
  await page.getByRole('button', { name: 'Send a fresh link' }).click()
  await page.getByRole('heading', { name: 'Look at your messages' }).waitFor()
  t.equal((await world.row(late)).generation, 2)
})

t.test('it answers for the person it names, not for one who signs in elsewhere', { skip }, async (t) => {
  const [first, second, asked] = await Promise.all([aPerson(api), aPerson(api), world.invite(at)])
  const context = await browser.newContext()
  t.teardown(() => context.close())
  const [page, other] = [await context.newPage(), await context.newPage()]
  const signInAs = async (tab: typeof page, { id }: typeof first, name: string) => {
    const email = `${name}@example.org`
    api.identity.account({ sub: id, email, password: 'correct horse' })
    await api.database.admin.query('update users set display_name = $1 where id = $2', [name, id])
    await signIn(tab, { email, password: 'correct horse' })
    await tab.locator('#as-name', { hasText: name }).waitFor()
  }
  await page.goto(`${origin}/i/${asked.slug}#t=${asked.token}`)
  await signInAs(page, first, 'Jonas')
  await page.getByLabel('A few words').fill('From Jonas')
  await other.goto(`${origin}/i/${asked.slug}`)
  await other.getByRole('button', { name: 'Not you?' }).click()
  await signInAs(other, second, 'Mira')
  await page.locator('#as-name', { hasText: 'Mira' }).waitFor()
  t.equal(await page.getByLabel('A few words').inputValue(), '', 'the words of another person')
  // A press that comes before the browser has told the page: a tab hears nothing of its own changes.
  await page.evaluate(`localStorage.setItem('keepsake.session',
    JSON.stringify({ ...JSON.parse(localStorage.getItem('keepsake.session')), id: 'another' }))`)
  let sent = 0
  page.on('request', (request) => void (request.url().endsWith('/respond') && sent++))
  const looked = page.waitForResponse((response) => response.url().endsWith('/users/me'))
  await page.getByRole('button', { name: 'Accept' }).click()
  await looked
  await page.getByRole('button', { name: 'Accept' }).waitFor()
  t.equal(sent, 0)
  await page.getByRole('button', { name: 'Accept' }).click()
  await page.getByRole('heading', { name: 'You’re in!' }).waitFor()
  t.strictSame([sent, await world.isMember(first), await world.isMember(second)], [1, false, true])
})

t.test('an account with a second factor answers as well', { skip }, async (t) => {
  const [guest, asked] = [await aPerson(api), await world.invite(at)]
  const account = { email: `${guest.id}@example.org`, password: 'correct horse', code: '287082' }
  api.identity.account({ sub: guest.id, ...account })
  const page = await browser.newPage()
  t.teardown(() => page.close())
  await page.goto(`${origin}/i/${asked.slug}#t=${asked.token}`)
  await signIn(page, account)
  await page.getByLabel('Code').waitFor()
  t.equal(await page.getByRole('alert').count(), 0)
  t.equal(await page.evaluate('document.activeElement.id'), 'code')
  await page.getByRole('button', { name: 'Start over' }).click()
  await page.getByLabel('Password').waitFor()
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByLabel('Code').fill('000000')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('The code is wrong, or the time to enter it is over.').waitFor()
  await page.getByLabel('Code').fill(account.code)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: 'Accept' }).click()
  await page.getByRole('heading', { name: 'You’re in!' }).waitFor()
  t.ok(await world.isMember(guest))
})

t.test('a guest is told that they are one, and a member is not', { skip }, async (t) => {
  for (const [who, isGuest] of [
    [await aPerson(api), true],
    [await aMember(api, world.orgId), false],
  ] as const) {
    const asked = await world.invite(at, { uuid: who.wireId })
    const account = { email: `${who.id}@example.org`, password: 'correct horse' }
    api.identity.account({ sub: who.id, ...account })
    const page = await browser.newPage()
    t.teardown(() => page.close())
    await page.goto(`${new URL(guestsOnly.publicUrl).origin}/i/${asked.slug}#t=${asked.token}`)
    await signIn(page, account)
    await page.getByRole('button', { name: 'Accept' }).click()
    for (const when of ['at once', 'after a reload']) {
      await page.getByRole('heading', { name: 'You’re in!' }).waitFor()
      t.equal(/You are its guest/.test((await page.locator('#result-text').textContent()) ?? ''), isGuest, when)
      await page.reload()
    }
  }
})

t.test('“Not you?” signs out this browser, and all devices only where one cannot end alone', { skip }, async (t) => {
  for (const [claims, isAlone] of [
    [() => ({ sid: randomUUID() }), true],
    [() => ({}), false],
  ] as const) {
    const [guest, asked] = [await aPerson(api), await world.invite(at)]
    const account = { email: `${guest.id}@example.org`, password: 'correct horse' }
    api.identity.account({ sub: guest.id, ...account, claims })
    const phone = await ask(api.port, { method: 'POST', path: '/v1/api/auth/login', body: account })
    const page = await browser.newPage()
    t.teardown(() => page.close())
    await page.goto(`${origin}/i/${asked.slug}#t=${asked.token}`)
    await signIn(page, account)
    const ended = page.waitForResponse(isAlone ? '**/auth/sessions/*' : '**/auth/logout')
    await page.getByRole('button', { name: 'Not you?' }).click()
    await page.getByText('Sign in to answer.').waitFor()
    await ended
    const everywhere = page.getByText('You are signed out on all your devices')
    if (!isAlone) await everywhere.waitFor()
    t.equal(await everywhere.isVisible(), !isAlone)
    const headers = { authorization: `Bearer ${phone.json.data.access_token}` }
    t.equal((await ask(api.port, { path: '/v1/api/users/me', headers })).status, isAlone ? 200 : 401)
  }
})

t.test('a guest who is no member signs in and answers on the page, and the host sees it', { skip }, async (t) => {
  // At the root, and below the base path.
  for (const [base, button, said, status] of [
    [origin, 'Accept', 'You’re in!', 'accepted'],
    [api.publicUrl, 'Decline', 'You declined', 'declined'],
  ] as const) {
    const [guest, asked] = [await aPerson(api), await world.invite(at)]
    const account = { sub: guest.id, email: `${status}@example.org`, password: 'correct horse' }
    api.identity.account(account)
    const context = await browser.newContext()
    t.teardown(() => context.close())
    const page = await context.newPage()
    await page.goto(`${base}/i/${asked.slug}#t=${asked.token}`)
    await signIn(page, account)
    await page.getByLabel('A few words').fill(`From ${status}`)
    await page.getByRole('button', { name: button, exact: true }).click()
    await page.getByRole('heading', { name: said }).waitFor()
    const { data } = await world.list(at)
    const seen = data.invitations.find(({ slug }: { slug: string }) => slug === asked.slug)
    t.match(seen, { status, responded_by: guest.wireId }, `${status}: the host sees it`)
    t.equal(await world.isMember(guest), status === 'accepted')
    await page.reload()
    await page.getByRole('heading', { name: said }).waitFor()
    t.equal((await world.row(asked)).status, status, 'a reload changes nothing')
  }
})
