import * as z from 'zod'
import type { ApiDeps } from '../../deps.ts'
import { inOrganization } from '../../http/in-organization.ts'
import { type Route, route } from '../../http/route.ts'
import { found } from '../../requests/found.ts'
import { pageOf } from '../../requests/page.ts'
import { exampleId, flag, listOf, pageQuery, pathId } from '../../requests/schemas.ts'
import { NO_REACTIONS } from '../reaction-counts/reaction-counts.ts'
import { type AboveEvents, activateEvent, archiveEvent, changeEvent, createEvent } from './commands.ts'
import { deleteEvent } from './deletion.ts'
import {
  CreateEvent,
  Event,
  EventStatus,
  ListedEvent,
  OwnEvent,
  Participant,
  ParticipantTotal,
  UpdateEvent,
} from './event.ts'

import { eventActions } from './policy.ts'
import { toEvent, toListedEvent, toOwnEvent, toParticipant, withParticipation } from './present.ts'
import {
  countParticipants,
  findEventFor,
  findShownEvent,
  listEvents,
  listEventsOfParticipant,
  listParticipants,
} from './queries.ts'

const InOrg = z.object({ org_id: pathId('organization') })
const OneEvent = InOrg.extend({ event_id: pathId('event') })
const tags = ['Events']
const EVENTS = '/api/orgs/{org_id}/events'
const ONE_EVENT = `${EVENTS}/{event_id}` as const

const GIVEN = {
  title: 'Class reunion',
  description: 'Thirty years after.',
  start_at: '2027-05-08T16:00:00.000Z',
  end_at: '2027-05-08T22:00:00.000Z',
  location_name: 'Tokyo Tower',
  location_geo: [35.6586, 139.7454],
}
const DRAFT: z.output<typeof Event> = {
  event_id: exampleId('event'),
  org_id: exampleId('organization'),
  owner_id: exampleId('user'),
  host_name: 'Ann',
  ...GIVEN,
  status: 'draft',
  created_at: '2026-11-21T09:30:00.000Z',
  updated_at: '2026-11-21T09:30:00.000Z',
  activated_at: null,
  archived_at: null,
  purge_at: null,
  participant_count: 1,
  my_participation: 'accepted',
  my_invitation_id: null,
  album_id: null,
  reaction_counts: NO_REACTIONS,
  my_reaction: null,
  can: [
    'comment.create',
    'comment.read',
    'event.activate',
    'event.delete',
    'event.invite',
    'event.list_invitations',
    'event.read',
    'event.remove_participant',
    'event.update',
    'reaction.add',
  ],
}
const ACTIVE: z.output<typeof Event> = {
  ...DRAFT,
  status: 'active',
  updated_at: '2026-11-22T10:00:00.000Z',
  activated_at: '2026-11-22T10:00:00.000Z',
  participant_count: 12,
  can: [
    'comment.create',
    'comment.read',
    'event.archive',
    'event.invite',
    'event.list_invitations',
    'event.read',
    'event.remove_participant',
    'event.update',
    'reaction.add',
  ],
}
const ARCHIVED: z.output<typeof Event> = {
  ...ACTIVE,
  status: 'archived',
  updated_at: '2027-06-01T08:00:00.000Z',
  archived_at: '2027-06-01T08:00:00.000Z',
  purge_at: '2034-06-01T08:00:00.000Z',
  can: ['comment.read', 'event.list_invitations', 'event.read'],
}
/** As an invited member sees it. */
const INVITED: z.output<typeof Event> = {
  ...ACTIVE,
  my_participation: 'invited',
  my_invitation_id: exampleId('invitation'),
  can: ['comment.create', 'comment.read', 'event.read', 'reaction.add'],
}
const { can: _, ...LISTED } = INVITED
const LAST_PAGE = { next_cursor: null, has_more: false }

const Participants = listOf('participants', Participant)
  .extend({ total: ParticipantTotal })
  .meta({ id: 'EventParticipants' })
