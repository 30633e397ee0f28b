import type { Id, Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import type { Audience } from '../../db/schema/comments.ts'
import { findMembership } from '../../permissions/queries.ts'
import { type Asking, decide } from '../../permissions/rule.ts'
import { FIRST_ID } from '../../requests/own-data.ts'
import { albumActions } from '../albums/policy.ts'
import { findAlbum } from '../albums/queries.ts'
import { findEventFor } from '../events/queries.ts'
import { highlightActions } from '../highlights/policy.ts'
import { ExportRefused } from './content.ts'
import { eventExportActions } from './policy.ts'
import type { DataExportRow } from './queries.ts'

/** What the person who asked for the export of an event sees of it at this moment. */
export interface Sight {
  userId: Uuid
  orgId: Id<'organization'>
  eventId: Id<'event'>
  /** Null: the event has no album, or none that the person sees. */
  albumId: Uuid | null
  /** Of the comments that the person sees. */
  audiences: readonly Audience[]
  /** Whether the person sees films of the album: those that they made, and those of others. */
  films: { own: boolean; ofOthers: boolean }
}

const ANOTHER = FIRST_ID as Uuid

/** By the rules of the requests that show an event, asked anew in each transaction. Throws ExportRefused. */
export async function sightOf(
  tx: Tx,
  { userId, orgId, eventId }: Pick<DataExportRow, 'userId' | 'orgId' | 'eventId'>,
): Promise<Sight> {
  if (orgId === null || eventId === null) throw new Error('an export of no event')
  const member = await findMembership(tx, orgId, userId)
  const asking: Asking = { userId, role: member?.role ?? null, platformAdmin: false }
  const event = await findEventFor(tx, orgId, eventId, userId)
  if (!event) throw new ExportRefused('event_gone')
  if (decide(eventExportActions.request, asking, event) !== 'allowed') throw new ExportRefused('not_permitted')
  const album = await findAlbum(tx, { orgId, by: 'event', id: eventId, callerId: userId })
  const seesAlbum = album !== undefined && decide(albumActions.read, asking, album) === 'allowed'
  const seesFilmOf = (createdBy: Uuid) =>
    decide(highlightActions.read, asking, { createdBy, album: album ?? null }) === 'allowed'
  return {
    userId,
    orgId,
    eventId,
    albumId: seesAlbum ? album.id : null,
    audiences: seesAlbum ? ['event', 'album'] : ['event'],
    films: { own: seesFilmOf(userId), ofOthers: seesFilmOf(ANOTHER) },
  }
}
