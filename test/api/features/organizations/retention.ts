import t from 'tap'
import { startTestApi, uuidOf } from '../../../support/api.ts'
import { anEvent } from '../../../support/events.ts'
import { aMember } from '../../../support/organizations.ts'

/** An organization keeps archived events for longer than the policy, and never for less. */
const api = await startTestApi(t)
const { org, call, database } = api
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)
const [owner, admin] = [await aMember(api, orgId, { role: 'owner' }), await aMember(api, orgId, { role: 'admin' })]
const event = await anEvent(api, { org, orgId, owner: admin, status: 'archived' })
await sql(`update events set archived_at = '2026-05-08T08:00:00Z' where id = $1`, [event.id])
await sql(`insert into retention_policies (target, name, uid, rules, purge_after, suspended, dry_run)
  values ('EventArchive', 'p', 'u', '[]', 'P7Y', false, false)`)
// A guest, who is no member, sees the same time.
const guest = api.people.stranger
await sql(
  `insert into event_participants (event_id, user_id, org_id, status, joined_at) values ($1, $2, $3, 'accepted', now())`,
  [event.id, guest.id, orgId],
)
const path = `/api/organizations/${org}`
const keep = (who: typeof owner, years: unknown) => call(who, 'PATCH', path, { json: { event_retention_years: years } })
const purgeAt = async (who: typeof owner) =>
  (await call(who, 'GET', `/api/orgs/${org}/events/${event.wireId}`)).data.purge_at

t.test('its owners set it, within bounds, and purge_at follows', async (t) => {
  t.equal(await purgeAt(admin), '2033-05-08T08:00:00.000Z')
  for (const years of [0, 31, 7, 3, 8.5, '20']) t.equal((await keep(owner, years)).status, 400, String(years))
  t.equal((await keep(admin, 20)).status, 404, 'not an administrator')
  t.match((await keep(owner, 20)).data, { event_retention_years: 20 })
  t.equal(await purgeAt(admin), '2046-05-08T08:00:00.000Z')
  const list = await call(guest, 'GET', '/api/users/me/events')
  t.strictSame(
    list.data.events.map((one: { purge_at: string }) => one.purge_at),
    ['2046-05-08T08:00:00.000Z'],
    'to a guest as well',
  )
  t.equal((await keep(owner, 20)).status, 200)
  t.match((await keep(owner, null)).data, { event_retention_years: null })
  t.equal(await purgeAt(admin), '2033-05-08T08:00:00.000Z')
  t.strictSame(
    (
      await sql(`select details from audit_log where action = 'ADMIN_ACTION' and resource_id = $1 order by id`, [orgId])
    ).map(({ details }) => details),
    [
      { operation: 'set event retention', from: null, to: 20 },
      { operation: 'set event retention', from: 20, to: null },
    ],
    'what changed, once each',
  )
})

t.test('a policy that keeps events for longer than the organization wins', async (t) => {
  await keep(owner, 10)
  await sql(`update retention_policies set purge_after = 'P12Y'`)
  t.equal(await purgeAt(admin), '2038-05-08T08:00:00.000Z')
  await sql(`update retention_policies set purge_after = null`)
  t.equal(await purgeAt(admin), null)
  t.equal((await keep(owner, 1)).status, 200, 'before there is a policy, any bound is longer')
})
