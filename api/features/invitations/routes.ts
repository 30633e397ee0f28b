import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod'
import type { InvitationRow } from '../../db/schema/invitations.ts'
import type { ApiDeps } from '../../deps.ts'
import { inOrganization } from '../../http/in-organization.ts'
import { completed, publicRoute, type Route, rawRoute } from '../../http/route.ts'
import { found } from '../../requests/found.ts'
import { listOf, pageQuery, pathId, timestamp } from '../../requests/schemas.ts'
import { findEvent } from '../events/queries.ts'
import { invite, reissue, respond } from './commands.ts'
import {
  Answer,
  answerExample,
  Invitation,
  InvitationLink,
  invitationExample,
  linkExample,
  NewInvitation,
  PresentedToken,
  pathSlug,
  RenewalAccepted,
  Response,
  Shown,
  StoredLink,
  targetOf,
  toAnswer,
  toInvitation,
} from './invitation.ts'
import { invitationLinks } from './links.ts'
import { leaveEvent, removeParticipant } from './participation.ts'
import { invitationActions } from './policy.ts'
import { qrPictures } from './qr-pictures.ts'
import { listInvitations } from './queries.ts'
import { renewLink } from './renewal.ts'
import { showBySlug, showQr } from './show.ts'
import { parseSlug } from './slug.ts'

const OfEvent = z.object({ org_id: pathId('organization'), event_id: pathId('event') })
const One = z.object({ invitation_id: pathId('invitation') })
const tags = ['Invitations']
/** What a renewal takes, in milliseconds: many times what its transaction needs. */
const RENEWAL_MS = 250

const toStored = ({ id, slug, generation, tokenExpiresAt }: InvitationRow): z.input<typeof StoredLink> => ({
  id,
  slug,
  generation,
  expires: tokenExpiresAt.getTime() / 1000,
})

