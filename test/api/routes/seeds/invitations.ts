import { randomInt } from 'node:crypto'
import { aPerson, pathOf, uuidOf } from '../../../support/api.ts'
import { anEvent, type MadeEvent, takePart } from '../../../support/events.ts'
import { aMember } from '../../../support/organizations.ts'
import { type ListSeeds, made, type Seeds, type Side } from './seed.ts'

const ownEvent = ({ api, org, person }: Side) =>
  anEvent(api, { org, orgId: uuidOf('organization', org), owner: person })

const newAddress = () => ({ email: `guest-${randomInt(2 ** 40)}@example.org` })

const invitationsOf = ({ org, wireId }: MadeEvent) => `/api/orgs/${org}/events/${wireId}/invitations`

const anInvitation = async (side: Side, json: object = newAddress()) =>
  made(side.api.call(side.person, 'POST', invitationsOf(await ownEvent(side)), { json }))

const aParticipant = async (side: Side) => {
  const event = await ownEvent(side)
  const orgId = uuidOf('organization', side.org)
  const as = await aMember(side.api, orgId)
  await takePart(side.api, { event, orgId, who: as })
  return { ...event, as }
}

const inEvent = async (side: Side) => ({
  as: side.person,
  params: { org_id: side.org, event_id: (await ownEvent(side)).wireId },
})

export const invitationSeeds: Seeds = {
  createInvitation: async (side) => ({ ...(await inEvent(side)), json: newAddress() }),
  listInvitations: async (side) => {
    const event = listedEvents.get(side.org) ?? (await ownEvent(side))
    listedEvents.set(side.org, event)
    return { as: side.person, params: { org_id: side.org, event_id: event.wireId } }
  },
  leaveEvent: async (side) => {
    const { wireId, as } = await aParticipant(side)
    return { as, params: { org_id: side.org, event_id: wireId } }
  },
  removeParticipant: async (side) => {
    const { wireId, as } = await aParticipant(side)
    return { as: side.person, params: { org_id: side.org, event_id: wireId, user_id: as.wireId } }
  },
  reissueInvitation: async (side) => ({
    as: side.person,
    params: { invitation_id: (await anInvitation(side)).invitation_id },
  }),
  respondToInvitation: async (side) => {
    const invitee = await aPerson(side.api)
    const { invitation_id } = await anInvitation(side, { uuid: invitee.wireId })
    return {
      as: invitee,
      params: { invitation_id },
      json: { response: 'accept', message: `Hello ${randomInt(2 ** 40)}` },
    }
  },
  getInvitationBySlug: async (side) => ({ params: { slug: (await anInvitation(side)).slug.toLowerCase() } }),
  getLandingPage: async (side) => ({ params: { slug: (await anInvitation(side)).slug } }),
  getLandingFile: () => ({ params: { file: 'invitations/landing.js' } }),
  renewInvitationLink: async (side) => ({ params: { slug: (await anInvitation(side)).slug } }),
  getInvitationQrCode: async (side) => {
    const [, , token = '', ...path] = pathOf((await anInvitation(side)).qr_png_url).split('/')
    return { params: { token, path: path.join('/') } }
  },
}

/** The event of each side whose list the suite pages through. */
const listedEvents = new Map<string, MadeEvent>()

export const invitationLists: ListSeeds = {
  listInvitations: {
    add: async (side) => {
      const event = listedEvents.get(side.org) ?? (await ownEvent(side))
      listedEvents.set(side.org, event)
      const { api, person } = side
      return (await made(api.call(person, 'POST', invitationsOf(event), { json: newAddress() }))).invitation_id
    },
  },
}