const LATITUDE_FIRST = '`location_geo` is `[latitude, longitude]`, **latitude first**: GeoJSON has the REVERSE order.'

/** Events, and those who take part in them. */
export function eventRoutes(deps: ApiDeps, above: AboveEvents): Route[] {
  const { read, write } = inOrganization(deps)
  return [
    write({
      method: 'post',
      path: EVENTS,
      operationId: 'createEvent',
      tags,
      summary: 'Create an event, as a draft',
      description: `For every member. The caller becomes the owner and takes part. Until it is activated, only the owner and the owners and administrators of the organization can see the event. ${LATITUDE_FIRST}`,
      action: eventActions.create,
      params: InOrg,
      body: CreateEvent,
      status: 201,
      response: Event,
      examples: { request: GIVEN, response: DRAFT },
      handle: (request) => createEvent(request, request.body, above),
    }),
    read({
      method: 'get',
      path: EVENTS,
      operationId: 'listEvents',
      tags,
      summary: 'List the events of an organization, newest first',
      description: `In the order of their creation. Drafts of others are listed for owners and administrators of the organization alone. ${LATITUDE_FIRST}`,
      action: eventActions.list,
      params: InOrg,
      query: pageQuery({ default: 20, max: 100 }).extend({ status: EventStatus.optional() }),
      response: listOf('events', ListedEvent),
      examples: { response: { events: [LISTED], ...LAST_PAGE } },
      async handle({ tx, orgId, actor, member, can, query, page }) {
        await member
        const caller = { callerId: actor.userId, allDrafts: can(eventActions.listDrafts, undefined) }
        return page(
          'events',
          (wanted) => listEvents(tx, { orgId, status: query.status, ...caller, ...wanted }),
          (row) => toListedEvent(row, can, above.seesAlbum),
        )
      },
    }),
    read({
      method: 'get',
      path: ONE_EVENT,
      operationId: 'getEvent',
      tags,
      summary: 'Show one event',
      description: `A draft does not exist for members other than its owner and the owners and administrators of the organization. ${LATITUDE_FIRST}`,
      action: eventActions.read,
      params: OneEvent,
      response: Event,
      examples: { response: INVITED },
      oneRoundTrip: true,
      handle: async ({ tx, orgId, actor, params, permit, can, now }) =>
        toEvent(
          permit(withParticipation(found(await findShownEvent(tx, orgId, params.event_id, actor.userId)))),
          { can, now },
          above.seesAlbum,
        ),
    }),
    route({
      method: 'get',
      path: '/api/users/me/events',
      operationId: 'listOwnEvents',
      tags,
      summary: 'List the events that the caller takes part in, the latest joined first',
      description: `An addition to the interface specification. Of all organizations, those included of which the caller is no member: a guest of an event finds it here. Events to which the caller is only invited are left out. ${LATITUDE_FIRST}`,
      action: eventActions.listOwn,
      query: pageQuery({ default: 20, max: 100 }).extend({
        status: EventStatus.optional(),
        as_guest: flag().optional().meta({
          description: 'Only events of organizations of which the caller is no member, or only the others',
        }),
      }),
      status: 200,
      response: listOf('events', OwnEvent),
      examples: {
        response: {
          events: [
            {
              ...LISTED,
              my_participation: 'accepted',
              my_invitation_id: null,
              org_name: 'Class of 1994',
              as_guest: true,
            },
          ],
          ...LAST_PAGE,
        },
      },
      async handle({ actor, query }) {
        const { status, as_guest: asGuest } = query
        const page = pageOf(deps.cursors, { list: 'listOwnEvents', caller: actor.userId }, query)
        const data = await deps.db.readAtOnce({ user: actor.userId }, (tx) =>
          page(
            'events',
            (wanted) => listEventsOfParticipant(tx, { status, asGuest, ...wanted }),
            (row) => toOwnEvent(row, actor.userId, above.seesAlbum),
            (row) => row.joinedAt,
          ),
        )
        return { data }
      },
    }),
    write({
      method: 'put',
      path: ONE_EVENT,
      operationId: 'updateEvent',
      tags,
      summary: 'Change some fields of an event',
      description: `For the owner of the event and the owners and administrators of the organization. A field that the request does not name stays as it is; null clears an optional one. A request that names no field to change is refused. An archived event is read-only (\`EVENT_ARCHIVED\`). ${LATITUDE_FIRST}`,
      problems: ['EVENT_ARCHIVED'],
      action: eventActions.update,
      params: OneEvent,
      body: UpdateEvent,
      status: 200,
      response: Event,
      examples: {
        request: { title: 'Class reunion 2027', end_at: null },
        response: { ...DRAFT, title: 'Class reunion 2027', end_at: null },
      },
      handle: (request) => changeEvent(request, request.params.event_id, request.body, above),
    }),
    write({
      method: 'delete',
      path: ONE_EVENT,
      operationId: 'deleteEvent',
      tags,
      summary: 'Delete a draft of an event',
      description:
        'For the owner of the event and the owners and administrators of the organization. Its invitations, comments and reactions go, and its album, unless that is in `ARCHIVE` (`ALBUM_ARCHIVED`). The media items stay in the library, and highlights of the album with an `album_id` of null. An event that is active can be archived instead (`INVALID_STATE_TRANSITION`); an archived one stays (`EVENT_ARCHIVED`), and so does what a legal hold keeps (`LEGAL_HOLD`).',
      problems: ['EVENT_ARCHIVED', 'ALBUM_ARCHIVED', 'INVALID_STATE_TRANSITION', 'LEGAL_HOLD'],
      action: eventActions.delete,
      params: OneEvent,
      status: 204,
      handle: (request) => deleteEvent(request, request.params.event_id),
    }),
    write({
      method: 'post',
      path: `${ONE_EVENT}/activate`,
      operationId: 'activateEvent',
      tags,
      summary: 'Activate an event',
      description:
        'Every member of the organization can see the event from now on, and those who are invited are told. Activating an active event changes nothing and sends no second notification. An archived event cannot be activated.',
      problems: ['INVALID_STATE_TRANSITION'],
      action: eventActions.activate,
      params: OneEvent,
      status: 200,
      response: Event,
      examples: { response: ACTIVE },
      handle: (request) => activateEvent(request, request.params.event_id, above),
    }),
    write({
      method: 'post',
      path: `${ONE_EVENT}/archive`,
      operationId: 'archiveEvent',
      tags,
      summary: 'Archive an event',
      description:
        'The event is read-only from now on, for good. Archiving an archived event changes nothing. A draft cannot be archived.',
      problems: ['INVALID_STATE_TRANSITION'],
      action: eventActions.archive,
      params: OneEvent,
      status: 200,
      response: Event,
      examples: { response: ARCHIVED },
      handle: (request) => archiveEvent(request, request.params.event_id, above),
    }),
    read({
      method: 'get',
      path: `${ONE_EVENT}/participants`,
      operationId: 'listParticipants',
      tags,
      summary: 'List the participants of an event, the latest invited first',
      description:
        'For all who can see the event. The list includes invited users and those who declined; invitees without an account are only in the list of invitations. Users who leave the organization leave its events.',
      action: eventActions.read,
      params: OneEvent,
      query: pageQuery({ default: 100, max: 500 }),
      response: Participants,
      examples: {
        response: {
          participants: [
            {
              user_id: exampleId('user'),
              display_name: 'Ann',
              status: 'accepted',
              joined_at: '2026-11-21T09:30:00.000Z',
            },
          ],
          total: 1,
          ...LAST_PAGE,
        },
      },
      async handle({ tx, orgId, actor, params, permit, page }) {
        const event = permit(found(await findEventFor(tx, orgId, params.event_id, actor.userId)))
        const [listed, total] = await Promise.all([
          page('participants', (wanted) => listParticipants(tx, { eventId: event.id, ...wanted }), toParticipant),
          countParticipants(tx, event.id),
        ])
        return { ...listed, total }
      },
    }),
  ]
}