export function invitationRoutes(deps: ApiDeps): Route[] {
  const { read, write, steps } = inOrganization(deps)
  const { config } = deps
  const links = invitationLinks(config)
  const pictures = qrPictures()
  const joinOnAccept = config.JOIN_ORG_ON_ACCEPT

  /** The link is a credential: it is made of the stored data whenever the response is sent. */
  const withLink = (route: Route) =>
    completed(route, {
      of: StoredLink,
      response: InvitationLink,
      complete: async (link) => ({
        invitation_id: link.id,
        slug: link.slug,
        invite_url: await links.inviteUrl(link),
        qr_png_url: links.qrUrl(link),
        token_expires_at: timestamp(new Date(link.expires * 1000)),
      }),
    })

  return [
    withLink(
      write({
        method: 'post',
        path: '/api/orgs/{org_id}/events/{event_id}/invitations',
        operationId: 'createInvitation',
        tags,
        limit: 'invitation',
        summary: 'Invite someone to an event',
        description:
          'By e-mail address, phone number or user id. The answer has the link to send. The link works for one hour and for one response; a reissue makes another one. The service tells the invitee too: at once if the event is active, otherwise when it is activated. Until the event is activated, the invitation shows nothing and cannot be answered. A user id must belong to a user of the service, who need not be a member of the organization; an unknown one, or that of an account that was erased, is `NOT_FOUND` with the field `body.uuid`.',
        action: invitationActions.invite,
        problems: ['EVENT_ARCHIVED', 'ALREADY_INVITED'],
        params: OfEvent,
        body: NewInvitation,
        status: 201,
        response: StoredLink,
        examples: {
          request: { email: 'bob@example.org', message: 'It has been too long.' },
          response: linkExample,
        },
        async handle(request) {
          const { body, params } = request
          const [target, message] = [targetOf(body), body.message || null]
          return toStored(await invite(request, { eventId: params.event_id, target, message }))
        },
      }),
    ),
    read({
      method: 'get',
      path: '/api/orgs/{org_id}/events/{event_id}/invitations',
      operationId: 'listInvitations',
      tags,
      summary: 'List the invitations to an event, newest first',
      description:
        'For the owner of the event and the administrators of the organization; the participants are there for all members. Addresses are masked.',
      action: invitationActions.list,
      params: OfEvent,
      query: pageQuery({ default: 20, max: 100 }),
      response: listOf('invitations', Invitation),
      examples: { response: { invitations: [invitationExample], next_cursor: null, has_more: false } },
      async handle({ tx, orgId, actor, params, permit, now, member, page }) {
        await member
        const event = permit(found(await findEvent(tx, orgId, params.event_id)))
        const asked = { orgId, eventId: event.id, callerId: actor.userId }
        return page(
          'invitations',
          (wanted) => listInvitations(tx, { ...asked, ...wanted }),
          (row) => toInvitation(row, event, now),
        )
      },
    }),
    write({
      method: 'delete',
      path: '/api/orgs/{org_id}/events/{event_id}/participants/me',
      operationId: 'leaveEvent',
      tags,
      summary: 'Leave an event',
      description:
        'For those who have accepted an invitation, members and guests, other than the owner of the event while they are a member. A member stays a member; a guest no longer sees the event. What the caller wrote stays. Pending invitations of the caller to the event are revoked.',
      action: invitationActions.leave,
      problems: ['EVENT_ARCHIVED'],
      params: OfEvent,
      status: 204,
      handle: (request) => leaveEvent(request, request.params.event_id),
    }),
    write({
      method: 'delete',
      path: '/api/orgs/{org_id}/events/{event_id}/participants/{user_id}',
      operationId: 'removeParticipant',
      tags,
      summary: 'Remove a participant, or an invited user, from an event',
      description:
        'For the owner of the event and the owners and administrators of the organization. Pending invitations of the user to the event, by user id, verified e-mail address or verified phone number, are revoked. A member stays a member, and sees what members see; a guest no longer sees the event. The user can be invited again. The owner of the event cannot be removed while they are a member (`INVALID_STATE_TRANSITION`).',
      action: invitationActions.removeParticipant,
      problems: ['EVENT_ARCHIVED', 'INVALID_STATE_TRANSITION'],
      params: OfEvent.extend({ user_id: pathId('user') }),
      status: 204,
      handle: (request) =>
        removeParticipant(request, { eventId: request.params.event_id, userId: request.params.user_id }),
    }),
    steps({
      method: 'post',
      path: '/api/invitations/{invitation_id}/respond',
      operationId: 'respondToInvitation',
      tags,
      limit: 'respond',
      summary: 'Accept or decline an invitation',
      description:
        'The caller is signed in, and is the invitee or presents the token of the invitation link. The invitee, by user id, verified e-mail address or verified phone number, needs no token: they can answer as long as the event takes answers. Of several responses one counts. Accepting makes the caller a participant of the event and, if necessary, a member of the organization; where the service makes no members this way, a caller who is not a member becomes a guest, who sees this event and its participants and nothing else of the organization. A caller who is not a member gets INVALID_STATE_TRANSITION if the inviter may no longer invite. Afterwards `GET /api/users/me` lists the organization. An invitation that was revoked, because an administrator removed its invitee from the organization, is `NOT_FOUND`.',
      action: invitationActions.respond,
      organization: { of: 'invitations', id: ({ params }) => params.invitation_id },
      problems: ['EVENT_ARCHIVED', 'INVITATION_EXPIRED', 'INVITATION_ALREADY_USED', 'INVALID_STATE_TRANSITION'],
      params: One,
      body: Response,
      status: 200,
      response: Answer,
      examples: { request: { response: 'accept', message: 'I look forward to it.' }, response: answerExample },
      async handle({ answer, params, body }) {
        const token = body.token ? await links.readToken(body.token) : undefined
        const given = { response: body.response, message: body.message || null, token, joinOnAccept }
        return answer(async (request) => toAnswer(await respond(request, params.invitation_id, given)))
      },
    }),
    withLink(
      write({
        method: 'post',
        path: '/api/invitations/{invitation_id}/reissue',
        operationId: 'reissueInvitation',
        tags,
        limit: 'invitation',
        summary: 'Replace the link of an invitation',
        description:
          'For the inviter, the owner of the event and the administrators of the organization. The previous link stops working at once; the new one works for one hour. If the event is active, the invitee is told again. The caller becomes the inviter. An invitation that was answered or revoked cannot be reissued; invite again.',
        action: invitationActions.reissue,
        organization: { of: 'invitations', id: ({ params }) => params.invitation_id },
        problems: ['EVENT_ARCHIVED', 'INVALID_STATE_TRANSITION'],
        params: One,
        status: 200,
        response: StoredLink,
        examples: { response: linkExample },
        handle: async (request) => toStored(await reissue(request, request.params.invitation_id)),
      }),
    ),
    publicRoute({
      method: 'get',
      path: '/api/invitations/by-slug/{slug}',
      operationId: 'getInvitationBySlug',
      tags,
      limit: 'slug',
      account: (_, { slug }) => slug,
      identifies: true,
      summary: 'Show who invites to what',
      description:
        'For the landing page of an invitation link, before the invitee has signed in. The same for an invitation that has expired or was answered; 404 while the event is a draft. Time, place, organization and message are for those who present the token of the link in `X-Invitation-Token`, and for the invitee. A request without an access token is served; one whose access token is refused gets `UNAUTHORIZED`.',
      problems: ['NOT_FOUND'],
      headers: PresentedToken,
      params: z.object({ slug: pathSlug }),
      status: 200,
      response: Shown,
      examples: {
        response: {
          invitation_id: linkExample.invitation_id,
          title: 'Class reunion',
          host_name: 'Ann',
          start_at: '2026-12-05T17:00:00.000Z',
          end_at: null,
          location_name: 'Café Morgenrot',
          organization_name: 'Class of 1998',
          message: 'It has been too long.',
        },
      },
      async handle({ params, headers, actor }) {
        const given = headers['x-invitation-token']
        const token = typeof given === 'string' ? await links.readToken(given) : undefined
        return { data: await showBySlug(deps.db, params.slug, { token, userId: actor?.userId }) }
      },
    }),
    publicRoute({
      method: 'post',
      path: '/api/invitations/by-slug/{slug}/renew',
      operationId: 'renewInvitationLink',
      tags,
      limit: 'renewal',
      summary: 'Ask for a fresh link',
      description:
        'For a guest whose link has expired. If the invitation can be answered and its link has expired, or does within five minutes, a new link goes to the invited address and nowhere else; at most three a day. The answer is the same in any case, and comes after the new link is stored for sending.',
      params: z.object({ slug: z.string().max(64).meta({ example: linkExample.slug }) }),
      status: 202,
      response: RenewalAccepted,
      examples: { response: { accepted: true } },
      async handle({ params, context }) {
        const slug = parseSlug(params.slug)
        // The change is committed before the answer says so, and an answer takes the same time in any case, so that it
        // does not tell whether there is such an invitation.
        const [renewal] = await Promise.allSettled([
          slug ? renewLink(deps.db, slug, context) : undefined,
          sleep(RENEWAL_MS),
        ])
        if (renewal.status === 'rejected') throw renewal.reason
        return { data: { accepted: true } }
      },
    }),
    rawRoute({
      method: 'get',
      path: '/q/{token}/{+path}',
      operationId: 'getInvitationQrCode',
      tags,
      limit: 'qr',
      summary: 'Fetch the QR code of an invitation',
      description: 'At the address `qr_png_url`, as long as the invitation link works.',
      problems: ['NOT_FOUND'],
      params: z.object({ token: z.string().max(64), path: z.string().max(64) }),
      raw: { contentTypes: ['image/png'], statuses: { 200: 'The QR code' } },
      handle: ({ params }) => showQr({ ...deps, links, pictures }, params),
    }),
  ]
}
