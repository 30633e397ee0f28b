import t, { type Test } from 'tap'
import { sampleEvents } from '../../../local/demo/events.ts'
import { type Person, startTestApi } from '../../support/api.ts'
import { demoClient, untilDone } from '../../support/demo-client.ts'

/** The events of the demo, against a whole API. */
const api = await startTestApi(t)
const { member, owner, admin } = api.people

const clientOf = (person: Person, limit?: number) => demoClient(api, person, limit)
const guests = [{ userId: owner.wireId, client: clientOf(owner) }, { userId: admin.wireId }]

async function isWhole(t: Test): Promise<void> {
  const { events } = (await api.call(member, 'GET', `/api/orgs/${api.org}/events`)).data
  t.match(events.map((e: { status: string; participant_count: number }) => [e.status, e.participant_count]).sort(), [
    ['active', 2],
    ['draft', 1],
  ])
  const { event_id } = events.find((e: { status: string }) => e.status === 'active')
  const path = `/api/orgs/${api.org}/events/${event_id}`
  const { participants } = (await api.call(member, 'GET', `${path}/participants`)).data
  t.strictSame(participants.map((p: { status: string }) => p.status).sort(), ['accepted', 'accepted', 'invited'])
  const { invitations } = (await api.call(member, 'GET', `${path}/invitations`)).data
  t.strictSame(invitations.map((i: { status: string }) => i.status).sort(), ['accepted', 'pending', 'pending'])
}

t.test('a demo that is cut off anywhere is completed by the next, and a third changes nothing', async (t) => {
  await untilDone((limit) => sampleEvents(clientOf(member, limit), api.org, guests))
  await isWhole(t)
  const event = await sampleEvents(clientOf(member), api.org, guests)
  t.equal(event.status, 'active')
  await isWhole(t)
})
