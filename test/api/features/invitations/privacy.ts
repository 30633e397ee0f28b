import t from 'tap'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { aPerson, pathOf, startTestApi } from '../../../support/api.ts'
import { asInvitation, invitationWorld, type MadeInvitation } from '../../../support/invitations.ts'

/** A token is nowhere but in responses: not in the database, not in the log, not in what is published. */
const api = await startTestApi(t)
const { admin } = api.database
const world = invitationWorld(api)
const { member } = api.people

/** Every row of every table that contains the text, by its table. */
async function rowsWith(text: string): Promise<string[]> {
  const { rows } = await admin.query(`select tablename as name from pg_tables where schemaname = 'public'`)
  const found: string[] = []
  for (const { name } of rows) {
    const { rowCount } = await admin.query(`select from ${name} r where position($1 in r::text) > 0`, [text])
    if (rowCount) found.push(name)
  }
  return found
}

const keyed = (key: string) => ({ headers: { 'idempotency-key': key } })
const isReplayed = ({ headers }: { headers: Headers }) => headers.get('idempotency-replayed') === 'true'

t.test('a repeat under an Idempotency-Key gets the same link, which was not stored', async (t) => {
  const at = await world.event()
  const path = `/api/orgs/${at.org}/events/${at.wireId}/invitations`
  const json = { email: world.newEmail() }
  const [create, again] = [newUuid(), newUuid()]
  const first = await api.call(member, 'POST', path, { json, ...keyed(create) })
  const repeated = await api.call(member, 'POST', path, { json, ...keyed(create) })
  t.strictSame([repeated.status, repeated.data, isReplayed(repeated)], [201, first.data, true])
  const made = asInvitation(first.data)
  const reissue = () => api.call(member, 'POST', `/api/invitations/${made.wireId}/reissue`, keyed(again))
  const second = await reissue()
  t.strictSame((await reissue()).data, second.data)
  t.equal((await world.row(made)).generation, 2, 'the repeat is not another reissue')
  const old = await api.call(member, 'POST', path, { json, ...keyed(create) })
  t.strictSame(old.data, first.data, 'the first response is still the first response')
  const guest = await aPerson(api)
  t.equal(
    (await world.respond(guest, made, { token: asInvitation(old.data).token })).status,
    404,
    'and its link is dead',
  )
  t.equal((await world.respond(guest, made, { token: asInvitation(second.data).token })).status, 200)
})

t.test('the token is in no table and in no line of the log', async (t) => {
  const at = await world.event()
  const guest = await aPerson(api)
  const email = world.newEmail()
  const path = `/api/orgs/${at.org}/events/${at.wireId}/invitations`
  const { data } = await api.call(member, 'POST', path, { json: { email }, ...keyed(newUuid()) })
  const first = asInvitation(data)
  const reissued = await api.call(member, 'POST', `/api/invitations/${first.wireId}/reissue`, keyed(newUuid()))
  const second = asInvitation(reissued.data)
  const links: MadeInvitation[] = [first, second]
  for (const { qrUrl, token, slug } of links) {
    await api.call(undefined, 'GET', pathOf(qrUrl))
    await api.call(undefined, 'GET', `${pathOf(qrUrl)}x`)
    const bySlug = `/api/invitations/by-slug/${slug}?token=${token}&t=${token}`
    await api.call(undefined, 'GET', bySlug, { headers: { 'x-invitation-token': token } })
    await world.respond(guest, first, { token: `${token}x` })
  }
  await admin.query('alter table invitations rename column response_message to other')
  const failed = await world.respond(guest, first, { token: second.token })
  await admin.query('alter table invitations rename column other to response_message')
  t.equal(failed.status, 500, 'not even where a bug is logged')
  await world.respond(guest, first, { token: second.token, response: 'accept' })
  await world.respond(guest, first, { token: second.token })
  const logged = JSON.stringify(api.logged)
  t.match(logged, '/q/[redacted]/')
  for (const { token, qrUrl } of links) {
    const [, , , signature = ''] = ['', ...token.split('.')]
    const [, , link = ''] = pathOf(qrUrl).split('/')
    for (const secret of [token, signature, link]) {
      t.notOk(logged.includes(secret), 'the log')
      t.strictSame(await rowsWith(secret), [], 'the database')
    }
  }
  t.strictSame(await rowsWith(email), ['invitations'], 'and the address is in its row alone')
  t.notOk(logged.includes(email))
  t.ok((await rowsWith(first.slug)).includes('idempotency_keys'), 'the search finds what is there')
})
