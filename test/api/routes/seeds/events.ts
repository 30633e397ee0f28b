import { randomUUID } from 'node:crypto'
import { parseId } from '../../../../lib/contract/ids.ts'
import { aPerson } from '../../../support/api.ts'
import { type ListSeeds, made, type Seeds, type Side } from './seed.ts'

const event = () => ({ title: randomUUID(), start_at: '2027-05-08T16:00:00Z' })

export const anEvent = async ({ api, org, person }: Side): Promise<string> =>
  (await made(api.call(person, 'POST', `/api/orgs/${org}/events`, { json: event() }))).event_id

const anActiveEvent = async (side: Side): Promise<string> => {
  const { api, org, person } = side
  const id = await anEvent(side)
  await made(api.call(person, 'POST', `/api/orgs/${org}/events/${id}/activate`))
  return id
}

const inOrg = ({ org, person }: Side) => ({ as: person, params: { org_id: org } })
const of = (make: typeof anEvent) => async (side: Side) => ({
  as: side.person,
  params: { org_id: side.org, event_id: await make(side) },
})

/** All requests of one list ask for the same event. */
const gatherings = new WeakMap<Side, Promise<string>>()
const theGathering = (side: Side): Promise<string> => {
  const known = gatherings.get(side) ?? anEvent(side)
  gatherings.set(side, known)
  return known
}
const aParticipant = async (side: Side): Promise<string> => {
  const { api, org } = side
  const { id, wireId } = await aPerson(api)
  await api.database.admin.query(
    `insert into event_participants (event_id, user_id, org_id, status) values ($1, $2, $3, 'invited')`,
    [parseId('event', await theGathering(side)), id, parseId('organization', org)],
  )
  return wireId
}

export const eventSeeds: Seeds = {
  createEvent: (side) => ({ ...inOrg(side), json: event() }),
  listEvents: inOrg,
  listOwnEvents: ({ person }) => ({ as: person }),
  getEvent: of(anEvent),
  deleteEvent: of(anEvent),
  updateEvent: async (side) => ({ ...(await of(anEvent)(side)), json: { title: randomUUID() } }),
  activateEvent: of(anEvent),
  archiveEvent: of(anActiveEvent),
  listParticipants: of(theGathering),
}

export const eventLists: ListSeeds = {
  listOwnEvents: { add: anEvent, filter: { as_guest: 'false' } },
  listEvents: { add: anEvent, filter: { status: 'draft' } },
  listParticipants: { add: aParticipant },
}
