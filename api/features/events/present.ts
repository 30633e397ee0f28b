import type { Permit } from '../../permissions/permit.ts'
import type { Action } from '../../permissions/rule.ts'
import { timestamp } from '../../requests/schemas.ts'
import { toCounts, toOwnReaction } from '../reaction-counts/reaction-counts.ts'
import type { Event, ListedEvent, Participant } from './event.ts'
import { EVENT } from './policy.ts'
import type { ListedParticipant, ShownEvent } from './queries.ts'

type Can = Permit<Action>['can']
type Deciding = Pick<Permit<Action>, 'can' | 'now'>
type AlbumOfEvent = NonNullable<ShownEvent['album']> & { isParticipant: boolean; eventStatus: ShownEvent['status'] }

/** Whether the caller may see the album of an event. The feature of albums passes it in, because it imports this one. */
export type SeesAlbum = (can: Can, album: AlbumOfEvent) => boolean

/** The album of the event is named only to those who may see it. */
function albumIdOf({ album, status, ...row }: ShownEvent, can: Can, sees: SeesAlbum): string | null {
  if (album === null) return null
  const { isParticipant } = withParticipation(row)
  return sees(can, { ...album, isParticipant, eventStatus: status }) ? album.id : null
}

export const withParticipation = <T extends Pick<ShownEvent, 'participation'>>(
  row: T,
): T & { isParticipant: boolean } => ({
  ...row,
  isParticipant: row.participation === 'accepted',
})

export const toEvent = (row: ShownEvent, { can, now }: Deciding, sees: SeesAlbum): Event => ({
  ...toListedEvent(row, can, sees),
  can: now(EVENT, { ...withParticipation(row), albumStatus: row.album?.status ?? null }),
})

export const toListedEvent = (row: ShownEvent, can: Can, sees: SeesAlbum): ListedEvent => ({
  event_id: row.id,
  org_id: row.orgId,
  owner_id: row.ownerId,
  host_name: row.hostName,
  title: row.title,
  description: row.description,
  start_at: timestamp(row.startAt),
  end_at: timestamp(row.endAt),
  location_name: row.locationName,
  location_geo: row.latitude === null || row.longitude === null ? null : [row.latitude, row.longitude],
  status: row.status,
  created_at: timestamp(new Date(row.createdAt)),
  updated_at: timestamp(row.updatedAt),
  activated_at: timestamp(row.activatedAt),
  archived_at: timestamp(row.archivedAt),
  participant_count: row.participantCount,
  my_participation: row.participation,
  my_invitation_id: row.invitationId,
  album_id: albumIdOf(row, can, sees),
  reaction_counts: toCounts(row.reactionCounts),
  my_reaction: toOwnReaction(row.myReaction),
})

export const toParticipant = (row: ListedParticipant): Participant => ({
  user_id: row.id,
  display_name: row.displayName,
  status: row.status,
  joined_at: timestamp(row.joinedAt),
})
