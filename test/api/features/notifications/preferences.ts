import t from 'tap'
import { hashOfAddress, unsubscribeToken } from '../../../../api/features/notifications/unsubscribe-token.ts'
import { aPerson, startTestApi } from '../../../support/api.ts'
import { commandLine } from '../../../support/command-line.ts'
import { eventually } from '../../../support/eventually.ts'
import { notificationWorld, notifying, scriptedChannel } from '../../../support/notifications.ts'

/** What people do not want to be told of, and what administrators see. */
const api = await startTestApi(t)
const { database, config } = api
const world = await notificationWorld(database)
const { part, sent } = scriptedChannel(({ to }) =>
  to.address.startsWith('refused') ? { is: 'refused', reason: 'EENVELOPE 550 5.1.1 at RCPT TO' } : { is: 'sent' },
)
const worker = notifying(t, database, [part])
const path = '/api/users/me/notification-preferences'
const stateOf = (address: string) =>
  eventually('an end', async () => {
    const row = (await world.deliveries(address)).at(-1)
    return row && row.state !== 'pending' && row.state !== 'sending' ? row : undefined
  })
const url = (token: string, rest = '') => `${api.publicUrl}${config.BASE_PATH}/u/${token}${rest}`
/** As a mail program sends it. */
const oneClick = (token: string, rest = '') =>
  fetch(url(token, rest), {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: 'List-Unsubscribe=One-Click',
  })
const ring = config.LINK_KEYS

async function aUser(email: string) {
  const person = await aPerson(api)
  await database.admin.query('update users set email = $2 where id = $1', [person.id, email])
  await database.admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [
    world.orgId,
    person.id,
  ])
  return person
}

t.test('a user gets everything, until they choose otherwise', async (t) => {
  const user = await aUser('chooses@example.org')
  const all = (await api.call(user, 'GET', path)).data.preferences as { channel: string; enabled: boolean }[]
  t.equal(all.length, 8)
  t.ok(all.every(({ enabled }) => enabled))
  const off = [{ channel: 'email', template: 'Mention.v1', enabled: false }]
  const { status, data } = await api.call(user, 'PUT', path, { json: { preferences: off } })
  t.equal(status, 200)
  t.strictSame(data, (await api.call(user, 'GET', path)).data)
  t.equal(data.preferences.filter((one: { enabled: boolean }) => !one.enabled).length, 1)
  const twice = await api.call(user, 'PUT', path, { json: { preferences: [...off, ...off] } })
  t.equal(twice.status, 400)

  const comment = await world.comment({ eventId: await world.event(), by: world.host.id, mentions: [user.id] })
  const invited = await world.invitation({ userId: user.id })
  await world.consume(worker, [world.mentioned(comment, user.id)])
  t.match(await stateOf('chooses@example.org'), { state: 'suppressed', reason: /does not want/ })
  await world.consume(worker, [world.due(invited)])
  t.match(await stateOf('chooses@example.org'), { state: 'sent' })
})

