import t from 'tap'
import { formatId } from '../../../../lib/contract/ids.ts'
import { aPerson, startTestApi } from '../../../support/api.ts'
import { eventually } from '../../../support/eventually.ts'
import { invitationWorld } from '../../../support/invitations.ts'
import { whileHeld } from '../../../support/while-held.ts'

/** Who sees what of a link, who needs none, and how a guest gets a fresh one. */
const api = await startTestApi(t)
const { admin } = api.database
const world = invitationWorld(api)
const { member } = api.people
const NOTHING_MORE = { start_at: null, end_at: null, location_name: null, organization_name: null, message: null }

const show = (slug: string, as?: typeof member, token?: string) =>
  api.call(as, 'GET', `/api/invitations/by-slug/${slug}`, token ? { headers: { 'x-invitation-token': token } } : {})
const renew = (slug: string) => api.call(undefined, 'POST', `/api/invitations/by-slug/${slug}/renew`)
const due = async (id: string) =>
  (
    await admin.query(
      `select payload->>'generation' as generation from outbox where type = 'InvitationDue' and aggregate_id = $1 order by id`,
      [id],
    )
  ).rows.map(({ generation }) => Number(generation))

t.test('a slug shows title and host; the token, or being the invitee, shows the rest', async (t) => {
  const guest = await aPerson(api)
  const at = await world.event()
  const made = await world.invite(at, { uuid: guest.wireId, message: 'Come!' })
  t.match((await show(made.slug)).data, NOTHING_MORE, 'a stranger')
  t.match((await show(made.slug, member)).data, NOTHING_MORE, 'another member of the group')
  const seen = (await show(made.slug, undefined, made.token)).data
  t.match(seen, { message: 'Come!', start_at: /^2/, organization_name: /./ }, 'who has the link')
  t.strictSame((await show(made.slug, guest)).data, seen, 'the invitee')
  await world.expire(made)
  t.match((await show(made.slug, undefined, made.token)).data, NOTHING_MORE, 'a link that has expired')
  t.match((await show(made.slug, guest)).data, { message: 'Come!' }, 'the invitee needs no link')
  const refused = await show(made.slug, { ...guest, token: 'wrong' })
  t.strictSame([refused.status, refused.code], [401, 'UNAUTHORIZED'], 'a session that has ended has to be renewed')
})

t.test(
  'an invitee answers without a link, by id, verified address or verified number, however old it is',
  async (t) => {
    const number = '+491701234567'
    for (const [what, column, invited] of [
      ['id', undefined, undefined],
      ['address', 'email', world.newEmail()],
      ['number', 'phone_number', number],
    ] as const) {
      const guest = await aPerson(api)
      if (column) await admin.query(`update users set ${column} = $2 where id = $1`, [guest.id, invited])
      const other = await aPerson(api)
      const made = await world.invite(await world.event(), column ? { [column]: invited } : { uuid: guest.wireId })
      await world.expire(made)
      t.equal((await world.respond(other, made, {})).status, 404, `${what}: not another person`)
      t.not((await world.respond(other, made, { token: made.token })).status, 200, `${what}: not by the old link`)
      t.equal((await world.respond(guest, made, {})).status, 200, what)
    }
  },
)

t.test('a fresh link goes to the invitee, when the old one has expired, three times a day', async (t) => {
  const made = await world.invite(await world.event())
  t.strictSame(await due(made.id), [1])
  const early = await renew(made.slug)
  await world.expire(made)
  const answer = await renew(made.slug.toLowerCase())
  t.strictSame([answer.status, answer.data], [202, { accepted: true }])
  t.strictSame([early.status, early.data], [answer.status, answer.data], 'the same answer')
  t.strictSame(await due(made.id), [1, 2], 'the link that worked stayed')
  for (const generation of [3, 4]) {
    await world.expire(made)
    await renew(made.slug)
    t.equal((await world.row(made)).generation, generation, 'another link')
  }
  await world.expire(made)
  t.equal((await renew(made.slug)).status, 202)
  await admin.query(`update invitations set renewed_on = current_date - 1 where id = $1`, [made.id])
  await renew(made.slug)
  t.strictSame(await due(made.id), [1, 2, 3, 4, 5])
  t.equal((await world.row(made)).renewals, 1)
})

