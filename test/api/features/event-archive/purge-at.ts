import t, { type Test } from 'tap'
import { startTestApi, uuidOf } from '../../../support/api.ts'
import { anEvent, takePart } from '../../../support/events.ts'

/** When an archived event is purged, as people are told. */
const api = await startTestApi(t)
const { people, org, call, database } = api
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)
const archived = await anEvent(api, { org, orgId, owner: people.member, status: 'archived' })
await sql(`update events set archived_at = '2024-02-29T08:00:00Z' where id = $1`, [archived.id])
const active = await anEvent(api, { org, orgId, owner: people.member })
await takePart(api, { event: archived, orgId, who: people.another })

const policy = (purgeAfter: string | null) =>
  sql(
    `insert into retention_policies (target, name, uid, rules, purge_after, suspended, dry_run)
      values ('EventArchive', 'p', 'u', '[]', $1, false, false)
      on conflict (target) do update set purge_after = excluded.purge_after`,
    [purgeAfter],
  )

/** Alone, in the list of the organization, and in the person's own list. */
async function says(t: Test, at: string | null) {
  const { data } = await call(people.another, 'GET', `/api/orgs/${org}/events/${archived.wireId}`)
  t.equal(data.purge_at, at)
  for (const path of [`/api/orgs/${org}/events?status=archived`, '/api/users/me/events?status=archived']) {
    const list = await call(people.another, 'GET', path)
    t.strictSame(
      list.data.events.map((event: { purge_at: string }) => event.purge_at),
      [at],
      path,
    )
  }
}

t.test('never, where no policy purges events', async (t) => {
  await says(t, null)
  t.equal((await call(people.member, 'GET', `/api/orgs/${org}/events/${active.wireId}`)).data.purge_at, null)
})

t.test('by the policy in force, or never where it purges nothing', async (t) => {
  await policy('P10Y')
  await says(t, '2034-02-28T08:00:00.000Z')
  await policy(null)
  await says(t, null)
})

t.test('not before the time of which the owner was told last', async (t) => {
  await policy('P7Y')
  await sql(`update events set purge_notice = 2, purge_notice_for = '2031-03-05T00:00:00Z' where id = $1`, [
    archived.id,
  ])
  await says(t, '2031-03-05T00:00:00.000Z')
  await policy('P10Y')
  await says(t, '2034-02-28T08:00:00.000Z')
})
