import { invitationLinks } from '../../../../api/features/invitations/links.ts'
import { newSlug } from '../../../../api/features/invitations/slug.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { TYPES } from '../../../../lib/runtime/web-files.ts'
import { pathOf } from '../../../support/api.ts'
import {
  AT,
  everIn,
  latestFirst,
  madeOnce,
  nameIn,
  type Part,
  type Society,
  type User,
  unique,
  word,
} from '../../../support/society.ts'
import { type Event, eventsOf, managesEvent } from '../events/society.ts'

interface Invitation {
  id: Uuid
  wireId: string
  event: Event
  slug: string
  message: string
  to: User
  by: User
  channel: 'email' | 'phone_number' | 'uuid'
  status: 'pending' | 'accepted' | 'declined' | 'revoked' | 'expired'
}

export const invitationsOf = madeOnce((society): Invitation[] => {
  const { draw, users, insert, marks } = society
  const { events, alsoShown } = eventsOf(society)
  const drawn = events.flatMap((event) =>
    draw.times(0, 3, (): Invitation => {
      const id = newUuid()
      return {
        ...{ id, wireId: formatId('invitation', id), event, slug: newSlug(), message: word('Message') },
        ...{ to: draw.one(...users), by: draw.one(...everIn(society, event.organization)) },
        channel: draw.one('email', 'phone_number', 'uuid'),
        status: draw.one('pending', 'pending', 'accepted', 'declined', 'revoked', 'expired'),
      }
    }),
  )
  const invitations = unique(drawn, ({ event, to, channel }) => `${event.id} ${channel} ${to.id}`)
  for (const one of invitations) insert('invitations', rowOf(one))
  marks.push(...invitations.map(({ slug }) => slug))
  alsoShown.push((who, event) => ({
    my_invitation_id:
      invitations.find((one) => one.event === event && one.to === who && one.channel === 'uuid' && isOpen(one))
        ?.wireId ?? null,
  }))
  return invitations
})

/** Whether its invitee can answer it now: a link expires, an invitation does not. */
const isOpen = ({ event, status }: Invitation) =>
  event.status === 'active' && (status === 'pending' || status === 'expired')
const NOTHING_MORE = { start_at: null, end_at: null, location_name: null, organization_name: null, message: null }
const isAnswered = (status: string) => status === 'accepted' || status === 'declined'
const FAR = '2999-01-01T00:00:00Z'
const expiryOf = ({ status }: Invitation) => (status === 'expired' ? AT : FAR)

function rowOf(invitation: Invitation) {
  const { id, event, slug, message, to, by, channel, status } = invitation
  return {
    ...{ id, slug, message, org_id: event.organization.id, event_id: event.id, invited_by: by.id },
    email: channel === 'email' ? to.email : null,
    phone_number: channel === 'phone_number' ? to.phone : null,
    user_id: channel === 'uuid' ? to.id : null,
    status: status === 'expired' ? 'pending' : status,
    token_expires_at: expiryOf(invitation),
    responded_by: isAnswered(status) ? to.id : null,
    responded_at: isAnswered(status) ? AT : null,
    ...{ generation: 1, version: 1, created_at: AT, updated_at: AT },
  }
}

const listedIn = (society: Society, { event, to, by, channel, ...one }: Invitation) => ({
  ...{ invitation_id: one.wireId, slug: one.slug, channel, status: one.status, message: one.message },
  invited_by: by.wireId,
  responded_by: isAnswered(one.status) ? to.wireId : null,
  invitee: {
    email: channel === 'email' ? 'm***@example.org' : null,
    phone_number: channel === 'phone_number' ? `${to.phone.slice(0, 3)}********${to.phone.slice(-2)}` : null,
    user_id: channel === 'uuid' ? to.wireId : null,
    display_name: channel === 'uuid' ? nameIn(society, event.organization, to) : null,
  },
})

export const part: Part = {
  of: invitationsOf,
  ask: (society, who) =>
    eventsOf(society).events.map((event) => {
      const listed = latestFirst(invitationsOf(society).filter((one) => one.event === event))
      return {
        ...{ route: 'listInvitations', list: 'invitations' },
        params: { org_id: event.organization.wireId, event_id: event.wireId },
        want: managesEvent(society, who, event)
          ? { invitations: listed.map((one) => listedIn(society, one)) }
          : undefined,
      }
    }),
  /** A slug says who invites to what. A QR code is for those who have its address, while the link in it works. */
  askAsNobody(society) {
    const { qrUrl } = invitationLinks(society.api.config)
    const files = [
      { route: 'getLandingFile', params: { file: 'invitations/landing.js' }, want: { type: TYPES['.js'] } },
      { route: 'getLandingFile', params: { file: 'invitations/landing.html' }, want: undefined },
    ]
    const ofLinks = invitationsOf(society).flatMap((one) => {
      const { event, id, slug, wireId, status } = one
      const host_name = nameIn(society, event.organization, event.owner)
      const isShown = event.status !== 'draft' && status !== 'revoked'
      // Signed as if it worked still, so that the invitation has to say no.
      const link = qrUrl({ id, generation: 1, expires: Date.parse(FAR) / 1000 }) ?? ''
      const [, , token = '', ...path] = pathOf(link).split('/')
      return [
        {
          ...{ route: 'getInvitationBySlug', params: { slug } },
          want: isShown ? { invitation_id: wireId, title: event.title, host_name, ...NOTHING_MORE } : undefined,
        },
        {
          ...{ route: 'getInvitationQrCode', params: { token, path: path.join('/') } },
          want: status === 'pending' ? { type: 'image/png' } : undefined,
        },
        {
          ...{ route: 'getLandingPage', params: { slug }, says: [event.title, host_name] },
          want: isShown ? { type: TYPES['.html'] } : undefined,
        },
      ]
    })
    return [...files, ...ofLinks]
  },
}