t.test(
  'forty requests, while the link expires again and again, bring the invitee three mails and leave three entries',
  async (t) => {
    const made = await world.invite(await world.event())
    for (let round = 0; round < 5; round++) {
      await world.expire(made)
      const answers = await Promise.all(Array.from({ length: 8 }, () => renew(made.slug)))
      t.strictSame(new Set(answers.map(({ status }) => status)), new Set([202]))
    }
    t.strictSame(await due(made.id), [1, 2, 3, 4])
    const { rows } = await admin.query(
      `select count(*)::int as n from audit_log where details->>'operation' = 'renew' and details->>'invitation_id' = $1`,
      [formatId('invitation', made.id)],
    )
    t.strictSame(rows, [{ n: 3 }])
  },
)

t.test('a renewal does nothing for what cannot be answered, and says nothing', async (t) => {
  const [answered, draft, archived] = await Promise.all(
    (['active', 'draft', 'active'] as const).map(async (status) => {
      const at = await world.event(status)
      return { at, made: await world.invite(at) }
    }),
  )
  if (!answered || !draft || !archived) throw new Error('three')
  await world.respond(await aPerson(api), answered.made, { token: answered.made.token })
  await world.setStatus(archived.at, 'archived')
  for (const { made } of [answered, draft, archived]) await world.expire(made)
  const last = await world.invite(await world.event())
  await world.expire(last)
  const slugs = [answered.made.slug, draft.made.slug, archived.made.slug, '22222222', 'x', last.slug]
  const took = await Promise.all(
    slugs.map(async (slug) => {
      const start = performance.now()
      const { status, data } = await renew(slug)
      t.strictSame([status, data], [202, { accepted: true }], slug)
      return performance.now() - start
    }),
  )
  t.equal((await world.row(last)).generation, 2)
  // A timer may fire a millisecond early.
  t.ok(Math.min(...took) > 240, `the time of no answer tells what is there: ${took}`)
  for (const { made } of [answered, draft, archived]) t.equal((await world.row(made)).generation, 1)
})

t.test(
  'a link that was sent to a phone number is renewed when it is dead, for nothing may bring the new one',
  async (t) => {
    const made = await world.invite(await world.event(), { phone_number: '+4915112340077' })
    await admin.query(`update invitations set token_expires_at = now() + interval '2 minutes' where id = $1`, [made.id])
    await renew(made.slug)
    t.equal((await world.row(made)).generation, 1)
    await world.expire(made)
    await renew(made.slug)
    t.equal((await world.row(made)).generation, 2)
  },
)

t.test('nothing is renewed in the name of an inviter who may not invite any more', async (t) => {
  const inviter = await aPerson(api)
  await admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'admin')`, [
    world.orgId,
    inviter.id,
  ])
  const made = await world.invite(await world.event(), { email: world.newEmail() }, inviter)
  await world.expire(made)
  await admin.query('delete from memberships where user_id = $1', [inviter.id])
  t.equal((await renew(made.slug)).status, 202)
  t.equal((await world.row(made)).generation, 1)
})

t.test('202 comes after the fresh link is stored, and not before', async (t) => {
  const at = await world.event()
  const made = await world.invite(at)
  await world.expire(made)
  let answered = false
  const lock = { text: 'select from events where id = $1 for update', values: [at.id] }
  const asked = await whileHeld(api.database, lock, async () => {
    const answer = renew(made.slug).then(({ status }) => {
      answered = true
      return status
    })
    await eventually('the renewal waits', async () => {
      const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      return (await admin.query(waiting)).rowCount === 1
    })
    // An unknown slug, asked for later, has its answer: this one could have had it too.
    await renew('22222222')
    t.notOk(answered)
    return { answer }
  })
  t.equal(await asked.answer, 202)
  t.strictSame(await due(made.id), [1, 2])
})