t.test('one click ends the mails of a user, without a login, and looking at the page does not', async (t) => {
  const user = await aUser('clicks@example.org')
  const token = unsubscribeToken(ring, { template: 'EventInvitation.v1', who: { userId: user.id } })
  const disabled = async () =>
    (await api.call(user, 'GET', path)).data.preferences.filter((one: { enabled: boolean }) => !one.enabled)
  const page = await fetch(url(token), { headers: { 'accept-language': 'de-DE,de;q=0.9' } })
  t.equal(page.status, 200)
  t.match(page.headers.get('content-security-policy'), /default-src 'none'/)
  t.match(await page.text(), /lang="de"[\s\S]*<form method="post" action="\/v1\/u\//)
  t.strictSame(await disabled(), [], 'a scanner that follows links changes nothing')
  for (let n = 0; n < 2; n++) {
    const done = await oneClick(token)
    t.equal(done.status, 200)
    t.match(await done.text(), /no more e-mails about invitations/)
  }
  t.strictSame(await disabled(), [{ channel: 'email', template: 'EventInvitation.v1', enabled: false }])
  const byAddress = await world.invitation({ email: 'clicks@example.org' })
  await world.consume(worker, [world.due(byAddress)])
  t.match(await stateOf('clicks@example.org'), { state: 'suppressed', reason: /does not want/ }, 'nor by address')
  t.notMatch(JSON.stringify(api.logged), token, 'the log holds no token')
  t.equal((await oneClick(token, '/undo')).status, 200)
  t.strictSame(await disabled(), [])
})

t.test('an address without a user unsubscribes too, and only its hash is kept', async (t) => {
  const address = 'stranger@example.org'
  const who = { addressHash: hashOfAddress('Stranger@Example.org') }
  t.equal((await oneClick(unsubscribeToken(ring, { template: 'EventInvitation.v1', who }))).status, 200)
  await world.consume(worker, [world.due(await world.invitation({ email: address }))])
  t.match(await stateOf(address), { state: 'suppressed' })
  const rows = await world.rowsOf('select address_hash::text as kept from notification_optouts')
  t.strictSame(rows, [{ kept: hashOfAddress(address) }])
  // Who then signs in with the address and wants the mails again gets them.
  const user = await aUser(address)
  const on = { preferences: [{ channel: 'email', template: 'EventInvitation.v1', enabled: true }] }
  await api.call(user, 'PUT', path, { json: on })
  await world.consume(worker, [world.due(await world.invitation({ email: address }))])
  t.match(await stateOf(address), { state: 'sent' })
})

t.test('a token that this server did not sign changes nothing', async (t) => {
  const token = unsubscribeToken(ring, { template: 'Mention.v1', who: { userId: world.host.id } })
  for (const forged of [token.replace('.1.', '.0.'), `${token.slice(0, -1)}`, token.replace(/^\w+/, 'zz'), 'x']) {
    for (const answer of [await fetch(url(forged)), await oneClick(forged), await oneClick(forged, '/undo')]) {
      t.equal(answer.status, 404, forged)
    }
  }
})

t.test('a token of the identity provider says the language of its user', async (t) => {
  const person = await aUser('speaks@example.org')
  const me = { ...person, token: await api.identity.token({ sub: person.id, claims: { locale: 'de-AT' } }) }
  await database.admin.query(`update users set updated_at = now() - interval '1 day' where id = $1`, [person.id])
  t.equal((await api.call(me, 'GET', path)).status, 200)
  t.match(await world.rowsOf('select locale from users where id = $1', [person.id]), [{ locale: 'de-AT' }])
  await world.consume(worker, [world.due(await world.invitation({ userId: person.id }))])
  await stateOf('speaks@example.org')
  t.match(sent.find(({ to }) => to.address === 'speaks@example.org')?.message.mail, {
    subject: 'Mira lädt dich ein: Class reunion',
  })
})

t.test('administrators see the deliveries with masked addresses, and send failed ones again', async (t) => {
  const run = (...args: string[]) => commandLine(args, { DATABASE_URL: database.url })
  await world.consume(worker, [world.due(await world.invitation({ email: 'refused@example.org' }))])
  await stateOf('refused@example.org')
  const listed = await run('notifications', 'list', '--state', 'failed')
  t.equal(listed.code, 0)
  t.notMatch(JSON.stringify(listed.out), /refused@/)
  const { deliveries } = listed.out
  t.match(deliveries, [
    {
      recipient: 'r***@example.org',
      channel: 'email',
      state: 'failed',
      attempts: 1,
      reason: 'EENVELOPE 550 5.1.1 at RCPT TO',
      template: 'EventInvitation.v1',
    },
  ])
  const before = sent.length
  const retried = await run('notifications', 'retry', deliveries[0].notification_id)
  t.match(retried.out, { retried: 1 })
  worker.wake()
  await eventually('the attempt', () => sent.length === before + 1)
  t.match(await stateOf('refused@example.org'), { state: 'failed', attempts: 1 })
  t.equal((await run('notifications', 'list', '--state', 'lost')).code, 2)
})
