import { createHash } from 'node:crypto'
import { formatId, type Uuid } from '../../../../lib/contract/ids.ts'
import {
  AT,
  isMember,
  madeOnce,
  membershipOf,
  type Organization,
  type Part,
  type Society,
  type User,
} from '../../../support/society.ts'
import { type Album, albumsOf, seesAlbum } from '../albums/society.ts'
import { type Event, eventsOf, seesEvent } from '../events/society.ts'

interface Item {
  id: Uuid
  organization: Organization
  actor: User
  sees(who: User): boolean
  shown: object
}

/** That every event and every album was created. */
const itemsOf = madeOnce((society): Item[] => {
  const { insert } = society
  const { events } = eventsOf(society)
  // Rows refer to those of albums.
  const albums = albumsOf(society)
  const all = [...events.map(ofEvent), ...albums.map(ofAlbum)]
  return all.toSorted((a, b) => (a.id < b.id ? 1 : -1))

  function ofEvent(event: Event): Item {
    const { organization, owner: actor } = event
    const id = itemId(event.id)
    const item = { type: 'event_created', ref_type: 'event' }
    insert('timeline_items', {
      ...{
        id,
        org_id: organization.id,
        actor_id: actor.id,
        ref_id: event.id,
        at: AT,
        event_id: event.id,
        album_id: null,
      },
      ...item,
    })
    const shown = { ...item, ref_id: event.wireId, event_id: event.wireId, title: event.title }
    return { id, organization, actor, shown, sees: (who) => seesEvent(society, who, event) }
  }
  function ofAlbum(album: Album): Item {
    const { organization, owner: actor, event } = album
    const id = itemId(album.id)
    const item = { type: 'album_created', ref_type: 'album' }
    insert('timeline_items', {
      ...{ id, org_id: organization.id, actor_id: actor.id, ref_id: album.id, at: AT },
      ...{ event_id: event?.id ?? null, album_id: album.id, ...item },
    })
    const sees = (who: User) => seesAlbum(society, who, album) && (!event || seesEvent(society, who, event))
    return {
      id,
      organization,
      actor,
      shown: {
        ...item,
        ref_id: album.wireId,
        album_id: album.wireId,
        event_id: event?.wireId ?? null,
        title: album.title,
      },
      sees,
    }
  }
})

const itemId = (of: Uuid): Uuid => {
  const hex = createHash('sha256').update(of).digest('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join('-')
}

function pageOf(society: Society, who: User, of: (item: Item) => boolean) {
  const seen = itemsOf(society).filter(
    (item) => of(item) && isMember(society, who, item.organization) && item.sees(who),
  )
  return {
    items: seen.map(({ id, organization, actor, shown }) => ({
      ...{
        timeline_item_id: formatId('timelineItem', id),
        org_id: organization.wireId,
        actor_id: actor.wireId,
        ...shown,
      },
      actor_name: isMember(society, actor, organization) ? actor.name : null,
    })),
  }
}

/** From before everything. */
const BEFORE = { from: '1990-01-01T00:00:00Z', to: '1990-01-02T00:00:00Z' }

/** The timelines of organizations and users, and the feed of each user. */
export const part: Part = {
  of: itemsOf,
  ask(society, who) {
    const shared = (other: User) =>
      society.organizations.filter((one) => membershipOf(society, who, one) && membershipOf(society, other, one))
    const own = society.organizations.filter((organization) => isMember(society, who, organization))
    return [
      // The first event of a stream has only a position. One that names own organizations may arrive with it.
      {
        ...{ route: 'followFeed', query: { device_id: 'one' }, want: { type: 'text/event-stream; charset=utf-8' } },
        says: own.map(({ wireId }) => wireId),
      },
      { route: 'getFeed', list: 'items', want: pageOf(society, who, () => true) },
      { route: 'getFeed', list: 'items', query: BEFORE, want: { items: [] } },
      {
        ...{ route: 'getUserTimeline', list: 'items', params: { user_id: who.wireId }, query: BEFORE },
        want: { items: [] },
      },
      ...society.organizations.map((organization) => ({
        ...{ route: 'getOrganizationTimeline', list: 'items', params: { org_id: organization.wireId }, query: BEFORE },
        want: isMember(society, who, organization) ? { items: [] } : undefined,
      })),
      ...society.organizations.map((organization) => ({
        ...{ route: 'getOrganizationTimeline', list: 'items', params: { org_id: organization.wireId } },
        want: isMember(society, who, organization)
          ? pageOf(society, who, (item) => item.organization === organization)
          : undefined,
      })),
      ...society.users.map((other) => ({
        ...{ route: 'getUserTimeline', list: 'items', params: { user_id: other.wireId } },
        want:
          other === who || shared(other).length > 0
            ? pageOf(society, who, (item) => item.actor === other && shared(other).includes(item.organization))
            : undefined,
      })),
    ]
  },
}
