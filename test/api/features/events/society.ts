import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import {
  AT,
  administers,
  isMember,
  latestFirst,
  madeOnce,
  nameIn,
  type Organization,
  type Part,
  peopled,
  type Society,
  type User,
  unique,
  word,
} from '../../../support/society.ts'

export interface Event {
  id: Uuid
  wireId: string
  organization: Organization
  owner: User
  status: 'draft' | 'active' | 'archived'
  title: string
  description: string
  place: string
  participants: { user: User; status: 'invited' | 'accepted' | 'declined' }[]
}

interface Events {
  events: Event[]
  /** What other features say of an event to those who see it. */
  alsoShown: ((who: User, event: Event) => object)[]
}

export const eventsOf = madeOnce((society): Events => {
  const { draw, users } = society
  const places = peopled(society)
  if (places.length === 0) return { events: [], alsoShown: [] }
  const events = draw.times(3, 5, (): Event => {
    const { organization, people } = draw.one(...places)
    const id = newUuid()
    const owner = draw.one(...people)
    const others = draw.times(1, 5, () => {
      const user = draw.one(...users)
      // Who has accepted and was never a member is a guest.
      return { user, status: draw.one('invited' as const, 'accepted' as const, 'declined' as const) }
    })
    return {
      ...{
        id,
        wireId: formatId('event', id),
        organization,
        owner,
        status: draw.one('draft', 'active', 'active', 'active'),
      },
      ...{ title: word('Title'), description: word('Description'), place: word('Place') },
      participants: unique([{ user: owner, status: 'accepted' as const }, ...others], ({ user }) => user.id),
    }
  })
  store(society, events)
  return { events, alsoShown: [] }
})

function store({ draw, api, insert, change }: Society, events: readonly Event[]): void {
  for (const event of events) {
    const { id, organization, owner, status, title, description, place, participants } = event
    insert('events', {
      ...{ id, org_id: organization.id, owner_id: owner.id, title, description, location_name: place, status },
      ...{ start_at: AT, created_at: AT, updated_at: AT, version: 1 },
    })
    for (const one of participants) {
      insert('event_participants', {
        ...{ event_id: id, org_id: organization.id, user_id: one.user.id, status: one.status, created_at: AT },
        joined_at: one.status === 'accepted' ? AT : null,
      })
    }
    for (const one of participants) {
      if (one.user === owner || !draw.rarely(5)) continue
      change(async () => {
        event.participants = event.participants.filter((other) => other !== one)
        const removed = 'delete from event_participants where event_id = $1 and user_id = $2'
        await api.database.admin.query(removed, [id, one.user.id])
      })
    }
    if (status !== 'active' || !draw.rarely(3)) continue
    change(async () => {
      event.status = 'archived'
      await api.database.admin.query(`update events set status = 'archived' where id = $1`, [id])
    })
  }
}

export const managesEvent = (society: Society, who: User, { organization, owner }: Event): boolean =>
  administers(society, who, organization) || (who === owner && isMember(society, who, organization))
/** Drafts are for those who manage them. Of the others, who takes part and is no member is a guest. */
export const seesEvent = (society: Society, who: User, event: Event): boolean =>
  event.status === 'draft'
    ? managesEvent(society, who, event)
    : isMember(society, who, event.organization) || takesPart(society, who, event)
export const isGuest = (society: Society, who: User, event: Event): boolean =>
  event.status !== 'draft' && !isMember(society, who, event.organization) && takesPart(society, who, event)
/** The name of a member, or of a guest of the event. */
export const nameAt = (society: Society, event: Event, user: User): string | null =>
  takesPart(society, user, event) ? user.name : nameIn(society, event.organization, user)
/** Who leaves the organization no longer takes part. */
export const participantsOf = (society: Society, { organization, participants }: Event) =>
  participants.filter(
    ({ user }) => !society.members.some((m) => m.hasLeft && m.user === user && m.organization === organization),
  )
export const takesPart = (society: Society, who: User, event: Event): boolean =>
  participantsOf(society, event).some(({ user, status }) => user === who && status === 'accepted')

function shownTo(society: Society, who: User, event: Event): object {
  const participants = participantsOf(society, event)
  return Object.assign(
    {
      ...{ event_id: event.wireId, org_id: event.organization.wireId, status: event.status },
      ...{ title: event.title, description: event.description, location_name: event.place },
      owner_id: event.owner.wireId,
      host_name: nameIn(society, event.organization, event.owner),
      participant_count: participants.filter(({ status }) => status === 'accepted').length,
      my_participation: participants.find(({ user }) => user === who)?.status ?? null,
    },
    ...eventsOf(society).alsoShown.map((show) => show(who, event)),
  )
}

function participantList(society: Society, event: Event) {
  const all = participantsOf(society, event).map(({ user, status }) => ({ id: user.id, user, status }))
  const participants = latestFirst(all).map(({ user, status }) => ({
    ...{ user_id: user.wireId, status, display_name: nameAt(society, event, user) },
  }))
  return { participants, total: participants.length }
}

export const part: Part = {
  of: eventsOf,
  ask(society, who) {
    const { events } = eventsOf(society)
    const list = (organization: Organization, status?: string) => {
      const here = events.filter((event) => event.organization === organization && seesEvent(society, who, event))
      const wanted = latestFirst(here).filter((event) => status === undefined || event.status === status)
      return {
        ...{
          route: 'listEvents',
          list: 'events',
          params: { org_id: organization.wireId },
          query: status ? { status } : {},
        },
        want: isMember(society, who, organization)
          ? { events: wanted.map((event) => shownTo(society, who, event)) }
          : undefined,
      }
    }
    const own = (query: Record<string, string>, isWanted: (event: Event) => boolean) => {
      const here = events.filter((event) => takesPart(society, who, event) && seesEvent(society, who, event))
      return {
        ...{ route: 'listOwnEvents', list: 'events', query },
        want: {
          events: latestFirst(here)
            .filter(isWanted)
            .map((event) => ({
              ...shownTo(society, who, event),
              org_name: event.organization.name,
              as_guest: isGuest(society, who, event),
            })),
        },
      }
    }
    return [
      own({}, () => true),
      own({ status: 'archived' }, ({ status }) => status === 'archived'),
      own({ as_guest: 'true' }, (event) => isGuest(society, who, event)),
      own({ as_guest: 'false' }, (event) => !isGuest(society, who, event)),
      ...society.organizations.flatMap((one) => [list(one), list(one, 'draft'), list(one, 'archived')]),
      ...events.flatMap((event) => {
        const params = { org_id: event.organization.wireId, event_id: event.wireId }
        const sees = seesEvent(society, who, event)
        return [
          { route: 'getEvent', params, want: sees ? shownTo(society, who, event) : undefined },
          {
            ...{ route: 'listParticipants', list: 'participants', params },
            want: sees ? participantList(society, event) : undefined,
          },
        ]
      }),
    ]
  },
}
