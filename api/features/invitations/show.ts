import type * as z from 'zod'
import type { Uuid } from '../../../lib/contract/ids.ts'
import { notFound } from '../../../lib/contract/problem.ts'
import type { Clock } from '../../../lib/runtime/clock.ts'
import type { Database } from '../../db/db.ts'
import { organizationOf } from '../../db/organization-of.ts'
import type { RawReply } from '../../requests/bytes.ts'
import { timestamp } from '../../requests/schemas.ts'
import type { Shown } from './invitation.ts'
import { findBySlug, findLive, findShownInvitation } from './link-queries.ts'
import type { InvitationLinks } from './links.ts'
import type { QrPictures } from './qr-pictures.ts'
import { isTokenOf, type TokenContent } from './token.ts'

/** What anyone with the slug may see, and more for those who present the token and for the signed-in invitee. */
export async function showBySlug(
  db: Database,
  slug: string,
  { token, userId = null }: { token?: TokenContent | undefined; userId?: Uuid | null | undefined },
): Promise<z.input<typeof Shown>> {
  const row = await findShown(db, slug, userId)
  if (!row) throw notFound()
  const seesMore = row.isInvitee || (isTokenOf(row, token) && !row.isExpired)
  return {
    invitation_id: row.id,
    title: row.title,
    host_name: row.hostName,
    start_at: seesMore ? timestamp(row.startsAt) : null,
    end_at: seesMore ? timestamp(row.endsAt) : null,
    location_name: seesMore ? row.place : null,
    organization_name: seesMore ? row.organizationName : null,
    message: seesMore ? row.message : null,
  }
}

/** The invitation of a slug as its link shows it; undefined while the event is a draft. */
export async function findShown(db: Database, slug: string, userId: Uuid | null) {
  const at = await db.readAtOnce({}, (tx) => findBySlug(tx, slug))
  return at && db.readAtOnce({ org: at.orgId }, (tx) => findShownInvitation(tx, { ...at, userId }))
}

/** The QR code of the link that works now: after a response or a reissue the address shows nothing. */
export async function showQr(
  { db, clock, links, pictures }: { db: Database; clock: Clock; links: InvitationLinks; pictures: QrPictures },
  { token, path }: { token: string; path: string },
): Promise<RawReply> {
  const wanted = links.openQr(token, path, clock.now().getTime() / 1000)
  if (!wanted) throw notFound()
  const { id, generation } = wanted
  const orgId = await organizationOf(db, 'invitations', id)
  const row = orgId && (await db.read({ org: orgId }, (tx) => findLive(tx, orgId, id, generation)))
  if (!row) throw notFound()
  const expires = row.tokenExpiresAt.getTime() / 1000
  // Everything that the link is made of except the slug, which never changes.
  const key = `${id} ${generation} ${expires}`
  const body = await pictures(key, () => links.inviteUrl({ id, slug: row.slug, generation, expires }))
  // The picture holds a credential.
  return { status: 200, headers: { 'Content-Type': 'image/png', 'Cache-Control': 'private, no-store' }, body }
}
