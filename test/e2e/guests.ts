// A process of its own: the platform takes its settings from the environment.
import t, { type Test } from 'tap'
import { newUuid } from '../../lib/contract/ids.ts'
import { button, lookAgain, openForTwoPeople } from '../support/two-people.ts'

/**
 * A guest of an event on the demo page: Ann is Mira, who hosts it, and Bob is Ines, who is no member of her group.
 * `SCREENSHOTS=folder` keeps what it looked like.
 */
const { under, ann, bob, query } = await openForTwoPeople(t)
const [event, album] = [newUuid(), newUuid()]
const mira = `(select id from users where display_name = 'Mira Okafor')`
const ines = `(select id from users where display_name = 'Ines Duarte')`
const group = `(select id from organizations where name = 'Class of 1994')`
const takePart = (who: string) =>
  query(
    `insert into event_participants (event_id, user_id, org_id, status, joined_at)
      values ($1, ${who}, ${group}, 'accepted', now())`,
    [event],
  )

t.test('a guest finds the event beside those of their group', async (t: Test) => {
  await under.signIn()
  const { email, password } = under.platform.demo.accounts.outsider
  await bob.goto(under.platform.page.url)
  await bob.getByLabel('E-mail').fill(email)
  await bob.getByLabel('Password').fill(password)
  await button(bob, 'Sign in').click()
  await button(bob, 'Sign out').waitFor()
  await query(
    `insert into events (id, org_id, owner_id, title, start_at, status)
      values ($1, ${group}, ${mira}, 'Garden party', now() + interval '1 day', 'active')`,
    [event],
  )
  await takePart(mira)
  await takePart(ines)
  await query(
    `insert into albums (id, org_id, owner_id, event_id, title, visibility, status)
      values ($1, ${group}, ${mira}, $2, 'Garden album', 'participants', 'PUBLIC')`,
    [album, event],
  )
  await bob.getByRole('link', { name: 'Events' }).click()
  const section = bob.locator('#guest-events')
  await section.getByText('Garden party').waitFor()
  t.match(await section.textContent(), /As a guest.*Class of 1994/)
  t.strictSame(await under.violations(bob), [])
  await under.shoot('g1-list', bob)
})

t.test('and opens it, its album and its conversation', async (t: Test) => {
  await bob.locator('#guest-events').getByText('Garden party').click()
  await bob.getByRole('heading', { level: 1, name: 'Garden party' }).waitFor()
  await bob.locator('#event-album-title').waitFor()
  t.notOk(await button(bob, 'Attach photos').isVisible(), 'guests have nothing to attach')
  await bob.getByLabel('Write a comment. @ mentions someone').first().fill('Hello from a guest')
  await button(bob, 'Comment').click()
  await bob.locator('.comment-list').getByText('Hello from a guest').waitFor()
  t.equal(await bob.locator('.comment-author').first().textContent(), 'Ines Duarte')
  await bob.getByLabel('Write a comment. @ mentions someone').first().pressSequentially('@Mira')
  await bob.getByRole('option', { name: 'Mira Okafor' }).waitFor()
  await bob.getByLabel('Write a comment. @ mentions someone').first().fill('')
  t.strictSame(await under.violations(bob), [])
  await under.shoot('g2-event', bob)
  await bob.locator('#event-album-link').click()
  await bob.getByRole('heading', { level: 1, name: 'Garden album' }).waitFor()
  t.notOk(await button(bob, 'Add photos').isVisible())
  await bob.goBack()
})

t.test('a host removes a guest, whose page shows nothing more', async (t: Test) => {
  await ann.getByRole('link', { name: 'Events' }).click()
  await ann.getByText('Garden party').first().click()
  await ann.locator('.comment-list').getByText('Hello from a guest').waitFor()
  await button(ann, 'Remove Ines Duarte').click()
  await ann.getByRole('alertdialog').waitFor()
  t.strictSame(await under.violations(), [])
  await ann.getByRole('alertdialog').getByRole('button', { name: 'Remove' }).click()
  await button(ann, 'Remove Ines Duarte').waitFor({ state: 'hidden' })
  await lookAgain(bob)
  await bob.getByText('This event cannot be shown').waitFor()
})

t.test('a guest who belongs to no group has a page, and leaves the event there', async (t: Test) => {
  await takePart(ines)
  await query(`delete from memberships where user_id = ${ines}`)
  await bob.goto('about:blank')
  await bob.goto(under.platform.page.url)
  await bob.getByRole('heading', { level: 1, name: 'Your events' }).waitFor()
  t.strictSame(await bob.locator('nav.views a').allTextContents(), ['Events'])
  t.strictSame(await under.violations(bob), [])
  await under.shoot('g3-no-group', bob)
  await bob.getByText('Garden party').click()
  await bob.getByRole('heading', { level: 1, name: 'Garden party' }).waitFor()
  await bob.getByLabel('More', { exact: true }).first().click()
  await button(bob, 'Leave the event').click()
  await bob.getByRole('alertdialog').getByRole('button', { name: 'Leave' }).click()
  await bob.getByText('When you accept an invitation to an event, you find it here.').waitFor()
})
